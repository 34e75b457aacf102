//! What consumers pop from.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::name::{self, NameError};

/// A topic: `[A-Za-z0-9._-]{1,128}`, except `.` and `..`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Topic(Box<str>);

impl Topic {
    /// The topic as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Topic {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, NameError> {
        name::check(&text, b"._-", "A-Z a-z 0-9 . _ -")?;
        Ok(Self(text.into_boxed_str()))
    }
}

impl FromStr for Topic {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        text.to_owned().try_into()
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}
