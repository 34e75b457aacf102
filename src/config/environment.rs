//! Settings from the environment: `DELAY_QUEUE__<SECTION>__<KEY>`.

use std::{collections::BTreeMap, ffi::OsString};

use config::{Value, ValueKind};

use super::{error::SettingsError, renamed};

/// The value of each given key, from the last source that gives one.
pub type Given = BTreeMap<String, Value>;

const PREFIX: &str = "DELAY_QUEUE_";

fn variable(key: &str) -> String {
    format!("{PREFIX}_{}", key.replace('.', "__").to_uppercase())
}

/// Adds the values of variables, which are all text. Text in the usual form of a number is read as
/// that number, as in a file (`DELAY_QUEUE__JOB_DEFAULTS__TTR=30`). A leading zero is not the usual
/// form, so a password `007` stays text.
///
/// A variable that has the prefix but names no setting is an error: a misspelt setting would
/// otherwise have no effect.
pub fn read(
    variables: impl Iterator<Item = (OsString, OsString)>,
    keys: &[String],
    given: &mut Given,
    errors: &mut Vec<SettingsError>,
) {
    for (name, value) in variables {
        let name = name.to_string_lossy().into_owned();
        let upper = name.to_uppercase();
        // Clients use this variable for the token of `delay-queue token --url`.
        if !upper.starts_with(PREFIX) || is_of_a_service(&upper) || upper == "DELAY_QUEUE_TOKEN" {
            continue;
        }
        let key = keys.iter().find(|key| variable(key) == upper);
        match (key, value.into_string()) {
            (Some(key), Ok(value)) => {
                let kind = number(&value).unwrap_or(ValueKind::String(value));
                given.insert(key.clone(), Value::new(Some(&name), kind));
            }
            (Some(_), Err(_)) => {
                let advice = "must be UTF-8".to_owned();
                errors.push(SettingsError::Variable { name, advice });
            }
            (None, _) => {
                let advice = no_setting(&upper, keys);
                errors.push(SettingsError::Variable { name, advice });
            }
        }
    }
}

/// Returns whether Kubernetes set the variable for a service named delay-queue or delay-queue-*.
fn is_of_a_service(name: &str) -> bool {
    let port = name.split("_PORT").nth(1);
    let number =
        |port: &str| port.starts_with('_') && port[1..].starts_with(|c: char| c.is_ascii_digit());
    name.contains("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || port.is_some_and(|port| port.is_empty() || number(port))
}

/// Returns the advice about a variable that is not a setting.
fn no_setting(name: &str, keys: &[String]) -> String {
    if let Some(new) = renamed::new_name(|old| variable(old) == name) {
        return format!("was renamed: use {}", variable(new));
    }
    let plain = |name: &str| name[PREFIX.len()..].replace('_', "");
    let near = |right: &String| strsim::normalized_damerau_levenshtein(&plain(name), &plain(right));
    let rights = keys.iter().map(|key| variable(key));
    match rights.max_by(|a, b| near(a).total_cmp(&near(b))).filter(|right| near(right) >= 0.5) {
        Some(right) => format!("is not a setting; did you mean {right}?"),
        None => "is not a setting; config/default.toml lists all settings".to_owned(),
    }
}

fn number(text: &str) -> Option<ValueKind> {
    let whole = text.parse::<i64>().ok().filter(|number| number.to_string() == text);
    let fraction = text.parse::<f64>().ok().filter(|number| number.to_string() == text);
    let fraction = fraction.filter(|number| number.is_finite());
    whole.map(ValueKind::I64).or(fraction.map(ValueKind::Float))
}

#[cfg(test)]
mod tests;
