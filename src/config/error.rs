//! Errors in settings: the key, the given value, and what is allowed.

use std::path::PathBuf;

use thiserror::Error;

use crate::job::Millis;

/// Why settings are invalid.
#[derive(Debug, Error)]
pub enum SettingsError {
    /// The sources do not combine to valid settings.
    #[error("failed to read the settings: {}", one_line(&.0.to_string()))]
    Read(#[from] config::ConfigError),
    /// The file cannot be read or is not TOML.
    #[error("failed to read the settings: {}: {cause}", file.display())]
    File {
        /// The file of `--config`.
        file: PathBuf,
        /// The error of the system, or line, column and reason.
        cause: String,
    },
    /// A key or its value is invalid.
    #[error("failed to read the settings: {key} {}{origin}", one_line(wrong))]
    Key {
        /// The key, dotted.
        key: String,
        /// The error, which completes `<key> …`.
        wrong: String,
        /// The source of the value, in brackets.
        origin: String,
    },
    /// An environment variable is invalid.
    #[error("failed to read the settings: the environment variable {name} {advice}")]
    Variable {
        /// The name of the variable.
        name: String,
        /// The error, and perhaps a suggestion.
        advice: String,
    },
    /// A value is not allowed.
    #[error("failed to use the settings: {key} {allowed}, got {given}")]
    Value {
        /// The key, dotted.
        key: &'static str,
        /// Allowed values.
        allowed: String,
        /// The given value.
        given: String,
    },
}

/// All errors in the settings, one per line.
#[derive(Debug)]
pub struct SettingsErrors(pub Vec<SettingsError>);

impl std::fmt::Display for SettingsErrors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lines: Vec<String> = self.0.iter().map(SettingsError::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for SettingsErrors {}

/// Joins a parser's error into one line, without the lines that it quotes from the file, since they
/// may contain passwords.
fn one_line(text: &str) -> String {
    let is_no_quote = |line: &&str| {
        let line = line.trim_start_matches(|c: char| c == ' ' || c.is_ascii_digit());
        !line.starts_with('|')
    };
    let lines: Vec<&str> = text.lines().filter(is_no_quote).map(str::trim).collect();
    without_urls(&lines.join(" ")).trim().to_owned()
}

/// Removes everything after the schemes of URLs in a text, since they may contain passwords.
fn without_urls(text: &str) -> String {
    let mut parts = text.split("://");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| c.is_whitespace() || c == '"').unwrap_or(part.len());
        shown.push_str("://…");
        shown.push_str(&part[end..]);
    }
    shown
}

/// Checks that a duration is at least `min` and at most `max`.
pub fn between(
    key: &'static str,
    given: Millis,
    min: Millis,
    max: Millis,
) -> Result<(), SettingsError> {
    if (min..=max).contains(&given) {
        return Ok(());
    }
    let allowed = format!("must be from {} to {} seconds", min.as_seconds(), max.as_seconds());
    Err(refused(key, &allowed, format!("{} seconds", given.as_seconds())))
}

/// Creates the error of a value that is not allowed.
pub fn refused(key: &'static str, allowed: &str, given: impl ToString) -> SettingsError {
    SettingsError::Value { key, allowed: allowed.to_owned(), given: given.to_string() }
}
