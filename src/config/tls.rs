//! `[server.tls]`: the files for TLS towards clients.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::error::{SettingsError, refused};

/// `[server.tls]`
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config/default.toml is the one place that explains each")]
pub struct TlsSettings {
    pub cert_file: Option<PathBuf>,
    pub key_file: Option<PathBuf>,
    pub client_ca_file: Option<PathBuf>,
}

/// The files that TLS needs.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The server's certificate, and those between it and its authority.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The authorities that sign the certificates of clients, if they need some.
    pub client_ca: Option<PathBuf>,
}

impl TlsSettings {
    /// What files there are; none without TLS.
    ///
    /// # Errors
    /// Some without the others.
    pub fn files(&self) -> Result<Option<TlsFiles>, SettingsError> {
        match (&self.cert_file, &self.key_file, &self.client_ca_file) {
            (Some(cert), Some(key), client_ca) => Ok(Some(TlsFiles {
                cert: cert.clone(),
                key: key.clone(),
                client_ca: client_ca.clone(),
            })),
            (None, None, None) => Ok(None),
            (None, None, Some(_)) => {
                let allowed = "must be given with server.tls.cert_file and server.tls.key_file";
                Err(refused("server.tls.client_ca_file", allowed, "it alone"))
            }
            _ => {
                let allowed = "must be given with server.tls.cert_file, both or none";
                Err(refused("server.tls.key_file", allowed, "one of them"))
            }
        }
    }
}
