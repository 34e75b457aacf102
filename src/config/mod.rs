//! Settings from four sources, each of which overrides the ones before: the defaults, a file, the
//! environment, and flags. `config/default.toml` is the reference.

mod access;
mod environment;
mod error;
mod explain;
mod limits;
mod listen;
mod push;
mod sources;
mod store;
mod tls;
mod traces;

use std::path::PathBuf;

pub use self::{
    access::TextList,
    error::{SettingsError, SettingsErrors},
    limits::Limits,
    listen::{Listen, SocketMode},
    push::PushSettings,
    store::StoreSettings,
    tls::{TlsFiles, TlsSettings},
    traces::TracesSettings,
};

use serde::{Deserialize, Serialize};

use self::error::{between, refused};
use crate::{
    job::{MAX_TTR, MIN_TTR, Millis},
    store::redis::Secret,
};

/// The text of `config/default.toml`: every setting with its default and meaning.
pub const DEFAULTS: &str = include_str!("../../config/default.toml");

/// All settings, with the fields of `config/default.toml`, which explains them.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config/default.toml is the one place that explains each")]
pub struct Settings {
    pub server: ServerSettings,
    pub store: StoreSettings,
    pub timer: TimerSettings,
    pub queue: QueueSettings,
    pub job_defaults: JobDefaults,
    pub limits: Limits,
    pub push: PushSettings,
    pub log: LogSettings,
    pub traces: TracesSettings,
}

/// Settings of `[server]`.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config/default.toml is the one place that explains each")]
pub struct ServerSettings {
    pub listen: Listen,
    pub admin_listen: Option<Listen>,
    pub unix_socket_mode: SocketMode,
    pub shutdown_grace: Millis,
    #[serde(default)]
    pub tls: TlsSettings,
    pub insecure: bool,
    pub bootstrap_token: Option<Secret>,
    pub bootstrap_token_file: Option<PathBuf>,
    pub hosts: TextList,
    pub cors_origins: TextList,
    pub trusted_proxies: TextList,
}

/// Settings of `[timer]`.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config/default.toml is the one place that explains each")]
pub struct TimerSettings {
    pub poll_interval: Millis,
}

/// Settings of `[queue]`.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config/default.toml is the one place that explains each")]
pub struct QueueSettings {
    pub require_reservation: bool,
}

/// Settings of `[job_defaults]`.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config/default.toml is the one place that explains each")]
pub struct JobDefaults {
    pub ttr: Millis,
    pub max_attempts: u32,
    pub dead_retention: Millis,
}

/// Settings of `[log]`.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config/default.toml is the one place that explains each")]
pub struct LogSettings {
    pub filter: String,
    pub format: LogFormat,
}

/// The format of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", rename_all = "lowercase")]
pub enum LogFormat {
    /// Text for people.
    Text,
    /// JSON for machines.
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

/// Settings of the command line, which override all others.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    /// The value of `--config`.
    pub file: Option<PathBuf>,
    /// The value of `--listen`.
    pub listen: Option<String>,
    /// The value of `--store`.
    pub store: Option<String>,
}

impl Settings {
    /// Reads all sources and checks every value.
    ///
    /// # Errors
    /// Lists all invalid settings, each with its key, the given value, and the allowed values.
    pub fn load(flags: &Flags) -> Result<Self, SettingsErrors> {
        let mut wrong = Vec::new();
        let settings = match sources::read(flags, &mut wrong) {
            Ok(settings) => settings,
            Err(cause) => {
                wrong.push(cause.into());
                return Err(SettingsErrors(wrong));
            }
        };
        wrong.extend(settings.check().into_iter().filter_map(Result::err));
        match wrong.is_empty() {
            true => Ok(settings),
            false => Err(SettingsErrors(wrong)),
        }
    }

    /// Returns the settings in effect as a settings file, with passwords hidden.
    ///
    /// # Errors
    /// Should not occur, since TOML can represent every setting.
    pub fn shown(&self) -> Result<String, toml::ser::Error> {
        toml::to_string(self)
    }

    fn check(&self) -> Vec<Result<(), SettingsError>> {
        let minute = Millis::new(60_000);
        let day = Millis::new(86_400_000);
        vec![
            self.store.location().map(drop),
            self.store.buckets().map(drop),
            self.server.tls.files().map(drop),
            self.check_prefix(),
            self.server.bootstrap_token().map(drop),
            self.server.check_names(),
            self.server.trusted_networks().map(drop),
            between("timer.poll_interval", self.timer.poll_interval, Millis::new(10), minute),
            between("job_defaults.ttr", self.job_defaults.ttr, MIN_TTR, MAX_TTR),
            between("store.connect_timeout", self.store.connect_timeout, Millis::ZERO, day),
            between("server.shutdown_grace", self.server.shutdown_grace, Millis::ZERO, day),
            self.check_filter(),
        ]
        .into_iter()
        .chain(self.limits.check())
        .chain(self.push.check())
        .chain(self.traces.check())
        .collect()
    }

    fn check_prefix(&self) -> Result<(), SettingsError> {
        let prefix = &self.store.prefix;
        let is_allowed = |b: u8| b.is_ascii_alphanumeric() || b"._:-".contains(&b);
        if (1..=64).contains(&prefix.len()) && prefix.bytes().all(is_allowed) {
            return Ok(());
        }
        let allowed = "must be 1 to 64 characters of A-Z a-z 0-9 . _ : -";
        Err(refused("store.prefix", allowed, format!("{prefix:?}")))
    }

    fn check_filter(&self) -> Result<(), SettingsError> {
        let parsed = self.log.filter.parse::<tracing_subscriber::filter::Targets>();
        parsed.map(drop).map_err(|error| {
            let allowed = format!("must be a filter such as \"info\" ({error})");
            refused("log.filter", &allowed, format!("{:?}", self.log.filter))
        })
    }
}
