//! Secrets: the texts from which the keys of signatures are decoded (Standard Webhooks).

use std::ops::RangeInclusive;

use base64::{Engine, prelude::BASE64_STANDARD};

/// Beginning of every secret.
const PREFIX: &str = "whsec_";
/// Size of a key, in bytes.
const KEY_BYTES: RangeInclusive<usize> = 24..=64;

/// Returns the key of a secret: `whsec_` and the base64 of 24 to 64 bytes, with padding. Returns
/// `None` if the text does not have this form.
pub fn decode_secret(text: &str) -> Option<Vec<u8>> {
    let key = BASE64_STANDARD.decode(text.strip_prefix(PREFIX)?).ok()?;
    KEY_BYTES.contains(&key.len()).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_has_a_prefix_and_24_to_64_bytes() {
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        assert_eq!(decode_secret(secret).map(|key| key.len()), Some(24));
        let long = |groups: usize, end: &str| format!("whsec_{}{end}", "AAAA".repeat(groups));
        assert_eq!(decode_secret(&long(21, "AA==")).map(|key| key.len()), Some(64));
        for text in [
            long(7, "AAA="),
            long(21, "AAA="),
            secret.replace("whsec_", ""),
            secret.replace('9', "-"),
            format!("{secret}A"),
            String::new(),
        ] {
            assert_eq!(decode_secret(&text), None, "{text}");
        }
    }
}
