//! The sources of settings: defaults, file, environment, flags. Each value is first tried alone, on
//! top of the defaults, so that one run reports all invalid values.

use std::{fs, path::Path};

use config::{Config, ConfigError, File, FileFormat, Map, Source, Value, ValueKind};

use super::{
    DEFAULTS, Flags, Settings, SettingsError,
    environment::{self, Given},
    explain::{self, Lines},
};

/// Reads all sources. For an invalid value, adds an error and uses the default.
pub fn read(flags: &Flags, errors: &mut Vec<SettingsError>) -> Result<Settings, ConfigError> {
    let defaults = File::from_str(DEFAULTS, FileFormat::Toml);
    let defaults = Config::builder().add_source(defaults).build()?;
    let mut given = Given::new();
    let mut lines = Lines::new();
    if let Some(file) = &flags.file {
        match read_file(file) {
            Ok((content, key_lines)) => {
                flatten("", content, &mut given);
                lines = key_lines;
            }
            Err(cause) => errors.push(SettingsError::File { file: file.clone(), cause }),
        }
    }
    let known = serde_json::to_value(merge(&defaults, &Given::new())?).unwrap_or_default();
    let keys = keys(&known);
    environment::read(std::env::vars_os(), &keys, &mut given, errors);
    for (key, flag, value) in
        [("server.listen", "--listen", &flags.listen), ("store.url", "--store", &flags.store)]
    {
        if let Some(value) = value {
            given.insert(key.to_owned(), Value::new(Some(&flag.to_owned()), value.clone()));
        }
    }
    given.retain(|key, value| {
        let alone = || merge(&defaults, &Given::from([(key.clone(), value.clone())]));
        let within = format!("{key}.");
        let is_section = || keys.iter().any(|known| known.starts_with(&within));
        let is_table = matches!(value.kind, ValueKind::Table(_));
        let is_known = keys.contains(key) || (is_table && is_section());
        let wrong = match is_known.then(alone) {
            None => explain::unknown_key(key, &keys),
            Some(Err(cause)) => explain::wrong_value(&cause),
            Some(Ok(settings)) => match conversion_error(&settings, key, value) {
                None => return true,
                Some(wrong) => wrong,
            },
        };
        let origin = origin(flags, &lines, key, value);
        errors.push(SettingsError::Key { key: key.clone(), wrong, origin });
        false
    });
    merge(&defaults, &given)
}

/// Returns the content of a settings file, and the line of each key.
fn read_file(file: &Path) -> Result<(Map<String, Value>, Lines), String> {
    let text = fs::read_to_string(file).map_err(|cause| cause.to_string())?;
    let lines = explain::key_lines(&text)?;
    let content = File::from_str(&text, FileFormat::Toml).collect();
    Ok((content.map_err(|cause| cause.to_string())?, lines))
}

/// Returns an error if the crate `config` has silently converted a value: a number to a boolean, or
/// a fraction to a whole number.
fn conversion_error(settings: &Settings, key: &str, value: &Value) -> Option<String> {
    let settings = serde_json::to_value(settings).ok()?;
    let converted = settings.pointer(&format!("/{}", key.replace('.', "/")))?;
    let must_be = match value.kind {
        ValueKind::I64(_) | ValueKind::Float(_) if converted.is_boolean() => "true or false",
        ValueKind::Float(given) if given.fract() != 0.0 && converted.is_u64() => "a whole number",
        _ => return None,
    };
    Some(format!("must be {must_be}, got {value}"))
}

/// Returns where a value was given: file and line, variable or flag.
fn origin(flags: &Flags, lines: &Lines, key: &str, value: &Value) -> String {
    match (value.origin(), &flags.file, lines.get(key)) {
        (Some(origin), ..) => format!(" ({origin})"),
        (None, Some(file), Some(line)) => format!(" ({}, line {line})", file.display()),
        _ => String::new(),
    }
}

/// Builds the settings from the defaults and the given values.
fn merge(defaults: &Config, given: &Given) -> Result<Settings, ConfigError> {
    let mut all = Config::builder().add_source(defaults.clone());
    for (key, value) in given {
        all = all.set_override(key, value.clone())?;
    }
    all.build()?.try_deserialize()
}

/// Adds the values of a table and its nested tables, each with its full key.
fn flatten(within: &str, table: Map<String, Value>, given: &mut Given) {
    for (name, value) in table {
        let key = if within.is_empty() { name } else { format!("{within}.{name}") };
        match value.kind {
            ValueKind::Table(table) if !table.is_empty() => flatten(&key, table, given),
            _ => drop(given.insert(key, value)),
        }
    }
}

/// Returns the keys of all settings, including those without a value.
fn keys(settings: &serde_json::Value) -> Vec<String> {
    fn add(within: &str, value: &serde_json::Value, keys: &mut Vec<String>) {
        match value.as_object() {
            Some(fields) => {
                for (name, value) in fields {
                    let key = [within, name].join(if within.is_empty() { "" } else { "." });
                    add(&key, value, keys);
                }
            }
            None => keys.push(within.to_owned()),
        }
    }
    let mut keys = Vec::new();
    add("", settings, &mut keys);
    keys
}
