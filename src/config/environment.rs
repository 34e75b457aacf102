//! Settings from the environment: `DELAY_QUEUE__<SECTION>__<KEY>`.

use std::{collections::BTreeMap, ffi::OsString};

use config::{Value, ValueKind};

use super::error::SettingsError;

/// The given values by key. If several sources give a value, the last source counts.
pub type Given = BTreeMap<String, Value>;

const PREFIX: &str = "DELAY_QUEUE_";

fn variable(key: &str) -> String {
    format!("{PREFIX}_{}", key.replace('.', "__").to_uppercase())
}

/// Adds the values of variables. A variable is text, but text in the usual form of a number becomes
/// this number, as in a file (`DELAY_QUEUE__JOB_DEFAULTS__TTR=30`). A leading zero is not the usual
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
        if !upper.starts_with(PREFIX) || is_kubernetes_service(&upper) || is_of_client(&upper) {
            continue;
        }
        let key = keys.iter().find(|key| variable(key) == upper);
        match (key, value.into_string()) {
            (Some(key), Ok(value)) => {
                let kind = parse_number(&value).unwrap_or(ValueKind::String(value));
                given.insert(key.clone(), Value::new(Some(&name), kind));
            }
            (Some(_), Err(_)) => {
                let advice = "must be UTF-8".to_owned();
                errors.push(SettingsError::Variable { name, advice });
            }
            (None, _) => {
                let advice = unknown_variable(&upper, keys);
                errors.push(SettingsError::Variable { name, advice });
            }
        }
    }
}

/// Returns whether the commands of a client read the variable, or `work` sets it for its commands,
/// which may start a server.
fn is_of_client(name: &str) -> bool {
    const OF_CLIENTS: [&str; 4] = ["URL", "TOKEN", "CA_FILE", "CONTEXT"];
    const OF_JOBS: [&str; 7] =
        ["ID", "TOPIC", "ATTEMPT", "MAX_ATTEMPTS", "DUE_AT", "RESERVATION", "TRACEPARENT"];
    let name = &name[PREFIX.len()..];
    OF_CLIENTS.contains(&name)
        || name.strip_prefix("JOB_").is_some_and(|of_job| {
            OF_JOBS.contains(&of_job)
                || of_job.strip_prefix("HEADER_").is_some_and(|header| !header.is_empty())
        })
}

/// Returns whether Kubernetes set the variable for a service named delay-queue or delay-queue-*.
fn is_kubernetes_service(name: &str) -> bool {
    let port = name.split("_PORT").nth(1);
    let is_numbered =
        |port: &str| port.starts_with('_') && port[1..].starts_with(|c: char| c.is_ascii_digit());
    name.contains("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || port.is_some_and(|port| port.is_empty() || is_numbered(port))
}

/// Returns the error about a variable that is not a setting, to follow its name in a message.
fn unknown_variable(name: &str, keys: &[String]) -> String {
    let plain = |name: &str| name[PREFIX.len()..].replace('_', "");
    let similarity = |candidate: &String| {
        strsim::normalized_damerau_levenshtein(&plain(name), &plain(candidate))
    };
    let candidates = keys.iter().map(|key| variable(key));
    match candidates
        .max_by(|a, b| similarity(a).total_cmp(&similarity(b)))
        .filter(|candidate| similarity(candidate) >= 0.5)
    {
        Some(candidate) => format!("is not a setting; did you mean {candidate}?"),
        None => "is not a setting; config/default.toml lists all settings".to_owned(),
    }
}

fn parse_number(text: &str) -> Option<ValueKind> {
    let whole = text.parse::<i64>().ok().filter(|number| number.to_string() == text);
    let fraction = text.parse::<f64>().ok().filter(|number| number.to_string() == text);
    let fraction = fraction.filter(|number| number.is_finite());
    whole.map(ValueKind::I64).or(fraction.map(ValueKind::Float))
}

#[cfg(test)]
mod tests;
