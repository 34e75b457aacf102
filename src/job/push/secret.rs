//! Secrets: the texts from which the keys of signatures are decoded (Standard Webhooks).

use std::ops::RangeInclusive;

/// Beginning of every secret.
const PREFIX: &str = "whsec_";
/// Size of a key, in bytes.
const KEY_BYTES: RangeInclusive<usize> = 24..=64;

/// Returns the key of a secret: `whsec_` and the base64 of 24 to 64 bytes, with padding. Returns
/// `None` if the text does not have this form.
pub fn decode_secret(text: &str) -> Option<Vec<u8>> {
    let key = decode(text.strip_prefix(PREFIX)?)?;
    KEY_BYTES.contains(&key.len()).then_some(key)
}

/// Decodes the base64 of RFC 4648, section 4. Each key has only one text: the padding is required,
/// and unused bits must be zero.
fn decode(text: &str) -> Option<Vec<u8>> {
    let mut key = Vec::with_capacity(text.len() / 4 * 3);
    let (groups, rest) = text.as_bytes().as_chunks::<4>();
    if !rest.is_empty() {
        return None;
    }
    for (index, group) in groups.iter().enumerate() {
        let is_last = index + 1 == groups.len();
        let padding = group.iter().rev().take_while(|byte| **byte == b'=').count();
        if padding > 2 || (padding > 0 && !is_last) {
            return None;
        }
        let mut bits = 0;
        for byte in &group[..4 - padding] {
            bits = bits << 6 | value(*byte)?;
        }
        bits <<= 6 * padding;
        let [_, bytes @ ..] = u32::to_be_bytes(bits);
        let (used, unused) = bytes.split_at(3 - padding);
        if unused.iter().any(|byte| *byte != 0) {
            return None;
        }
        key.extend_from_slice(used);
    }
    Some(key)
}

fn value(byte: u8) -> Option<u32> {
    let value = match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(value.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_decoded_as_rfc_4648_shows() {
        for (text, bytes) in [
            ("", ""),
            ("Zg==", "f"),
            ("Zm8=", "fo"),
            ("Zm9v", "foo"),
            ("Zm9vYg==", "foob"),
            ("Zm9vYmE=", "fooba"),
            ("Zm9vYmFy", "foobar"),
        ] {
            assert_eq!(decode(text).as_deref(), Some(bytes.as_bytes()), "{text}");
        }
        assert_eq!(decode("+/+/"), Some(vec![0xfb, 0xff, 0xbf]));
    }

    #[test]
    fn text_that_is_no_strict_base64_is_refused() {
        for text in ["Z", "Zg", "Zg=", "Zh==", "Zm9=", "Z===", "====", "Zg==Zm9v", "Zm-_", "Zm 9"] {
            assert_eq!(decode(text), None, "{text}");
        }
    }

    #[test]
    fn a_secret_has_a_prefix_and_24_to_64_bytes() {
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        assert_eq!(decode_secret(secret).map(|key| key.len()), Some(24));
        let long = |groups: usize, end: &str| format!("whsec_{}{end}", "AAAA".repeat(groups));
        assert_eq!(decode_secret(&long(21, "AA==")).map(|key| key.len()), Some(64));
        for text in [long(7, "AAA="), long(21, "AAA="), secret.replace("whsec_", ""), String::new()]
        {
            assert_eq!(decode_secret(&text), None, "{text}");
        }
    }
}
