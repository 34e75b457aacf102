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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};
    use rustls::crypto::ring;

    use super::*;

    /// Returns a certificate of localhost with CA:TRUE, for the year 2026.
    fn own() -> CertificateDer<'static> {
        let mut params = CertificateParams::new(["localhost".to_owned()]).expect("a name");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_before = date_time_ymd(2026, 1, 1);
        params.not_after = date_time_ymd(2027, 1, 1);
        let key = KeyPair::generate().expect("a key");
        params.self_signed(&key).expect("a certificate").der().clone()
    }

    fn verify(
        trusted: &CertificateDer<'static>,
        cert: &CertificateDer<'static>,
        host: &'static str,
        year: u64,
    ) -> Result<(), String> {
        let mut roots = RootCertStore::empty();
        roots.add(trusted.clone()).expect("an authority");
        let provider = Arc::new(ring::default_provider());
        let verifier =
            OwnCertificates::new(roots, vec![trusted.clone()], provider).expect("a verifier");
        let middle = Duration::from_secs((year - 1970) * 31_557_600 + 15_000_000);
        let now = UnixTime::since_unix_epoch(middle);
        let name = ServerName::try_from(host).expect("a name");
        let verified = verifier.verify_server_cert(cert, &[], &name, &[], now);
        verified.map(drop).map_err(|error| format!("{error:?}"))
    }

    #[test]
    fn a_certificate_is_its_own_authority_only_if_it_is_trusted_and_valid() {
        let (own, other) = (own(), own());
        assert_eq!(verify(&own, &own, "localhost", 2026), Ok(()));
        for (trusted, host, year, error) in [
            (&other, "localhost", 2026, "CaUsedAsEndEntity"),
            (&own, "queue.example", 2026, "NotValidForName"),
            (&own, "localhost", 2025, "NotValidYet"),
            (&own, "localhost", 2027, "Expired"),
        ] {
            let refused = verify(trusted, &own, host, year).expect_err(error);
            assert!(refused.contains(error), "{refused}");
        }
    }
}
