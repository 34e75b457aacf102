//! Priorities of jobs.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, de};

/// The rank of a job among the ready jobs of its topic, from 0 to [`MAX`](Self::MAX): larger ones
/// are popped first. Stores and exports contain the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Priority(u8);

impl Priority {
    /// The priority of a job whose put and topic name none.
    pub const STANDARD: Self = Self(4);
    /// The priority that is popped last.
    pub const MIN: Self = Self(0);
    /// The priority that is popped first.
    pub const MAX: Self = Self(9);

    /// Returns the priority with this number, or `None` above 9.
    pub fn new(number: u8) -> Option<Self> {
        (number <= Self::MAX.0).then_some(Self(number))
    }

    /// Returns the number, from 0 to 9.
    pub fn get(self) -> u8 {
        self.0
    }

    /// Returns whether this is [`STANDARD`](Self::STANDARD).
    pub fn is_standard(&self) -> bool {
        *self == Self::STANDARD
    }

    /// Returns all priorities, the one that is popped first at the beginning.
    pub fn from_highest() -> impl Iterator<Item = Self> {
        (Self::MIN.0..=Self::MAX.0).rev().map(Self)
    }
}

impl Default for Priority {
    fn default() -> Self {
        Self::STANDARD
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Error for text that is not a priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a whole number from 0 to 9")]
pub struct PriorityError;

impl FromStr for Priority {
    type Err = PriorityError;

    fn from_str(text: &str) -> Result<Self, PriorityError> {
        match text.as_bytes() {
            [digit @ b'0'..=b'9'] => Ok(Self(digit - b'0')),
            _ => Err(PriorityError),
        }
    }
}

impl<'de> Deserialize<'de> for Priority {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Priority;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number from 0 to 9")
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Priority, E> {
                let priority = u8::try_from(number).ok().and_then(Priority::new);
                let refused = || E::invalid_value(de::Unexpected::Unsigned(number), &self);
                priority.ok_or_else(refused)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_priority_is_one_digit() {
        for priority in Priority::from_highest() {
            assert_eq!(priority.to_string().parse(), Ok(priority));
            let json = serde_json::to_string(&priority).expect("a number");
            assert_eq!(serde_json::from_str::<Priority>(&json).expect("its own text"), priority);
        }
        for text in ["", "10", "-1", "+1", "a", " 1"] {
            assert_eq!(text.parse::<Priority>(), Err(PriorityError), "{text:?}");
        }
        for json in ["10", "-1", "1.5", "256", "\"4\"", "true", "[]"] {
            let error = serde_json::from_str::<Priority>(json).expect_err(json).to_string();
            assert!(error.contains("whole number from 0 to 9"), "{error}");
        }
    }
}
