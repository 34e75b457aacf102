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

    use rustls::{crypto::ring, pki_types::pem::PemObject};

    use super::*;

    /// Certificate of localhost, valid from November 2026 to November 2027, as made by `openssl req
    /// -x509 -newkey ec -days 365 -subj /CN=localhost -addext subjectAltName=DNS:localhost`.
    const OWN: &str = "\
-----BEGIN CERTIFICATE-----
MIIBkzCCATmgAwIBAgIUJj2CHn+ikjfjKemDbDAxDgO4f/QwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MB4XDTI2MTEyNTIzMTgwOFoXDTI3MTEyNTIz
MTgwOFowFDESMBAGA1UEAwwJbG9jYWxob3N0MFkwEwYHKoZIzj0CAQYIKoZIzj0D
AQcDQgAESx/8KolRSNXOJYbrJHSbQYVwovXJQAW39vIrjiMPpi9YB6IKJukGioct
Cfz0Ci4+dgvbDrfwCRbC2FqMjyAJoaNpMGcwHQYDVR0OBBYEFOch6LvePYxNazBQ
mksr8YJHRc6yMB8GA1UdIwQYMBaAFOch6LvePYxNazBQmksr8YJHRc6yMA8GA1Ud
EwEB/wQFMAMBAf8wFAYDVR0RBA0wC4IJbG9jYWxob3N0MAoGCCqGSM49BAMCA0gA
MEUCIQCAOk+TZOU93fBI/vaxCC71aYF1FLXm2NsvCn/oFq7EzwIgP6VPTaqXR6Xg
53Gq5Ra79w4VI5UIZlHIz8sTDYlDEZc=
-----END CERTIFICATE-----";
    /// Another one, made in the same way.
    const OTHER: &str = "\
-----BEGIN CERTIFICATE-----
MIIBkzCCATmgAwIBAgIUXrNvonFxXqy3+9p1bm69BBZU3TIwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MB4XDTI2MTEyNTIzMTgwOFoXDTI3MTEyNTIz
MTgwOFowFDESMBAGA1UEAwwJbG9jYWxob3N0MFkwEwYHKoZIzj0CAQYIKoZIzj0D
AQcDQgAEmfxUyg5k0LtI6E5reCJX7++YM76UD3hamEdXtctFUXl4rtLTweXNdFXQ
fYCG3upiq74l6RQIQzvCJcQ5DTB8yKNpMGcwHQYDVR0OBBYEFCasMbJE7+Y3dfsL
n4/1kXb61B6tMB8GA1UdIwQYMBaAFCasMbJE7+Y3dfsLn4/1kXb61B6tMA8GA1Ud
EwEB/wQFMAMBAf8wFAYDVR0RBA0wC4IJbG9jYWxob3N0MAoGCCqGSM49BAMCA0gA
MEUCIQCqJF2EAtk+eM6QMNLOOSw80oFxfHE+j4b4pEMJyP8rKwIgbRrXgnYy5C7f
lW6OHg8qt9z5VgFITMUDLPPj1fyqyTw=
-----END CERTIFICATE-----";

    fn verify(trusted: &str, host: &'static str, year: u64) -> Result<(), String> {
        let read =
            |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).expect("a certificate");
        let (trusted, mut roots) = (read(trusted), RootCertStore::empty());
        roots.add(trusted.clone()).expect("an authority");
        let provider = Arc::new(ring::default_provider());
        let verifier = OwnCertificates::new(roots, vec![trusted], provider).expect("a verifier");
        let middle = Duration::from_secs((year - 1970) * 31_557_600 + 15_000_000);
        let (now, name) = (UnixTime::since_unix_epoch(middle), ServerName::try_from(host));
        let name = name.expect("a name");
        let verified = verifier.verify_server_cert(&read(OWN), &[], &name, &[], now);
        verified.map(drop).map_err(|error| format!("{error:?}"))
    }

    #[test]
    fn a_certificate_is_accepted_only_if_it_is_trusted_and_valid() {
        assert_eq!(verify(OWN, "localhost", 2027), Ok(()));
        for (trusted, host, year, error) in [
            (OTHER, "localhost", 2027, "CaUsedAsEndEntity"),
            (OWN, "queue.example", 2027, "NotValidForName"),
            (OWN, "localhost", 2026, "NotValidYet"),
            (OWN, "localhost", 2028, "Expired"),
        ] {
            let refused = verify(trusted, host, year).expect_err(error);
            assert!(refused.contains(error), "{refused}");
        }
    }
}
