//! TLS with the platform's roots and additional ones.

use std::sync::Arc;

use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use tokio_rustls::TlsConnector;

use crate::{options::ClientError, stream::Io};

/// TLS client, and a warning if the platform's roots are missing or partly unreadable.
pub(crate) struct Tls {
    connector: TlsConnector,
    pub(crate) warning: Option<String>,
}

impl Tls {
    /// Reads the platform's roots from disk, and adds the certificates of `pem`.
    pub(crate) fn new(pem: Option<&[u8]>) -> Result<Self, ClientError> {
        let mut roots = RootCertStore::empty();
        let loaded = rustls_native_certs::load_native_certs();
        let (known, _) = roots.add_parsable_certificates(loaded.certs);
        let first = loaded.errors.first().map(|error| format!(": {error}")).unwrap_or_default();
        let warning = match (known, loaded.errors.is_empty()) {
            (0, _) => Some(format!(
                "the platform has no root certificates; https fails unless a CA is set{first}"
            )),
            (_, true) => None,
            (_, false) => {
                Some(format!("some of the platform's root certificates cannot be read{first}"))
            }
        };
        if let Some(pem) = pem {
            let mut found = 0;
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let certificate =
                    certificate.map_err(|error| ClientError::Roots(error.to_string()))?;
                roots.add(certificate).map_err(|error| ClientError::Roots(error.to_string()))?;
                found += 1;
            }
            if found == 0 {
                return Err(ClientError::Roots("no certificate found".to_owned()));
            }
        }
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| ClientError::Tls(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        // A server that speaks only HTTP/2 ends the handshake instead of answering with its frames.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { connector: Arc::new(config).into(), warning })
    }

    /// Performs the handshake.
    pub(crate) async fn connect(
        &self,
        host: &str,
        io: Box<dyn Io>,
    ) -> std::io::Result<Box<dyn Io>> {
        let name = ServerName::try_from(host.to_owned()).map_err(std::io::Error::other)?;
        Ok(Box::new(self.connector.connect(name, io).await?))
    }
}
