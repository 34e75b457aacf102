//! Certificates that are their own authority, as `openssl req -x509` makes them by default.
//!
//! rustls refuses a certificate of an authority (CA:TRUE) as that of a server. It is accepted here
//! if the trusted file contains exactly this certificate, and its times and names are valid.

use std::sync::Arc;

use rustls::{
    CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::CryptoProvider,
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::{ParsedCertificate, VerifierBuilderError},
};

/// Verifier that also accepts the trusted certificates themselves.
#[derive(Debug)]
pub struct OwnCertificates {
    by_authorities: Arc<WebPkiServerVerifier>,
    trusted: Vec<CertificateDer<'static>>,
}

impl OwnCertificates {
    /// Creates a verifier from the certificates of a file, which are also in `roots`.
    pub fn new(
        roots: RootCertStore,
        trusted: Vec<CertificateDer<'static>>,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, VerifierBuilderError> {
        let by_authorities = WebPkiServerVerifier::builder_with_provider(roots.into(), provider);
        Ok(Self { by_authorities: by_authorities.build()?, trusted })
    }
}

impl ServerCertVerifier for OwnCertificates {
    fn verify_server_cert(
        &self,
        cert: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified =
            self.by_authorities.verify_server_cert(cert, intermediates, name, ocsp_response, now);
        match verified {
            // The times were checked before this error.
            Err(Error::InvalidCertificate(CertificateError::Other(other)))
                if format!("{other:?}").contains("CaUsedAsEndEntity")
                    && self.trusted.iter().any(|trusted| trusted == cert) =>
            {
                verify_server_name(&ParsedCertificate::try_from(cert)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by_authorities.verify_tls12_signature(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by_authorities.verify_tls13_signature(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.by_authorities.supported_verify_schemes()
    }
}
