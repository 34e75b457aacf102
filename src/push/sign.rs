//! Signatures of requests, in the symmetric form of the Standard Webhooks specification 1.0.0.

use base64::{Engine, prelude::BASE64_STANDARD};
use ring::hmac;

use crate::job::{Hidden, decode_secret};

/// Keys of the signatures of a push.
pub struct Keys(Vec<hmac::Key>);

impl Keys {
    /// Reads the secrets of a push; skips unreadable ones.
    pub fn new(secrets: &[Hidden]) -> Self {
        let key = |secret: &Hidden| {
            let bytes = decode_secret(secret.reveal())?;
            Some(hmac::Key::new(hmac::HMAC_SHA256, &bytes))
        };
        Self(secrets.iter().filter_map(key).collect())
    }

    /// Returns the value of `webhook-signature`: a signature for each key; `None` without keys.
    /// `timestamp` is the value of `webhook-timestamp`.
    pub fn signature(&self, id: &str, timestamp: u64, body: &[u8]) -> Option<String> {
        let sign = |key: &hmac::Key| {
            let mut context = hmac::Context::with_key(key);
            context.update(format!("{id}.{timestamp}.").as_bytes());
            context.update(body);
            format!("v1,{}", BASE64_STANDARD.encode(context.sign()))
        };
        let all: Vec<String> = self.0.iter().map(sign).collect();
        Some(all.join(" ")).filter(|text| !text.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_specification_has_its_signature() {
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let keys = Keys::new(&[Hidden::new(secret.to_owned())]);
        let body = br#"{"test": 2432232314}"#;
        let signature = keys.signature("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body);
        let expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert_eq!(signature.as_deref(), Some(expected));
        let two = Keys::new(&[Hidden::new(secret.to_owned()), Hidden::new(secret.to_owned())]);
        let signature = two.signature("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body);
        assert_eq!(signature, Some(format!("{expected} {expected}")));
        assert_eq!(Keys::new(&[]).signature("a", 1, body), None);
    }
}
