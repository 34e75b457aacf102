//! Names made of characters from an allow-list: job ids, topics and names of tokens.
//!
//! Names become parts of Redis keys and of URL paths, so only a few characters are allowed. `.` and
//! `..` are refused, although they consist of allowed characters: HTTP clients remove such a
//! segment from the path of a URL, so no request could name this job or topic.

use std::{fmt, marker::PhantomData, str::FromStr};

use serde::de::Visitor;
use thiserror::Error;

/// Defines a type for names of ASCII letters, digits and the `$extra` characters. Up to 23 bytes
/// need no allocation, and cloning never does.
#[macro_export]
macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $extra:literal, $allowed:literal) => {
        $crate::name! {
            $(#[$doc])* $type, $extra, $allowed, $crate::job::name::MAX_LEN
        }
    };
    ($(#[$doc:meta])* $type:ident, $extra:literal, $allowed:literal, $max:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
        pub struct $type(smol_str::SmolStr);

        impl $type {
            /// Returns the text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::str::FromStr for $type {
            type Err = $crate::job::NameError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                $crate::job::name::check(text, $extra, $allowed, $max)?;
                Ok(Self(text.into()))
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str($crate::job::name::NameVisitor::default())
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

/// Visitor that parses a name without copying the text first.
pub struct NameVisitor<T>(PhantomData<T>);

impl<T> Default for NameVisitor<T> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T: FromStr<Err = NameError>> Visitor<'_> for NameVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

/// The longest name, in bytes (all allowed characters are one byte).
pub const MAX_LEN: usize = 128;

/// A name outside the allow-list.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("must be 1 to {max} characters of {allowed}, and not \".\" or \"..\"; got {given}")]
pub struct NameError {
    allowed: &'static str,
    max: usize,
    given: String,
}

/// Checks a name of at most `max` letters, digits and `extra`; the error describes them as
/// `allowed`.
pub fn check(text: &str, extra: &[u8], allowed: &'static str, max: usize) -> Result<(), NameError> {
    let fits = (1..=max).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || extra.contains(&byte))
        && text != "."
        && text != "..";
    if fits { Ok(()) } else { Err(NameError { allowed, max, given: describe(text) }) }
}

/// Returns the refused text for an error: escaped, and cut if it is long.
pub fn describe(text: &str) -> String {
    let shown: String = text.chars().take(40).collect();
    match text.chars().count() {
        n if n > 40 => format!("{shown:?}… ({n} characters)"),
        _ => format!("{shown:?}"),
    }
}
