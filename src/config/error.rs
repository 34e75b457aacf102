//! What is wrong with settings, as it is told: which key, what was given, what is allowed.

use std::path::PathBuf;

use thiserror::Error;

use crate::job::Millis;

/// Settings that cannot be used.
#[derive(Debug, Error)]
pub enum SettingsError {
    /// The sources together make no settings.
    #[error("failed to read the settings: {}", shown(&.0.to_string()))]
    Read(#[from] config::ConfigError),
    /// The file cannot be read, or is not TOML.
    #[error("failed to read the settings: {}: {cause}", file.display())]
    File {
        /// The file of `--config`.
        file: PathBuf,
        /// The system's error, or line, column and reason.
        cause: String,
    },
    /// One key or value.
    #[error("failed to read the settings: {key} {}{place}", shown(wrong))]
    Key {
        /// The key, dotted.
        key: String,
        /// Completes "<key> …".
        wrong: String,
        /// Where it was given, in brackets.
        place: String,
    },
    /// A variable of the environment.
    #[error("failed to read the settings: the environment variable {name} {advice}")]
    Variable {
        /// Its name.
        name: String,
        /// What is wrong with it, and what may be meant.
        advice: String,
    },
    /// A setting by the name that it had once.
    #[error("failed to read the settings: {old} is called {new} now")]
    Renamed {
        /// The key that was given.
        old: String,
        /// Its name now.
        new: &'static str,
    },
    /// A value that is not allowed.
    #[error("failed to use the settings: {key} {allowed}, got {given}")]
    Value {
        /// The key, dotted.
        key: &'static str,
        /// What is allowed.
        allowed: String,
        /// What was given.
        given: String,
    },
}

/// All that is wrong with the settings, a line each.
#[derive(Debug)]
pub struct AllWrong(pub Vec<SettingsError>);

impl std::fmt::Display for AllWrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lines: Vec<String> = self.0.iter().map(SettingsError::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for AllWrong {}

/// What a message may show of an error of reading: in one line, without the lines of the file that
/// it quotes, as a password may stand there.
fn shown(text: &str) -> String {
    let quoted = |line: &&str| {
        let line = line.trim_start_matches(|c: char| c == ' ' || c.is_ascii_digit());
        !line.starts_with('|')
    };
    let lines: Vec<&str> = text.lines().filter(quoted).map(str::trim).collect();
    without_urls(&lines.join(" ")).trim().to_owned()
}

/// What a message may show of a text that has URLs in it, and passwords in them: the schemes.
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

/// Checks a span of time.
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

/// The refusal of a value.
pub fn refused(key: &'static str, allowed: &str, given: impl ToString) -> SettingsError {
    SettingsError::Value { key, allowed: allowed.to_owned(), given: given.to_string() }
}
