//! Explanations of TLS errors, each with what to do.

use std::{error::Error, sync::Arc};

use rustls::{CertificateError as Certificate, Error as TlsError};

/// Maximum number of nested causes of an error that are searched.
const MAX_DEPTH: usize = 8;

/// Finds a TLS error among an error and its causes.
pub fn find<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a TlsError> {
    let mut next = Some(error);
    for _ in 0..MAX_DEPTH {
        let error = next?;
        if let Some(tls) = error.downcast_ref::<TlsError>() {
            return Some(tls);
        }
        // `source` of an `io::Error` skips the error inside; the redis crate wraps causes in `Arc`.
        let of_io = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        let shared = error.downcast_ref::<Arc<dyn Error + Send + Sync>>();
        next = match (of_io, shared) {
            (Some(inner), _) => Some(inner),
            (None, Some(shared)) => Some(&**shared),
            (None, None) => error.source(),
        };
    }
    None
}

/// Describes a problem with the certificate of either side and how to solve it. `ca` is the option
/// or setting that names trusted authorities.
pub fn explain(error: &TlsError, ca: &str) -> String {
    match error {
        TlsError::InvalidCertificate(wrong) => of_certificate(wrong, ca),
        TlsError::InvalidMessage(_) => "the other end does not speak TLS".to_owned(),
        TlsError::AlertReceived(alert) => {
            format!("the other end refused the TLS handshake ({alert:?}): check which certificate it requires from this end")
        }
        TlsError::PeerIncompatible(_) => {
            "the other end supports no TLS version and cipher that this end accepts: enable TLS 1.3 there, or \
             TLS 1.2 with ECDHE"
                .to_owned()
        }
        other => other.to_string(),
    }
}

fn of_certificate(wrong: &Certificate, ca: &str) -> String {
    // The errors of webpki are opaque here; only their debug names identify them.
    let text = format!("{wrong:?}");
    match wrong {
        _ if text.contains("CaUsedAsEndEntity") => {
            // Clients accept the certificate itself in their file of authorities.
            let advice = match ca {
                "--ca-file" => format!("set {ca} to this very certificate, or create"),
                _ => "create".to_owned(),
            };
            format!(
                "the certificate of the server is marked as that of an authority (CA:TRUE): {advice} one with \
                 `-addext basicConstraints=critical,CA:FALSE`, and set {ca} to it"
            )
        }
        _ if text.contains("UnsupportedCertVersion") => "the certificate has version 1 of X.509: create one with \
             version 3 and a subjectAltName"
            .to_owned(),
        Certificate::UnknownIssuer => {
            format!("the certificate is signed by no trusted authority: name the authority by {ca}")
        }
        Certificate::NotValidForName | Certificate::NotValidForNameContext { .. } => {
            let hosts = match wrong {
                Certificate::NotValidForNameContext { presented, .. } if !presented.is_empty() => {
                    format!("is valid for {}, but not for the requested host", presented.join(", "))
                }
                _ => "is not valid for any host".to_owned(),
            };
            format!("the certificate {hosts}: add the requested host to its subjectAltName")
        }
        Certificate::Expired | Certificate::ExpiredContext { .. } => {
            "the certificate has expired: renew it".to_owned()
        }
        Certificate::NotValidYet | Certificate::NotValidYetContext { .. } => {
            "the certificate is not valid yet: check its dates and this machine's clock".to_owned()
        }
        Certificate::BadSignature => format!(
            "the certificate was not signed by the authority in {ca}, although the names match: set {ca} to the \
             authority that signed it"
        ),
        _ if text.contains("UnsupportedSignatureAlgorithm") => "the signature algorithm of the certificate is not \
             supported: use RSA of 2048 bits or more with SHA-256, ECDSA on P-256 or P-384, or Ed25519"
            .to_owned(),
        Certificate::InvalidPurpose | Certificate::InvalidPurposeContext { .. } => {
            "the certificate is for another purpose: its extendedKeyUsage must include serverAuth, or clientAuth \
             for a client"
                .to_owned()
        }
        _ => format!("the certificate cannot be used: {wrong}"),
    }
}
