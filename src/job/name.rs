//! The allow-list shared by job ids and topics.
//!
//! Both become parts of Redis keys and of URL paths, so the list is short and closed. `.` and
//! `..` are on it letter by letter but are refused whole: URL clients normalise such a path
//! segment away, so a job or topic of that name could never be reached again.

use thiserror::Error;

/// Makes a type for text on the allow-list: letters, digits, and the characters named.
macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $extra:literal, $allowed:literal) => {
        $(#[$doc])*
        #[derive(
            Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
        )]
        #[serde(try_from = "String")]
        pub struct $type(Box<str>);

        impl $type {
            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $type {
            type Error = $crate::job::NameError;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                $crate::job::name::check(&text, $extra, $allowed)?;
                Ok(Self(text.into_boxed_str()))
            }
        }

        impl std::str::FromStr for $type {
            type Err = $crate::job::NameError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.to_owned().try_into()
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

pub(super) use name;

/// Longest job id or topic, in bytes (all allowed characters are one byte).
const MAX_LEN: usize = 128;

/// A job id or topic outside the allow-list.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("must be 1 to 128 characters of {allowed}, and not \".\" or \"..\"; got {given}")]
pub struct NameError {
    allowed: &'static str,
    given: String,
}

/// Checks `text` against ASCII letters, digits and the `extra` characters; `allowed` says the
/// same to people.
pub(super) fn check(text: &str, extra: &[u8], allowed: &'static str) -> Result<(), NameError> {
    let fits = (1..=MAX_LEN).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || extra.contains(&byte))
        && text != "."
        && text != "..";
    if fits { Ok(()) } else { Err(NameError { allowed, given: describe(text) }) }
}

/// The refused text as it can be shown: escaped, and cut when long.
fn describe(text: &str) -> String {
    let shown: String = text.chars().take(40).collect();
    match text.chars().count() {
        n if n > 40 => format!("{shown:?}… ({n} characters)"),
        _ => format!("{shown:?}"),
    }
}
