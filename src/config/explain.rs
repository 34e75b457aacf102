//! Explanations of invalid settings in plain words, with their positions.

use std::collections::BTreeMap;

use config::ConfigError;
use toml::de::{DeTable, DeValue};

use crate::suggest;

pub type Lines = BTreeMap<String, usize>;

/// Returns the line of each key.
///
/// # Errors
/// The text is not TOML; the error names line, column and reason.
pub fn key_lines(text: &str) -> Result<Lines, String> {
    let table = DeTable::parse(text).map_err(|error| {
        let (line, column) = position(text, error.span().map_or(0, |span| span.start));
        format!("line {line}, column {column}: {}", error.message())
    })?;
    let mut lines = Lines::new();
    add("", table.get_ref(), text, &mut lines);
    Ok(lines)
}

fn add(within: &str, table: &DeTable<'_>, text: &str, lines: &mut Lines) {
    for (name, value) in table {
        let key = match within {
            "" => name.get_ref().to_string(),
            within => format!("{within}.{}", name.get_ref()),
        };
        if let DeValue::Table(table) = value.get_ref() {
            add(&key, table, text, lines);
        }
        lines.insert(key, position(text, name.span().start).0);
    }
}

/// Returns the line and column of an offset, both from 1.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.rsplit('\n').next().unwrap_or_default();
    (before.matches('\n').count() + 1, line.chars().count() + 1)
}

/// Describes an invalid value, to follow its key in a message: `must be text, got 3`.
pub fn wrong_value(cause: &ConfigError) -> String {
    match cause {
        ConfigError::At { error, .. } => wrong_value(error),
        ConfigError::Type { unexpected, expected, .. } => {
            format!("must be {}, got {}", in_plain_words(expected), given(&unexpected.to_string()))
        }
        ConfigError::Message(text) => match text.strip_prefix("invalid type: ") {
            Some(text) => {
                let (unexpected, expected) =
                    text.split_once(", expected ").unwrap_or((text, "something else"));
                format!("must be {}, got {}", in_plain_words(expected), given(unexpected))
            }
            None => text.clone(),
        },
        other => other.to_string(),
    }
}

fn in_plain_words(expected: &str) -> &str {
    match expected {
        "an integer"
        | "an unsigned 32 bit integer"
        | "an unsigned 64 bit integer"
        | "an signed 64 bit or less integer"
        | "an unsigned 64 bit or less integer"
        | "a signed 64 bit or less integer" => "a whole number",
        "a boolean" => "true or false",
        "a floating point" => "a number",
        "a string" => "text",
        other => other,
    }
}

/// Shortens "integer `3`" to `3`, and "string \"x\"" to `"x"`.
fn given(unexpected: &str) -> &str {
    match unexpected {
        "sequence" => "a list",
        "map" => "a table",
        "unit value" => "nothing",
        other => other.find(['`', '"']).map_or(other, |at| other[at..].trim_matches('`')),
    }
}

/// Returns the error about a key that is not a setting, to follow the key in a message.
pub fn unknown_key(key: &str, known: &[String]) -> String {
    let section = key.split('.').next().unwrap_or_default();
    let of_section = known.iter().filter_map(|known| known.split_once('.'));
    let of_section: Vec<&str> =
        of_section.filter(|(own, _)| *own == section).map(|(_, name)| name).collect();
    let sections = || known.iter().filter_map(|known| known.split('.').next());
    if key == section && !of_section.is_empty() {
        return format!("must be a table of settings: [{section}]");
    }
    let meant = match key.contains('.') {
        true => suggest::nearest(key, known.iter().map(String::as_str)),
        false => suggest::nearest(key, sections()),
    };
    match (meant, of_section.is_empty()) {
        (Some(meant), _) => format!("is not a setting; did you mean {meant}?"),
        (None, false) => format!("is not a setting; [{section}] has {}", of_section.join(", ")),
        (None, true) => {
            let mut sections: Vec<&str> = sections().collect();
            sections.dedup();
            format!("is not a setting; the sections are {}", sections.join(", "))
        }
    }
}
