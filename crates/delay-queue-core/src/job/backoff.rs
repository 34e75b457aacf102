//! Backoff: how long a job waits before its next attempt.

use std::{fmt, str::FromStr};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{
        self, Error,
        value::{MapAccessDeserializer, SeqAccessDeserializer},
    },
};

use super::{
    duration::{DurationError, Millis},
    id::JobId,
    list::List,
};

/// Maximum number of values of a list.
pub const MAX_VALUES: usize = 100;
/// Largest growth from one attempt to the next.
pub const MAX_FACTOR: f64 = 1000.0;

/// The wait after a release without a delay and after an ended TTR.
///
/// The wait depends only on the job's id and attempt, jitter included. A store that computes it
/// again, after a restart or on another server, gets the same result.
#[derive(Debug, Clone, PartialEq)]
pub enum Backoff {
    /// The wait after the first attempt, the second, and so on; the last value repeats.
    List(Vec<Millis>),
    /// `initial × factor^(attempt − 1)`, at most `max`, spread by `jitter`.
    Exponential {
        /// The wait after the first attempt.
        initial: Millis,
        /// Growth per attempt, from 1 to [`MAX_FACTOR`].
        factor: f64,
        /// The longest wait.
        max: Millis,
        /// From 0 (none) to 1: the wait is spread evenly over `1 ± jitter` times its length.
        jitter: f64,
    },
}

/// The exponential form as clients write it; null counts as absent.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Exponential {
    #[serde(default, deserialize_with = "initial")]
    initial: Option<Millis>,
    #[serde(default, deserialize_with = "factor")]
    factor: Option<f64>,
    max: Option<Millis>,
    #[serde(default, deserialize_with = "jitter")]
    jitter: Option<f64>,
}

// One function per field, so that the position in an error is that of the invalid field.

fn initial<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Millis>, D::Error> {
    let initial = Option::deserialize(deserializer)?;
    match initial {
        Some(Millis::ZERO) => Err(D::Error::custom(BackoffError::Initial)),
        initial => Ok(initial),
    }
}

fn factor<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    let factor: Option<f64> = Option::deserialize(deserializer)?;
    factor.map(checked_factor).transpose().map_err(D::Error::custom)
}

fn jitter<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    let jitter: Option<f64> = Option::deserialize(deserializer)?;
    jitter.map(checked_jitter).transpose().map_err(D::Error::custom)
}

fn checked_factor(factor: f64) -> Result<f64, BackoffError> {
    let fits = (1.0..=MAX_FACTOR).contains(&factor);
    if fits { Ok(factor) } else { Err(BackoffError::Factor(factor)) }
}

fn checked_jitter(jitter: f64) -> Result<f64, BackoffError> {
    let fits = (0.0..=1.0).contains(&jitter);
    // Negative zero is valid too; `abs` turns it into zero.
    if fits { Ok(jitter.abs()) } else { Err(BackoffError::Jitter(jitter)) }
}

/// Why a backoff is invalid.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum BackoffError {
    /// An empty list, or more than [`MAX_VALUES`] values.
    #[error("must have 1 to {MAX_VALUES} values, got {0}")]
    Values(usize),
    /// A factor below 1 or above the maximum.
    #[error("must be from 1 to {MAX_FACTOR}, got {0}")]
    Factor(f64),
    /// A jitter that is not a fraction.
    #[error("must be from 0 to 1, got {0}")]
    Jitter(f64),
    /// An initial wait of zero, which cannot grow.
    #[error("must be at least one millisecond; for no wait at all, leave `backoff` out")]
    Initial,
    /// Stored text that does not have the form of a backoff.
    #[error("must be the text of a backoff, got {0:?}")]
    Text(String),
    /// One of the durations is invalid.
    #[error(transparent)]
    Duration(#[from] DurationError),
}

impl Backoff {
    /// Checks the values; every `Backoff` in use has passed this check.
    fn checked(self) -> Result<Self, BackoffError> {
        match self {
            Self::List(values) if !(1..=MAX_VALUES).contains(&values.len()) => {
                Err(BackoffError::Values(values.len()))
            }
            Self::Exponential { initial: Millis::ZERO, .. } => Err(BackoffError::Initial),
            Self::Exponential { initial, factor, max, jitter } => {
                let (factor, jitter) = (checked_factor(factor)?, checked_jitter(jitter)?);
                Ok(Self::Exponential { initial, factor, max, jitter })
            }
            Self::List(_) => Ok(self),
        }
    }

