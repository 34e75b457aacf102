//! `[server.tls]`: the files for TLS connections of clients.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::error::{SettingsError, refused};

/// Settings of `[server.tls]`.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config/default.toml is the one place that explains each")]
pub struct TlsSettings {
    pub cert_file: Option<PathBuf>,
    pub key_file: Option<PathBuf>,
    pub client_ca_file: Option<PathBuf>,
}

/// The files for TLS connections of clients.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The certificate of the server, followed by intermediate ones.
    pub cert: PathBuf,
    /// The private key of the server.
    pub key: PathBuf,
    /// The authorities that sign the certificates of clients, if these are required.
    pub client_ca: Option<PathBuf>,
}

impl TlsSettings {
    /// Returns the files; `None` without TLS.
    ///
    /// # Errors
    /// A file is set without the others that it needs.
    pub fn files(&self) -> Result<Option<TlsFiles>, SettingsError> {
        match (&self.cert_file, &self.key_file, &self.client_ca_file) {
            (Some(cert), Some(key), client_ca) => Ok(Some(TlsFiles {
                cert: cert.clone(),
                key: key.clone(),
                client_ca: client_ca.clone(),
            })),
            (None, None, None) => Ok(None),
            (None, None, Some(_)) => {
                let allowed =
                    "must be set together with server.tls.cert_file and server.tls.key_file";
                Err(refused("server.tls.client_ca_file", allowed, "only this one"))
            }
            _ => {
                let allowed = "must be set together with server.tls.cert_file";
                Err(refused("server.tls.key_file", allowed, "only one of them"))
            }
        }
    }
}
