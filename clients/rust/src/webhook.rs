//! Verification of pushes, whose signatures follow [Standard Webhooks].
//!
//! [Standard Webhooks]: https://www.standardwebhooks.com

use std::time::{Duration, SystemTime};

use base64::{Engine, engine::general_purpose::STANDARD};
use http::HeaderMap;
use ring::hmac;

use crate::{Error, value::time};

/// Difference between the clocks of sender and receiver.
const TOLERANCE: Duration = Duration::from_secs(300);

/// Verifier of pushes with one or more secrets.
#[derive(Clone, Debug)]
pub struct Verifier {
    keys: Vec<hmac::Key>,
}

/// Reason why a request is not a genuine push.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignatureError {
    /// A header is missing, or has no valid form.
    #[error("the header {0} is missing or invalid")]
    Header(&'static str),
    /// The request is older or newer than five minutes.
    #[error("the time in webhook-timestamp, {0}, is not within five minutes of now")]
    Time(i64),
    /// No signature matches a secret.
    #[error("no signature in webhook-signature matches the body and a secret")]
    Signature,
}

impl Verifier {
    /// Returns a verifier with these secrets (`whsec_` and base64), of which one must match. While
    /// a secret is rotated, give both.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if there is none, or one has another form.
    pub fn new<S: AsRef<str>>(secrets: impl IntoIterator<Item = S>) -> Result<Self, Error> {
        let usage = |reason: String| Error::Usage { field: "secrets", reason };
        let key = |(index, secret): (usize, S)| {
            let base64 = secret.as_ref().strip_prefix("whsec_");
            let bytes = base64.and_then(|base64| STANDARD.decode(base64).ok());
            let bytes = bytes.filter(|bytes| !bytes.is_empty());
            // The secret itself does not belong into a log.
            let invalid = || usage(format!("secret {} must be whsec_ and base64", index + 1));
            Ok(hmac::Key::new(hmac::HMAC_SHA256, &bytes.ok_or_else(invalid)?))
        };
        let keys = secrets.into_iter().enumerate().map(key).collect::<Result<Vec<_>, _>>()?;
        if keys.is_empty() {
            return Err(usage(
                "there is none; give that of the push, whsec_ and base64".to_owned(),
            ));
        }
        Ok(Verifier { keys })
    }

    /// Checks that the server has sent this request within the last five minutes. `body` has the
    /// bytes as they arrived.
    ///
    /// # Errors
    ///
    /// The part that does not verify, and why.
    pub fn verify(&self, headers: &HeaderMap, body: &[u8]) -> Result<(), SignatureError> {
        self.verify_at(time::now(), headers, body)
    }

    /// The same, at another time than now.
    ///
    /// # Errors
    ///
    /// The part that does not verify, and why.
    pub fn verify_at(
        &self,
        now: SystemTime,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<(), SignatureError> {
        let id = header(headers, "webhook-id")?;
        let sent = header(headers, "webhook-timestamp")?;
        let signatures = header(headers, "webhook-signature")?;
        let seconds = sent.parse().map_err(|_| SignatureError::Header("webhook-timestamp"))?;
        if !is_recent(seconds, now) {
            return Err(SignatureError::Time(seconds));
        }
        let signed = [id.as_bytes(), b".", sent.as_bytes(), b".", body].concat();
        let given = signatures
            .split_ascii_whitespace()
            .filter_map(|signature| STANDARD.decode(signature.strip_prefix("v1,")?).ok());
        for signature in given {
            // Takes the same time whichever byte differs.
            if self.keys.iter().any(|key| hmac::verify(key, &signed, &signature).is_ok()) {
                return Ok(());
            }
        }
        Err(SignatureError::Signature)
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<&'a str, SignatureError> {
    let value = headers.get(name).and_then(|value| value.to_str().ok());
    value.filter(|value| !value.is_empty()).ok_or(SignatureError::Header(name))
}

fn is_recent(seconds: i64, now: SystemTime) -> bool {
    let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let distance = i64::try_from(now).map_or(u64::MAX, |now| now.abs_diff(seconds));
    distance <= TOLERANCE.as_secs()
}
