//! TLS for clients, versions 1.2 and 1.3, with files that may be replaced while the server runs.

use std::{
    path::Path,
    sync::{Arc, RwLock},
    time::Duration,
};

use rustls::{
    CertificateError, Error, RootCertStore, ServerConfig,
    client::verify_server_cert_signed_by_trust_anchor,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, UnixTime, pem::PemObject},
    server::{ParsedCertificate, WebPkiClientVerifier},
};
use tokio::time::{Instant, sleep};

use super::socket::Socket;
use crate::{
    config::{SettingsError, TlsFiles},
    store::Clock,
    tls_error::explain,
};

/// ALPN name of HTTP/2.
pub const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";
/// Interval of the check for changed files.
const RELOAD_INTERVAL: Duration = Duration::from_secs(1);
/// Interval of the warning that new files cannot be used.
const REMINDER_INTERVAL: Duration = Duration::from_secs(3600);
/// First byte that a TLS client sends: the type of a handshake record.
const HANDSHAKE: u8 = 22;

/// The TLS configuration of new connections.
#[derive(Clone)]
pub struct Tls(Arc<Inner>);

struct Inner {
    files: TlsFiles,
    config: RwLock<Arc<ServerConfig>>,
    /// Contents of the files when the server started.
    loaded: Contents,
}

#[derive(Clone, PartialEq, Eq)]
struct Contents {
    cert: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// A file cannot be used; the error names its setting.
    pub fn open(files: TlsFiles) -> Result<Self, SettingsError> {
        let loaded = Contents::read(&files)?;
        let config = RwLock::new(Arc::new(loaded.config(&files)?));
        Ok(Self(Arc::new(Inner { files, config, loaded })))
    }

    pub fn config(&self) -> Arc<ServerConfig> {
        let config = self.0.config.read().expect("no thread panics while holding this lock");
        Arc::clone(&config)
    }

    /// Applies changed files while the server runs; logs invalid files and keeps the last valid
    /// configuration.
    pub async fn reload_files(&self) -> std::convert::Infallible {
        let Inner { files, config, loaded } = &*self.0;
        let mut tried: Result<Contents, String> = Ok(loaded.clone());
        let mut seen = None;
        let mut warned_at: Option<Instant> = None;
        loop {
            sleep(RELOAD_INTERVAL).await;
            let read = Contents::read(files);
            let now = read.as_ref().map(Clone::clone).map_err(ToString::to_string);
            // Files are replaced one after another: a change counts once two readings agree.
            let is_settled = seen.as_ref() == Some(&now);
            seen = Some(now.clone());
            let is_due = warned_at.is_some_and(|at| at.elapsed() >= REMINDER_INTERVAL);
            if !is_settled || (now == tried && !is_due) {
                continue;
            }
            match read.and_then(|now| now.config(files)) {
                Ok(new) => {
                    *config.write().expect("no thread panics while holding this lock") =
                        Arc::new(new);
                    warned_at = None;
                    tracing::info!(cert_file = %files.cert.display(), "new TLS files are in use");
                }
                Err(error) => {
                    warned_at = Some(Instant::now());
                    tracing::warn!(
                        %error,
                        "failed to load the new TLS files; the server keeps the last valid ones \
                         and tries again when a file changes"
                    );
                }
            }
            tried = now;
        }
    }
}

impl Contents {
    fn read(files: &TlsFiles) -> Result<Self, SettingsError> {
        Ok(Self {
            cert: read(CERT, &files.cert)?,
            key: read(KEY, &files.key)?,
            client_ca: files.client_ca.as_deref().map(|path| read(CLIENT_CA, path)).transpose()?,
        })
    }

    fn config(&self, files: &TlsFiles) -> Result<ServerConfig, SettingsError> {
        let chain = certificates(CERT, &files.cert, &self.cert)?;
        let key = PrivateKeyDer::from_pem_slice(&self.key)
            .map_err(|error| unusable(KEY, "must name a private key (PEM)", &files.key, error))?;
        check_dates(&chain).map_err(|error| {
            unusable(CERT, "must name a valid certificate", &files.cert, explain(&error, CERT))
        })?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
            .map_err(|error| unusable(CERT, "must be usable for TLS", &files.cert, error))?;
        let config = match (&self.client_ca, &files.client_ca) {
            (Some(pem), Some(path)) => {
                let mut roots = RootCertStore::empty();
                for ca in certificates(CLIENT_CA, path, pem)? {
                    roots
                        .add(ca)
                        .map_err(|error| unusable(CLIENT_CA, CERTIFICATES, path, error))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(
                    Arc::new(roots),
                    Arc::new(ring::default_provider()),
                );
                let verifier = verifier.build();
                config.with_client_cert_verifier(
                    verifier.map_err(|error| unusable(CLIENT_CA, CERTIFICATES, path, error))?,
                )
            }
            _ => config.with_no_client_auth(),
        };
        let mut config = config.with_single_cert(chain, key).map_err(|error| {
            unusable(
                KEY,
                "must name the key of server.tls.cert_file",
                &files.key,
                explain(&error, CERT),
            )
        })?;
        config.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
        Ok(config)
    }
}

const CERT: &str = "server.tls.cert_file";
const KEY: &str = "server.tls.key_file";
const CLIENT_CA: &str = "server.tls.client_ca_file";
const CERTIFICATES: &str = "must name certificates (PEM)";

fn read(key: &'static str, path: &Path) -> Result<Vec<u8>, SettingsError> {
    std::fs::read(path)
        .map_err(|error| unusable(key, "must name a file that can be read", path, error))
}

fn certificates(
    key: &'static str,
    path: &Path,
    pem: &[u8],
) -> Result<Vec<CertificateDer<'static>>, SettingsError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = all.map_err(|error| unusable(key, CERTIFICATES, path, error))?;
    match all.is_empty() {
        true => Err(unusable(key, CERTIFICATES, path, "the file contains no certificate")),
        false => Ok(all),
    }
}

/// Refuses a certificate that has expired or is not valid yet. The verifier checks the dates first,
/// so an empty list of authorities is enough.
fn check_dates(chain: &[CertificateDer<'_>]) -> Result<(), Error> {
    let Some(cert) = chain.first() else { return Ok(()) };
    let now = Duration::from_millis(Clock::Own.now().floor.get());
    let checked = verify_server_cert_signed_by_trust_anchor(
        &ParsedCertificate::try_from(cert)?,
        &RootCertStore::empty(),
        &[],
        UnixTime::since_unix_epoch(now),
        ring::default_provider().signature_verification_algorithms.all,
    );
    use CertificateError as Why;
    match checked {
        Err(
            error @ Error::InvalidCertificate(
                Why::Expired
                | Why::ExpiredContext { .. }
                | Why::NotValidYet
                | Why::NotValidYetContext { .. },
            ),
        ) => Err(error),
        _ => Ok(()),
    }
}

fn unusable(
    key: &'static str,
    allowed: &str,
    path: &Path,
    cause: impl std::fmt::Display,
) -> SettingsError {
    let given = format!("{} ({cause})", path.display());
    SettingsError::Value { key, allowed: allowed.to_owned(), given }
}

/// Waits for the first byte; returns `false` if it does not begin a TLS handshake.
pub async fn starts_handshake(socket: &Socket) -> bool {
    !matches!(socket.first_byte().await, Ok(Some(byte)) if byte != HANDSHAKE)
}
