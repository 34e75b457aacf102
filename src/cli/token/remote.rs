//! A running server, asked over HTTP or HTTPS.

use std::{
    error::Error,
    fs,
    io::{self, Read, Write},
    path::Path,
    sync::Arc,
    time::Duration,
};

use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use serde_json::Value;

use crate::{access::SecretToken, cli::connect::connect, config::Listen};

/// How long connecting, asking and answering may each take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The variable that has the token; it is no setting of the server's.
pub const VARIABLE: &str = "DELAY_QUEUE_TOKEN";

pub struct Remote {
    server: Listen,
    /// The name that its certificate must have; none over HTTP.
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    token: Option<SecretToken>,
}

impl Remote {
    pub fn new(
        url: &str,
        token_file: Option<&Path>,
        ca_file: Option<&Path>,
    ) -> Result<Self, Box<dyn Error>> {
        let (is_https, server) =
            parse(url).ok_or("--url must be http:// or https://, a host, and perhaps a port")?;
        let tls = match (&server, is_https) {
            (Listen::Tcp { host, .. }, true) => {
                let name = host.trim_start_matches('[').trim_end_matches(']').to_owned();
                Some((Arc::new(trusting(ca_file)?), ServerName::try_from(name)?))
            }
            _ if ca_file.is_some() => return Err("--ca-file is for https:// in --url".into()),
            _ => None,
        };
        let (text, from) = match token_file {
            Some(file) => {
                let failed =
                    |error| format!("failed to read {} (--token-file): {error}", file.display());
                (Some(fs::read_to_string(file).map_err(failed)?), "--token-file")
            }
            None => (std::env::var(VARIABLE).ok(), VARIABLE),
        };
        let first = text.as_deref().map(|text| text.lines().next().unwrap_or_default().trim());
        let token = first.map(str::parse).transpose().map_err(|error| format!("{from} {error}"))?;
        Ok(Self { server, tls, token })
    }

    /// The JSON of a good answer.
    pub fn ask(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, Box<dyn Error>> {
        let failed = |cause| format!("failed to ask {}: {cause}", self.server);
        let answer = self.send(method, path, body).map_err(failed)?;
        let (head, json) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.split(' ').nth(1).unwrap_or_default();
        let json: Value = serde_json::from_str(json).unwrap_or_default();
        match status.starts_with('2') {
            true => Ok(json),
            false => {
                let detail =
                    json["detail"].as_str().unwrap_or(head.lines().next().unwrap_or_default());
                Err(format!("{} answered {status}: {detail}", self.server).into())
            }
        }
    }

    fn send(&self, method: &str, path: &str, body: Option<&Value>) -> io::Result<String> {
        let token = self
            .token
            .as_ref()
            .map(|token| format!("Authorization: Bearer {}\r\n", token.reveal()));
        let body = body.map(Value::to_string).unwrap_or_default();
        // HTTP/1.0: the answer is one text to its end.
        let request = format!(
            "{method} {path} HTTP/1.0\r\nHost: {}\r\n{}Content-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.server,
            token.unwrap_or_default(),
            body.len(),
        );
        let stream = connect(&self.server, TIMEOUT)?;
        match &self.tls {
            None => exchange(stream, &request),
            Some((config, name)) => {
                let tls = ClientConnection::new(Arc::clone(config), name.clone());
                exchange(StreamOwned::new(tls.map_err(io::Error::other)?, stream), &request)
            }
        }
    }
}

fn exchange(mut stream: impl Read + Write, request: &str) -> io::Result<String> {
    stream.write_all(request.as_bytes())?;
    stream.flush()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Whether a URL is one of https, and its host and port.
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

/// TLS with servers whose certificates are signed by the authorities of a file, or else by those that
/// this machine trusts.
fn trusting(ca_file: Option<&Path>) -> Result<ClientConfig, Box<dyn Error>> {
    let mut roots = RootCertStore::empty();
    if let Some(file) = ca_file {
        let failed = |cause: &dyn std::fmt::Display| {
            format!("failed to read certificates from {} (--ca-file): {cause}", file.display())
        };
        for cert in CertificateDer::pem_file_iter(file).map_err(|cause| failed(&cause))? {
            let cert = cert.map_err(|cause| failed(&cause))?;
            roots.add(cert).map_err(|cause| failed(&cause))?;
        }
        if roots.is_empty() {
            return Err(failed(&"it has none").into());
        }
    } else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return Err("this machine trusts no authority: name one by --ca-file".into());
        }
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions()?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
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
            let (found, at) = parse(url).expect(url);
            assert_eq!((found, at.to_string().as_str()), (is_https, server));
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
