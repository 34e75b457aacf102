//! `[store]`: the store, and the login for it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize, Serializer};

use super::error::{SettingsError, refused};
use crate::{
    job::{Buckets, Millis},
    store::{
        Location,
        file::Directory,
        redis::{Ack, Login, RedisOptions, RedisUrl, Secret, TlsFiles},
    },
};

/// Settings of `[store]`.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config/default.toml is the one place that explains each")]
pub struct StoreSettings {
    #[serde(serialize_with = "without_login")]
    pub url: Secret,
    pub prefix: String,
    pub buckets: Option<u16>,
    pub accept_data_loss: bool,
    pub connect_timeout: Millis,
    pub ack: Option<Ack>,
    pub username: Option<String>,
    pub password: Option<Secret>,
    pub password_file: Option<PathBuf>,
    pub sentinel_username: Option<String>,
    pub sentinel_password: Option<Secret>,
    pub sentinel_password_file: Option<PathBuf>,
    pub ca_file: Option<PathBuf>,
    pub cert_file: Option<PathBuf>,
    pub key_file: Option<PathBuf>,
}

impl StoreSettings {
    /// Returns the number of buckets, if it is set.
    ///
    /// # Errors
    /// The number is not allowed.
    pub fn buckets(&self) -> Result<Option<Buckets>, SettingsError> {
        let buckets = self.buckets.map(Buckets::try_from).transpose();
        let given = self.buckets.unwrap_or_default();
        buckets.map_err(|_| refused("store.buckets", "must be from 1 to 1024", given))
    }

    /// Returns the store that `url` names, after reading the password files.
    ///
    /// # Errors
    /// The URL is invalid, settings contradict each other, or a password file cannot be read.
    pub fn location(&self) -> Result<Box<dyn Location>, SettingsError> {
        let text = self.url.0.as_str();
        if let Some(path) = text.strip_prefix("file:").filter(|path| !path.is_empty()) {
            if let Some(ack @ (Ack::Replica | Ack::Memory)) = self.ack {
                let allowed =
                    "must be \"fsync\", or left out, because a file store always syncs to disk";
                return Err(refused("store.ack", allowed, format!("{:?}", ack.name())));
            }
            let path = path.strip_prefix("//").unwrap_or(path);
            return Ok(Box::new(Directory(PathBuf::from(path))));
        }
        let url: RedisUrl =
            text.parse().map_err(|allowed| refused("store.url", allowed, scheme(text)))?;
        let login = Login {
            user: from_settings_or_url("store.username", self.username.clone(), url.user.clone())?,
            password: from_settings_or_url(
                "store.password",
                read_secret("store.password_file", &self.password, self.password_file.as_ref())?,
                url.password.clone(),
            )?,
        };
        check_password("store.username", &login)?;
        let sentinel_login = Login {
            user: self.sentinel_username.clone(),
            password: read_secret(
                "store.sentinel_password_file",
                &self.sentinel_password,
                self.sentinel_password_file.as_ref(),
            )?,
        };
        check_password("store.sentinel_username", &sentinel_login)?;
        let client = match (&self.cert_file, &self.key_file) {
            (Some(cert), Some(key)) => Some((cert.clone(), key.clone())),
            (None, None) => None,
            _ => {
                let allowed = "must be set together with store.cert_file";
                return Err(refused("store.key_file", allowed, "only one of them"));
            }
        };
        let tls = TlsFiles { ca: self.ca_file.clone(), client };
        if !url.tls && (tls.ca.is_some() || tls.client.is_some()) {
            let allowed = "must begin with rediss to use store.ca_file or store.cert_file";
            return Err(refused("store.url", allowed, scheme(text)));
        }
        Ok(Box::new(RedisOptions {
            login,
            sentinel_login,
            tls,
            ack: self.ack.unwrap_or_default(),
            accept_data_loss: self.accept_data_loss,
            connect_timeout: self.connect_timeout.into(),
            ..RedisOptions::new(url, &self.prefix)
        }))
    }
}

/// Returns a value that can be set either by its own setting or in the URL; refuses one in both.
fn from_settings_or_url<T>(
    key: &'static str,
    from_setting: Option<T>,
    from_url: Option<T>,
) -> Result<Option<T>, SettingsError> {
    match (from_setting, from_url) {
        (Some(_), Some(_)) => Err(refused(key, "must not be set if store.url has it too", "both")),
        (from_setting, from_url) => Ok(from_setting.or(from_url)),
    }
}

/// Writes a URL without its user and password.
fn without_login<S: Serializer>(url: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
    let text = url.0.as_str();
    match text.parse::<RedisUrl>() {
        Ok(url) if url.user.is_some() || url.password.is_some() => {
            serializer.collect_str(&url.to_string().replacen("://", "://(secret)@", 1))
        }
        Ok(url) => serializer.collect_str(&url),
        Err(_) if text.starts_with("file:") => serializer.serialize_str(text),
        Err(_) => serializer.serialize_str("(read_secret)"),
    }
}

/// Returns the scheme of a URL for a message, without the rest, which may contain a password.
fn scheme(url: &str) -> String {
    let is_plain = |text: &str| text.bytes().all(|b| b.is_ascii_alphabetic() || b == b'+');
    match url.split_once(':') {
        Some((scheme, _)) if is_plain(scheme) => format!("\"{scheme}:…\""),
        _ => "a text without a scheme".to_owned(),
    }
}

/// Refuses a user without a password: the user name would not be sent, and Redis would use its
/// default user.
fn check_password(key: &'static str, login: &Login) -> Result<(), SettingsError> {
    match (&login.user, &login.password) {
        (Some(user), None) => {
            let allowed =
                "must be set together with a password (\"\" if the user needs no password)";
            Err(refused(key, allowed, format!("only the user {user:?}")))
        }
        _ => Ok(()),
    }
}

/// Returns the secret that is set, or reads it from the first line of its file.
pub fn read_secret(
    key: &'static str,
    own: &Option<Secret>,
    file: Option<&PathBuf>,
) -> Result<Option<Secret>, SettingsError> {
    let Some(path) = file else { return Ok(own.clone()) };
    if own.is_some() {
        let allowed = format!("must not be set together with {}", key.trim_end_matches("_file"));
        return Err(refused(key, &allowed, "both"));
    }
    let text = std::fs::read_to_string(path).map_err(|cause| {
        let given = format!("{} ({cause})", path.display());
        refused(key, "must name a file that can be read", given)
    })?;
    match text.lines().next().unwrap_or_default() {
        "" => Err(refused(
            key,
            "must name a file whose first line is the password or token",
            path.display(),
        )),
        line => Ok(Some(Secret(line.to_owned()))),
    }
}
