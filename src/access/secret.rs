//! The text of a token, which only its holder has, and the hash that stores have.

use std::{borrow::Cow, fmt, str::FromStr};

use ring::{digest, rand};
use thiserror::Error;

/// By which people and secret scanners know a token.
const PREFIX: &str = "dq_";
/// 256 bits in hexadecimal.
const RANDOM: usize = 64;
/// A CRC-32 of what is before it, in hexadecimal: a scanner tells a token from what only looks
/// like one without asking a server, and a server refuses a mistyped one without a look.
const CHECKSUM: usize = 8;

/// Fewer digits behind [`PREFIX`] tell nothing of a token.
const TELLING: usize = 8;

/// A text of a URL without what looks like a token in it: clients send one there by mistake. Any
/// character of it may be percent-encoded.
pub fn masked(text: &str) -> Cow<'_, str> {
    let (mut shown, mut kept) = (String::new(), 0);
    let mut at = 0;
    while at < text.len() {
        match behind_prefix(text, at).map(|start| (start, digits(text, start))) {
            Some((start, (end, count))) if count >= TELLING => {
                shown.extend([&text[kept..start], "…"]);
                (at, kept) = (end, end);
            }
            _ => at += text[at..].chars().next().map_or(1, char::len_utf8),
        }
    }
    match kept {
        0 => text.into(),
        _ => (shown + &text[kept..]).into(),
    }
}

/// The end of the prefix of a token, if one begins at `at`.
fn behind_prefix(text: &str, at: usize) -> Option<usize> {
    PREFIX.chars().try_fold(at, |at, c| after(text, at, |found| found == c))
}

/// Where the hexadecimal digits end that begin at `start`, and how many they are. The next token's prefix
/// begins with a digit too.
fn digits(text: &str, start: usize) -> (usize, usize) {
    let next = |&(at, count): &(usize, usize)| {
        let end = after(text, at, |found| found.is_ascii_hexdigit())?;
        behind_prefix(text, at).is_none().then_some((end, count + 1))
    };
    std::iter::successors(Some((start, 0)), next).last().unwrap_or((start, 0))
}

/// The end of the character at `at`, percent-encoded or not, if it is one of these.
fn after(text: &str, at: usize, fits: impl Fn(char) -> bool) -> Option<usize> {
    let encoded = text.get(at + 1..at + 3).filter(|_| text[at..].starts_with('%'));
    let (found, length) = match encoded.and_then(|code| u8::from_str_radix(code, 16).ok()) {
        Some(byte) => (char::from(byte), 3),
        None => text[at..].chars().next().map(|found| (found, found.len_utf8()))?,
    };
    fits(found).then_some(at + length)
}

/// `dq_`, 64 hexadecimal digits of chance, and 8 of checksum. No message and no log shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretToken(String);

/// A text that is no token; it is not repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("must be a token: dq_ and 72 hexadecimal digits, as `delay-queue token` prints it")]
pub struct SecretTokenError;

impl SecretToken {
    /// A new one, from the randomness of the operating system.
    ///
    /// # Errors
    /// The system has none.
    pub fn generate() -> Result<Self, ring::error::Unspecified> {
        let random = rand::generate::<[u8; RANDOM / 2]>(&rand::SystemRandom::new())?.expose();
        let body = format!("{PREFIX}{}", hexadecimal(&random));
        let checksum = crc32fast::hash(body.as_bytes());
        Ok(Self(format!("{body}{checksum:08x}")))
    }

    /// The text: for the one who asked for the token, and for no one else.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// What stores keep of it. A fast hash is enough: there are 2^256 texts to try.
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
        if digits.len() != RANDOM + CHECKSUM || !digits.bytes().all(is_digit) {
            return Err(SecretTokenError);
        }
        let (body, checksum) = text.split_at(PREFIX.len() + RANDOM);
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
/// Tokens are looked up by it in a hash table. Where that looks tells a caller nothing: to come nearer to
/// a known hash, one would have to find texts by their SHA-256.
#[derive(Clone, Copy, Eq, Hash)]
#[expect(clippy::derived_hash_with_manual_eq, reason = "equality is that of the bytes")]
pub struct TokenHash([u8; 32]);

impl PartialEq for TokenHash {
    /// In a time that does not depend on where they differ.
    fn eq(&self, other: &Self) -> bool {
        let differs = self.0.iter().zip(other.0).fold(0, |all, (a, b)| all | (a ^ b));
        std::hint::black_box(differs) == 0
    }
}

impl fmt::Display for TokenHash {
    /// As stores keep it.
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
