//! The secret text of a token, known only to its holder, and the hash that stores keep.

use std::{borrow::Cow, fmt, str::FromStr};

use ring::{digest, rand};
use thiserror::Error;

/// Prefix by which people and secret scanners recognize a token.
const PREFIX: &str = "dq_";
/// Number of hexadecimal digits of the 256 random bits.
const RANDOM_DIGITS: usize = 64;
/// Number of hexadecimal digits of the checksum, the CRC-32 of the preceding text. It lets scanners
/// recognize a token without a server, and servers refuse a mistyped one without a lookup.
const CHECKSUM_DIGITS: usize = 8;

/// Minimum number of digits after [`PREFIX`] to mask; fewer reveal nothing useful.
const MIN_MASKED_DIGITS: usize = 8;

/// Masks everything in the text of a URL that looks like a token, since clients put tokens there by
/// mistake. Recognizes percent-encoded characters too.
pub fn masked(text: &str) -> Cow<'_, str> {
    let (mut shown, mut copied) = (String::new(), 0);
    let mut at = 0;
    while at < text.len() {
        match after_prefix(text, at).map(|start| (start, digits(text, start))) {
            Some((start, (end, count))) if count >= MIN_MASKED_DIGITS => {
                shown.extend([&text[copied..start], "…"]);
                (at, copied) = (end, end);
            }
            _ => at += text[at..].chars().next().map_or(1, char::len_utf8),
        }
    }
    match copied {
        0 => text.into(),
        _ => (shown + &text[copied..]).into(),
    }
}

/// Returns the end of the prefix of a token, if one begins at `at`.
fn after_prefix(text: &str, at: usize) -> Option<usize> {
    PREFIX.chars().try_fold(at, |at, c| after(text, at, |found| found == c))
}

/// Returns the end and the number of the hexadecimal digits from `start`. Stops before the prefix
/// of another token, although its `d` is a digit too.
fn digits(text: &str, start: usize) -> (usize, usize) {
    let next = |&(at, count): &(usize, usize)| {
        let end = after(text, at, |found| found.is_ascii_hexdigit())?;
        after_prefix(text, at).is_none().then_some((end, count + 1))
    };
    std::iter::successors(Some((start, 0)), next).last().unwrap_or((start, 0))
}

/// Returns the end of the character at `at`, percent-encoded or not, if `matches` accepts it.
fn after(text: &str, at: usize, matches: impl Fn(char) -> bool) -> Option<usize> {
    let encoded = text.get(at + 1..at + 3).filter(|_| text[at..].starts_with('%'));
    let (found, length) = match encoded.and_then(|code| u8::from_str_radix(code, 16).ok()) {
        Some(byte) => (char::from(byte), 3),
        None => text[at..].chars().next().map(|found| (found, found.len_utf8()))?,
    };
    matches(found).then_some(at + length)
}

/// The text of a token: `dq_`, 64 random hexadecimal digits and 8 checksum digits; never logged.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretToken(String);

/// Error for text that is not a token; omits the text, which may be a mistyped secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("must be a token: dq_ and 72 hexadecimal digits, as `delay-queue token` prints it")]
pub struct SecretTokenError;

impl SecretToken {
    /// Generates a token with the randomness of the operating system.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn generate() -> Result<Self, ring::error::Unspecified> {
        let random =
            rand::generate::<[u8; RANDOM_DIGITS / 2]>(&rand::SystemRandom::new())?.expose();
        let body = format!("{PREFIX}{}", hexadecimal(&random));
        let checksum = crc32fast::hash(body.as_bytes());
        Ok(Self(format!("{body}{checksum:08x}")))
    }

    /// Returns the text, which only the creator of the token may see.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns the hash that stores keep. It need not be slow, because an attacker cannot guess 256
    /// random bits.
    pub fn hash(&self) -> TokenHash {
        let digest = digest::digest(&digest::SHA256, self.0.as_bytes());
        TokenHash(digest.as_ref().try_into().expect("SHA-256 has 32 bytes"))
    }
}

impl FromStr for SecretToken {
    type Err = SecretTokenError;

    fn from_str(text: &str) -> Result<Self, SecretTokenError> {
        let digits = text.strip_prefix(PREFIX).ok_or(SecretTokenError)?;
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if digits.len() != RANDOM_DIGITS + CHECKSUM_DIGITS || !digits.bytes().all(is_digit) {
            return Err(SecretTokenError);
        }
        let (body, checksum) = text.split_at(PREFIX.len() + RANDOM_DIGITS);
        match u32::from_str_radix(checksum, 16) == Ok(crc32fast::hash(body.as_bytes())) {
            true => Ok(Self(text.to_owned())),
            false => Err(SecretTokenError),
        }
    }
}

impl fmt::Debug for SecretToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// The SHA-256 of a token.
///
/// Servers look tokens up by this hash. The duration of a lookup does not help an attacker, who
/// cannot construct a text whose SHA-256 begins like a known one.
#[derive(Clone, Copy, Eq, Hash)]
#[expect(
    clippy::derived_hash_with_manual_eq,
    reason = "equality compares all bytes, as the derived Hash does"
)]
pub struct TokenHash([u8; 32]);

impl PartialEq for TokenHash {
    /// Compares in constant time, wherever the hashes differ.
    fn eq(&self, other: &Self) -> bool {
        let differs = self.0.iter().zip(other.0).fold(0, |all, (a, b)| all | (a ^ b));
        std::hint::black_box(differs) == 0
    }
}

impl fmt::Display for TokenHash {
    /// Writes the stored form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hexadecimal(&self.0))
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hash)")
    }
}

impl FromStr for TokenHash {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = "must be 64 hexadecimal digits";
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return Err(refused);
        }
        for (byte, at) in bytes.iter_mut().zip((0..).step_by(2)) {
            *byte = u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| refused)?;
        }
        Ok(Self(bytes))
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
