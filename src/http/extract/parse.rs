//! Parses JSON of requests. A refusal names the faulty field by its path from the root of the
//! request (`jobs[3].backoff.max`).

use serde::{Deserialize, de::IgnoredAny};

use crate::http::problem::{Code, Problem};

/// Maximum number of characters of a refused value that a problem shows.
const MAX_SHOWN: usize = 300;

/// Parses a JSON object. `within` is the path of this text in the request (empty, or `jobs[3]`).
pub fn parse<'a, T: Deserialize<'a>>(json: &'a [u8], within: &str) -> Result<T, Problem> {
    // Refuses a list here: serde would accept it and fill the fields in their order.
    if !matches!(json.trim_ascii_start().first(), None | Some(b'{')) {
        return match serde_json::from_slice::<IgnoredAny>(json) {
            Ok(_) if within.is_empty() => Err(Problem::request("must be a JSON object")),
            Ok(_) => Err(Problem::field(within, "must be a JSON object")),
            Err(error) => Err(invalid_json(&error.to_string())),
        };
    }
    // One check of the whole text is cheaper than one of each string. Bytes that are not text are
    // parsed for the position of the first wrong one.
    let parsed = match std::str::from_utf8(json) {
        Ok(text) => serde_json::from_str(text),
        Err(_) => serde_json::from_slice(json),
    };
    // Tracking the path is slow, so only refused text is parsed again with it.
    parsed.map_err(|error| {
        let deserializer = &mut serde_json::Deserializer::from_slice(json);
        match serde_path_to_error::deserialize::<_, T>(deserializer) {
            Err(located) => explain(&located, within),
            // The value is complete, but other text follows it.
            Ok(_) => invalid_json(&error.to_string()),
        }
    })
}

/// Parses a JSON object; returns the default for an empty body.
pub fn parse_or_default<'a, T>(json: &'a [u8]) -> Result<T, Problem>
where
    T: Deserialize<'a> + Default,
{
    if json.iter().all(u8::is_ascii_whitespace) { Ok(T::default()) } else { parse(json, "") }
}

/// Refuses a body that has fields, for a route that takes no body.
pub fn no_body(json: &[u8]) -> Result<(), Problem> {
    #[derive(Deserialize, Default)]
    #[serde(deny_unknown_fields)]
    struct Nothing {}

    let detail = "is not known: this route takes no body; send its options in the query";
    parse_or_default::<Nothing>(json).map(drop).map_err(|problem| match &problem.field {
        Some(field) => Problem::field(field, detail),
        None => problem,
    })
}

fn explain(error: &serde_path_to_error::Error<serde_json::Error>, within: &str) -> Problem {
    let text = error.inner().to_string();
    let (message, position) = text.rsplit_once(" at line ").unwrap_or((&text, ""));
    let path = error.path().to_string();
    // The path has "?" for a name that was not read completely.
    let path = path.trim_end_matches('?').trim_matches('.');
    let path = match (within, path) {
        ("", path) => path.to_owned(),
        (within, "") => within.to_owned(),
        (within, path) => format!("{within}.{path}"),
    };
    // These values are valid JSON, but no Rust type can represent them.
    let must_be = match message {
        "number out of range" => Some("must be a number that a double can hold"),
        "lone leading surrogate in hex escape" | "unexpected end of hex escape" => {
            Some("must be text of whole characters, but it has half of a surrogate pair")
        }
        _ => None,
    };
    match must_be {
        Some(must_be) => problem(path, must_be),
        None if error.inner().is_data() => {
            let (field, detail) = explain_data_error(message, path);
            problem(field, &detail)
        }
        None if path.is_empty() => invalid_json(&text),
        None => invalid_json(&format!("{message} in `{}` at line {position}", shortened(&path))),
    }
}

fn problem(field: String, detail: &str) -> Problem {
    match field.as_str() {
        "" => Problem::request(detail),
        field => Problem::field(shortened(field), detail),
    }
}

/// Returns the path of the faulty field, which may be inside `path`, and serde's `message` in plain
/// words.
fn explain_data_error(message: &str, path: String) -> (String, String) {
    let within = |field: &str| match path.as_str() {
        "" => field.to_owned(),
        path => format!("{path}.{field}"),
    };
    let quoted = |text: &str| text.split('`').nth(1).unwrap_or_default().to_owned();
    if message.starts_with("missing field") {
        return (within(&quoted(message)), "is missing".to_owned());
    }
    if message.starts_with("duplicate field") {
        let field = quoted(message);
        let is_there = path == field || path.ends_with(&format!(".{field}"));
        return (if is_there { path } else { within(&field) }, "is given twice".to_owned());
    }
    if message.starts_with("unknown field") {
        let known = message.rsplit_once("`, ").map_or("", |(_, known)| known);
        let known = message.find("`, expected ").map_or(known, |at| &message[at + 3..]);
        return (path, format!("is not known: {known}"));
    }
    let expected = message.rsplit_once(", expected ");
    let got = ["invalid type: ", "invalid value: ", "unknown variant "]
        .into_iter()
        .find_map(|prefix| message.strip_prefix(prefix));
    if let (Some(got), Some((_, expected))) = (got, expected) {
        let got = got.strip_suffix(&format!(", expected {expected}")).unwrap_or(got);
        let (got, expected) = (in_json(got), in_json(expected));
        return (path, format!("must be {expected}, got {}", shortened(got)));
    }
    (path, shortened(message))
}

/// Translates serde's names of types to those of JSON.
fn in_json(serde: &str) -> &str {
    match serde {
        "map" => "an object",
        "sequence" => "a list",
        "a sequence" => "a list",
        "u32" | "u64" => "a whole number from 0",
        other => other,
    }
}

/// Returns the first [`MAX_SHOWN`] characters of a text.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn invalid_json(message: &str) -> Problem {
    let detail = format!("the request must be JSON: {message}");
    Problem::new(Code::InvalidJson, detail)
}

#[cfg(test)]
mod tests;
