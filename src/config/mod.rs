//! Settings: default < file < environment < flags. `config/default.toml` is the reference.

mod environment;
mod store;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

pub use self::store::{StoreSettings, StoreUrl};

use config::{Config, File, FileFormat};
use serde::Deserialize;
use thiserror::Error;

use crate::job::{MAX_TTR, MIN_TTR, Millis};

/// Every setting with its default and meaning.
pub const DEFAULTS: &str = include_str!("../../config/default.toml");

/// All settings. The fields are those of `config/default.toml`, and explained there.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config/default.toml is the one place that explains each")]
pub struct Settings {
    pub server: ServerSettings,
    pub store: StoreSettings,
    pub timer: TimerSettings,
    pub queue: JobSettings,
    pub limits: Limits,
    pub log: LogSettings,
}

/// `[server]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config/default.toml is the one place that explains each")]
pub struct ServerSettings {
    pub listen: SocketAddr,
    pub shutdown_grace: Millis,
    pub header_timeout: Millis,
    pub body_timeout: Millis,
    pub write_timeout: Millis,
}

/// `[timer]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config/default.toml is the one place that explains each")]
pub struct TimerSettings {
    pub max_sleep: Millis,
}

/// `[queue]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config/default.toml is the one place that explains each")]
pub struct JobSettings {
    pub ttr: Millis,
    pub max_attempts: u32,
    pub require_reservation: bool,
    pub dead_retention: Millis,
}

/// `[limits]`
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config/default.toml is the one place that explains each")]
pub struct Limits {
    pub body_bytes: usize,
    pub request_bytes: usize,
    pub memory_bytes: usize,
}

/// `[log]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config/default.toml is the one place that explains each")]
pub struct LogSettings {
    pub filter: String,
    pub format: LogFormat,
}

/// How a line of the log looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines.
    Json,
}

impl TryFrom<String> for LogFormat {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        match text.as_str() {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(format!("must be \"text\" or \"json\", got {text:?}")),
        }
    }
}

/// What the command line overrides.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    /// `--config`
    pub file: Option<PathBuf>,
    /// `--listen`
    pub listen: Option<String>,
    /// `--store`
    pub store: Option<String>,
}

/// Settings that cannot be used.
#[derive(Debug, Error)]
pub enum SettingsError {
    /// Found while reading: names key and place.
    #[error("failed to read the settings: {}", shown(&.0.to_string()))]
    Read(#[from] config::ConfigError),
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

impl Settings {
    /// Reads all sources and checks every value.
    ///
    /// # Errors
    /// The key, what was given, and what is allowed.
    pub fn load(flags: &Flags) -> Result<Self, SettingsError> {
        let mut sources = Config::builder().add_source(File::from_str(DEFAULTS, FileFormat::Toml));
        if let Some(file) = &flags.file {
            sources = sources.add_source(File::from(Path::new(file)).format(FileFormat::Toml));
        }
        let settings: Self = sources
            .add_source(environment::Variables::new())
            .set_override_option("server.listen", flags.listen.clone())?
            .set_override_option("store.url", flags.store.clone())?
            .build()?
            .try_deserialize()?;
        settings.checked()
    }

    fn checked(self) -> Result<Self, SettingsError> {
        self.store.location()?;
        self.store.buckets()?;
        let prefix = &self.store.prefix;
        let fits = |b: u8| b.is_ascii_alphanumeric() || b"._:-".contains(&b);
        if !(1..=64).contains(&prefix.len()) || !prefix.bytes().all(fits) {
            let allowed = "must be 1 to 64 characters of A-Z a-z 0-9 . _ : -";
            return Err(refused("store.prefix", allowed, format!("{prefix:?}")));
        }
        let minute = Millis::new(60_000);
        let day = Millis::new(86_400_000);
        between("timer.max_sleep", self.timer.max_sleep, Millis::new(10), minute)?;
        between("queue.ttr", self.queue.ttr, MIN_TTR, MAX_TTR)?;
        between("store.connect_timeout", self.store.connect_timeout, Millis::ZERO, day)?;
        between("server.shutdown_grace", self.server.shutdown_grace, Millis::ZERO, day)?;
        between("server.header_timeout", self.server.header_timeout, Millis::new(1_000), day)?;
        between("server.body_timeout", self.server.body_timeout, Millis::new(1_000), day)?;
        between("server.write_timeout", self.server.write_timeout, Millis::new(1_000), day)?;
        let Limits { body_bytes, request_bytes, memory_bytes } = self.limits;
        if !(1..=64 << 20).contains(&body_bytes) {
            let allowed = "must be from 1 to 67108864 bytes";
            return Err(refused("limits.body_bytes", allowed, body_bytes));
        }
        if request_bytes < body_bytes + 4096 || request_bytes > 1 << 30 {
            let allowed = "must be from limits.body_bytes + 4096 to 1073741824 bytes";
            return Err(refused("limits.request_bytes", allowed, request_bytes));
        }
        if memory_bytes / 4 < request_bytes {
            let allowed = "must be at least four times limits.request_bytes";
            return Err(refused("limits.memory_bytes", allowed, memory_bytes));
        }
        if let Err(error) = self.log.filter.parse::<tracing_subscriber::EnvFilter>() {
            let allowed = format!("must be a filter such as \"info\" ({error})");
            return Err(refused("log.filter", &allowed, format!("{:?}", self.log.filter)));
        }
        Ok(self)
    }
}

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

fn between(
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

fn refused(key: &'static str, allowed: &str, given: impl ToString) -> SettingsError {
    SettingsError::Value { key, allowed: allowed.to_owned(), given: given.to_string() }
}
