//! The running server that a command connects to: its URL, and the credentials.

mod own_certificate;

use std::{
    error::Error,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};

use self::own_certificate::OwnCertificates;
use crate::{access::SecretToken, config::Listen, tls_error};

/// Environment variable with the token of a client. Servers ignore it.
pub const TOKEN_VARIABLE: &str = "DELAY_QUEUE_TOKEN";

/// The token of a command, and the authorities that it trusts.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Credentials {
    /// The file whose first line is the token for --url [default: the environment's
    /// DELAY_QUEUE_TOKEN]
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// The authorities that may sign the certificate of the server (PEM), for https:// [default:
    /// the authorities that this machine trusts]
    #[arg(long, global = true, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

/// A server at a URL.
pub struct Remote {
    pub server: Listen,
    /// TLS settings, and the name that the certificate must have; `None` over HTTP.
    pub tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    token: Option<SecretToken>,
}

impl Remote {
    /// Reads the URL and the files of the credentials.
    ///
    /// # Errors
    /// The URL is not http or https, or a file has no token or no certificates.
    pub fn new(url: &str, credentials: &Credentials) -> Result<Self, Box<dyn Error>> {
        let (text, from) = match &credentials.token_file {
            Some(file) => {
                let failed =
                    |error| format!("failed to read {} (--token-file): {error}", file.display());
                (Some(fs::read_to_string(file).map_err(failed)?), "--token-file")
            }
            None => (std::env::var(TOKEN_VARIABLE).ok(), TOKEN_VARIABLE),
        };
        let token = text.map(|text| read_token(&text, from)).transpose()?;
        Self::with_token(url, token, credentials.ca_file.as_deref())
    }

    /// Reads the URL and the authorities that may sign the certificate of the server.
    ///
    /// # Errors
    /// The URL is not http or https, or the file has no certificates.
    pub fn with_token(
        url: &str,
        token: Option<SecretToken>,
        ca_file: Option<&Path>,
    ) -> Result<Self, Box<dyn Error>> {
        let (is_https, server) =
            parse(url).ok_or("--url must be http:// or https://, a host, and perhaps a port")?;
        let tls = match (&server, is_https) {
            (Listen::Tcp { host, .. }, true) => {
                let name = host.trim_start_matches('[').trim_end_matches(']').to_owned();
                Some((Arc::new(tls_config(ca_file)?), ServerName::try_from(name)?))
            }
            _ if ca_file.is_some() => return Err("--ca-file requires https:// in --url".into()),
            _ => None,
        };
        Ok(Self { server, tls, token })
    }

    /// Describes why a connection failed: a TLS problem, or else the system's error.
    pub fn explain(cause: &io::Error) -> String {
        let tls = tls_error::find(cause).map(|error| tls_error::explain(error, "--ca-file"));
        tls.unwrap_or_else(|| cause.to_string())
    }

    /// Returns the `Authorization` line of a request; empty without a token.
    pub fn authorization(&self) -> String {
        let line = |token| format!("Authorization: Bearer {token}\r\n");
        self.token().map(line).unwrap_or_default()
    }

    pub fn token(&self) -> Option<&str> {
        self.token.as_ref().map(SecretToken::reveal)
    }
}

/// Reads a token from the first line of a text; `from` names the option or variable that gave it.
pub fn read_token(text: &str, from: &str) -> Result<SecretToken, String> {
    let first = text.lines().next().unwrap_or_default().trim();
    first.parse().map_err(|error| format!("{from} {error}"))
}

/// Returns whether a URL is https, with its host and port.
fn parse(url: &str) -> Option<(bool, Listen)> {
    let (scheme, rest) = url.split_once("://")?;
    let (is_https, port) = match scheme {
        "http" => (false, 80),
        "https" => (true, 443),
        _ => return None,
    };
    let host = rest.strip_suffix('/').unwrap_or(rest);
    let server = Listen::try_from(host.to_owned());
    let server = server.or_else(|_| Listen::try_from(format!("{host}:{port}"))).ok()?;
    matches!(server, Listen::Tcp { .. }).then_some((is_https, server))
}

/// Creates a TLS configuration that trusts the authorities of a file, or those of this machine. A
/// certificate in the file is also trusted as that of the server itself.
fn tls_config(ca_file: Option<&Path>) -> Result<ClientConfig, Box<dyn Error>> {
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider));
    let config = config.with_safe_default_protocol_versions()?;
    let mut roots = RootCertStore::empty();
    let Some(file) = ca_file else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return Err(
                "this machine trusts no certificate authority: name one with --ca-file".into()
            );
        }
        return Ok(config.with_root_certificates(roots).with_no_client_auth());
    };
    let failed = |cause: &dyn std::fmt::Display| {
        format!("failed to read certificates from {} (--ca-file): {cause}", file.display())
    };
    let certs = CertificateDer::pem_file_iter(file).map_err(|cause| failed(&cause))?;
    let certs: Vec<_> = certs.collect::<Result<_, _>>().map_err(|cause| failed(&cause))?;
    for cert in &certs {
        roots.add(cert.clone()).map_err(|cause| failed(&cause))?;
    }
    if roots.is_empty() {
        return Err(failed(&"it contains no certificate").into());
    }
    let verifier = Arc::new(OwnCertificates::new(roots, certs, provider)?);
    // Dangerous in name only: this verifier asks the usual one first.
    let config = config.dangerous().with_custom_certificate_verifier(verifier);
    Ok(config.with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_scheme_a_host_and_perhaps_a_port() {
        for (url, is_https, server) in [
            ("http://127.0.0.1:9277", false, "127.0.0.1:9277"),
            ("http://localhost/", false, "localhost:80"),
            ("https://queue.example", true, "queue.example:443"),
            ("https://queue.example:8443/", true, "queue.example:8443"),
            ("https://[::1]", true, "[::1]:443"),
        ] {
            let (found, listen) = parse(url).expect(url);
            assert_eq!((found, listen.to_string().as_str()), (is_https, server));
        }
        for url in [
            "",
            "localhost:9277",
            "ftp://localhost",
            "https://",
            "https://a/b",
            "https://a:b",
            "http://unix:/run/dq.sock",
            "https://user@host",
        ] {
            assert!(parse(url).is_none(), "{url}");
        }
    }
}
