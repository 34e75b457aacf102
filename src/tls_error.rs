//! TLS errors as one sentence that says what to do.

use std::{error::Error, sync::Arc};

use rustls::{CertificateError as Certificate, Error as TlsError};

/// How many nested causes of an error are searched.
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
            format!("the other end refused the TLS handshake ({alert:?}): does it want another certificate from this side?")
        }
        TlsError::PeerIncompatible(_) => {
            "the other end speaks no version of TLS or cipher that this one accepts: it needs TLS 1.2 with \
             ECDHE, or TLS 1.3"
                .to_owned()
        }
        other => other.to_string(),
    }
}

fn of_certificate(wrong: &Certificate, ca: &str) -> String {
    // The errors of webpki are opaque here; only their debug names identify them.
    let text = format!("{wrong:?}");
    match wrong {
        _ if text.contains("CaUsedAsEndEntity") => format!(
            "the certificate is that of an authority (CA:TRUE), which a server must not show: make one with \
             `-addext basicConstraints=critical,CA:FALSE`, and name it by {ca}"
        ),
        _ if text.contains("UnsupportedCertVersion") => "the certificate is of X.509 version 1: make one of \
             version 3, with a subjectAltName"
            .to_owned(),
        Certificate::UnknownIssuer => {
            format!("the certificate is signed by no trusted authority: name the authority by {ca}")
        }
        Certificate::NotValidForName | Certificate::NotValidForNameContext { .. } => {
            let names = match wrong {
                Certificate::NotValidForNameContext { presented, .. } if !presented.is_empty() => {
                    format!("for {}", presented.join(", "))
                }
                _ => "for no name at all".to_owned(),
            };
            format!("the certificate is {names}, and not for the host that was asked: its subjectAltName must have it")
        }
        Certificate::Expired | Certificate::ExpiredContext { .. } => {
            "the certificate has expired: renew it".to_owned()
        }
        Certificate::NotValidYet | Certificate::NotValidYetContext { .. } => {
            "the certificate is not valid yet: look at its dates and at this machine's clock".to_owned()
        }
        Certificate::BadSignature => format!(
            "the signature of the certificate does not fit the authority in {ca}: is it another authority of \
             the same name?"
        ),
        _ if text.contains("UnsupportedSignatureAlgorithm") => "the certificate is signed in a way that is not \
             supported: use RSA of 2048 bits or more with SHA-256, ECDSA on P-256 or P-384, or Ed25519"
            .to_owned(),
        Certificate::InvalidPurpose | Certificate::InvalidPurposeContext { .. } => {
            "the certificate is for another purpose: its extendedKeyUsage must have serverAuth (clientAuth for \
             one of a client)"
                .to_owned()
        }
        _ => format!("the certificate cannot be used: {wrong}"),
    }
}