    /// Returns the wait after attempt number `attempt` (from 1) of the job `id`.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the result is between 0 and max, which has 39 bits"
    )]
    pub fn delay(&self, id: &JobId, attempt: u32) -> Millis {
        match self {
            Self::List(values) => {
                let index = (attempt.max(1) as usize).min(values.len()) - 1;
                values[index]
            }
            Self::Exponential { initial, factor, max, jitter } => {
                let max = max.get() as f64;
                let exponent = f64::from(attempt.max(1) - 1);
                let wait = (initial.get() as f64 * factor.powf(exponent)).min(max);
                let spread = 1.0 - jitter + 2.0 * jitter * position(id, attempt);
                Millis::new((wait * spread).min(max).floor() as u64)
            }
        }
    }

    /// Returns the number of attempts that the backoff implies: one more than a list has values.
    pub fn attempts(&self) -> Option<u32> {
        match self {
            Self::List(values) => u32::try_from(values.len()).ok().map(|n| n + 1),
            Self::Exponential { .. } => None,
        }
    }
}

/// Returns a number from 0 up to 1 that places an attempt within its jitter: different for each job
/// and attempt, and computable with the doubles of Lua.
fn position(id: &JobId, attempt: u32) -> f64 {
    const PRIME: u64 = 65_521;
    let hash = id.as_str().bytes().fold(7, |hash, byte| (hash * 31 + u64::from(byte)) % PRIME);
    let mixed = (hash + u64::from(attempt) * 7919) % PRIME;
    f64::from(u32::try_from(mixed).expect("a remainder of 65,521")) / 65_521.0
}

impl<'de> Deserialize<'de> for Backoff {
    /// Reads the form that clients use: a list, or an object.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Backoff;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of durations or {\"initial\", \"factor\", \"max\", \"jitter\"}")
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, list: A) -> Result<Backoff, A::Error> {
                let list = SeqAccessDeserializer::new(list);
                let List(values) = List::<Millis, MAX_VALUES>::deserialize(list)?;
                Ok(Backoff::List(values))
            }

            fn visit_map<A: de::MapAccess<'de>>(self, object: A) -> Result<Backoff, A::Error> {
                let given = Exponential::deserialize(MapAccessDeserializer::new(object))?;
                let missing = A::Error::missing_field;
                Ok(Backoff::Exponential {
                    initial: given.initial.ok_or_else(|| missing("initial"))?,
                    factor: given.factor.unwrap_or(2.0),
                    max: given.max.ok_or_else(|| missing("max"))?,
                    jitter: given.jitter.unwrap_or(0.0),
                })
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl Serialize for Backoff {
    /// Writes the form that clients use.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::List(values) => values.serialize(serializer),
            &Self::Exponential { initial, factor, max, jitter } => {
                let (initial, factor, max) = (Some(initial), Some(factor), Some(max));
                Exponential { initial, factor, max, jitter: Some(jitter) }.serialize(serializer)
            }
        }
    }
}

impl fmt::Display for Backoff {
    /// Writes the stored form, without spaces: `list:0,120000` or `exp:1000:2:3600000:0.1`, in
    /// milliseconds. Persisted: must stay readable.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::List(values) => {
                f.write_str("list:")?;
                for (index, value) in values.iter().enumerate() {
                    let comma = if index == 0 { "" } else { "," };
                    write!(f, "{comma}{}", value.get())?;
                }
                Ok(())
            }
            Self::Exponential { initial, factor, max, jitter } => {
                write!(f, "exp:{}:{factor}:{}:{jitter}", initial.get(), max.get())
            }
        }
    }
}

impl FromStr for Backoff {
    type Err = BackoffError;

    fn from_str(text: &str) -> Result<Self, BackoffError> {
        let bad = || BackoffError::Text(text.to_owned());
        let millis = |text: &str| text.parse().map(Millis::new).map_err(|_| bad());
        let number = |text: &str| text.parse::<f64>().map_err(|_| bad());
        match text.split_once(':') {
            Some(("list", values)) => {
                Self::List(values.split(',').map(millis).collect::<Result<_, _>>()?)
            }
            Some(("exp", rest)) => match rest.split(':').collect::<Vec<_>>()[..] {
                [initial, factor, max, jitter] => Self::Exponential {
                    initial: millis(initial)?,
                    factor: number(factor)?,
                    max: millis(max)?,
                    jitter: number(jitter)?,
                },
                _ => return Err(bad()),
            },
            _ => return Err(bad()),
        }
        .checked()
    }
}

#[cfg(test)]
mod tests;
