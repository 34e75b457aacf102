//! Names of consumers.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use smol_str::SmolStr;
use thiserror::Error;

/// The longest name of a consumer, in bytes (all allowed characters are one byte).
pub const MAX_CONSUMER: usize = 64;

/// The name of a consumer: `[A-Za-z0-9._:@/-]{1,64}`. Answers show it with each job that the
/// consumer holds or held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Consumer(SmolStr);

/// Error for text that is not a name of a consumer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("must be 1 to {MAX_CONSUMER} characters of A-Z a-z 0-9 . _ : @ / -; got {given}")]
pub struct ConsumerError {
    given: String,
}

impl Consumer {
    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Consumer {
    type Err = ConsumerError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._:@/-".contains(&byte);
        match (1..=MAX_CONSUMER).contains(&text.len()) && text.bytes().all(allowed) {
            true => Ok(Self(text.into())),
            false => Err(ConsumerError { given: super::name::describe(text) }),
        }
    }
}

impl<'de> Deserialize<'de> for Consumer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl fmt::Display for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_1_to_64_allowed_characters() {
        let longest = "a".repeat(64);
        for text in ["a", "-", ".", "Az09._:@/-", "worker-1@host/7:a", &longest] {
            assert_eq!(text.parse::<Consumer>().expect(text).as_str(), text);
        }
        let longer = "a".repeat(65);
        for text in ["", " ", "a b", "ä", "a\n", "!", "a,b", "a=b", &longer] {
            let error = text.parse::<Consumer>().expect_err(text).to_string();
            assert!(error.contains("1 to 64") && error.contains("got \""), "{error}");
        }
    }
}
