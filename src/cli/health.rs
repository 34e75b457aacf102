//! `delay-queue health`: health check of a server, for containers without a shell or curl.

use std::{
    error::Error,
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    sync::Arc,
    time::Duration,
};

use rustls::{
    AlertDescription, ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme,
    StreamOwned,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
};

use super::connect::connect;
use crate::config::{Listen, Settings, TlsFiles};

/// Timeout of each step: connecting, sending the request, reading the answer.
const TIMEOUT: Duration = Duration::from_secs(3);
const HEALTH_REQUEST: &[u8] =
    b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

pub fn run(settings: &Settings) -> Result<(), Box<dyn Error>> {
    let listen = settings.server.listen.for_local_clients();
    let tls = settings.server.tls.files()?;
    let answer = match request_health(&listen, tls.as_ref()) {
        Err(cause) if requires_client_certificate(&cause) => return Ok(()), // it is running
        answer => {
            answer.map_err(|cause| format!("failed to send the request to {listen}: {cause}"))?
        }
    };
    if answer.starts_with("HTTP/1.1 200 ") {
        return Ok(());
    }
    let line = answer.lines().next().unwrap_or_default();
    Err(format!("the server at {listen} answered {line:?}").into())
}

fn request_health(listen: &Listen, tls: Option<&TlsFiles>) -> io::Result<String> {
    if let Listen::Unix(path) = listen {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        return exchange(stream);
    }
    let stream = connect(listen, TIMEOUT)?;
    match tls {
        None => exchange(stream),
        Some(files) => exchange(StreamOwned::new(handshake(files)?, stream)),
    }
}

fn exchange(mut stream: impl Read + Write) -> io::Result<String> {
    stream.write_all(HEALTH_REQUEST)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Begins TLS. Accepts only the certificate in these files, whatever host names it is for.
fn handshake(files: &TlsFiles) -> io::Result<ClientConnection> {
    let cert = CertificateDer::from_pem_file(&files.cert).map_err(io::Error::other)?;
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(PinnedCertificate { cert, provider }))
        .with_no_client_auth();
    let host = ServerName::try_from("localhost").map_err(io::Error::other)?;
    ClientConnection::new(Arc::new(config), host).map_err(io::Error::other)
}

/// Returns whether the server requires client certificates, which this client does not have.
fn requires_client_certificate(error: &io::Error) -> bool {
    let error = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
    let wanted = AlertDescription::CertificateRequired;
    matches!(error, Some(rustls::Error::AlertReceived(alert)) if *alert == wanted)
}

/// Verifier that accepts one certificate.
#[derive(Debug)]
struct PinnedCertificate {
    cert: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for PinnedCertificate {
    fn verify_server_cert(
        &self,
        cert: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match *cert == self.cert {
            true => Ok(ServerCertVerified::assertion()),
            false => {
                let other = "the certificate of the server is not the one in server.tls.cert_file";
                Err(rustls::Error::General(other.to_owned()))
            }
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
