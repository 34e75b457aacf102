//! Rate: a maximum number of requests per second, minute or hour.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

/// Maximum number of requests a second, minute or hour. Clients and stores write `100/s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    count: u32,
    unit: Unit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Second,
    Minute,
    Hour,
}

/// Greatest number of requests in a unit of time.
const MAX_COUNT: u32 = 1_000_000;

/// Text that is not a rate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be a number from 1 to {MAX_COUNT} and a unit of time, as in \"100/s\", \"30/m\" or \"500/h\", got {0:?}"
)]
pub struct RateError(String);

impl Unit {
    const ALL: [(Self, &str, u64); 3] =
        [(Self::Second, "s", 1), (Self::Minute, "m", 60), (Self::Hour, "h", 3600)];

    fn row(self) -> (&'static str, u64) {
        let (_, name, seconds) = Self::ALL[self as usize];
        (name, seconds)
    }
}

impl Rate {
    /// Returns the number of requests in [`period`](Self::period).
    pub fn count(self) -> u32 {
        self.count
    }

    /// Returns the time that the number counts for.
    pub fn period(self) -> Duration {
        Duration::from_secs(self.unit.row().1)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.count, self.unit.row().0)
    }
}

impl FromStr for Rate {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Self, RateError> {
        let parse = || {
            let (count, name) = text.split_once('/')?;
            let (unit, ..) = Unit::ALL.into_iter().find(|(_, unit, _)| *unit == name)?;
            let is_number =
                (1..=7).contains(&count.len()) && count.bytes().all(|b| b.is_ascii_digit());
            let count =
                count.parse().ok().filter(|count| is_number && (1..=MAX_COUNT).contains(count))?;
            Some(Self { count, unit })
        };
        parse().ok_or_else(|| RateError(text.chars().take(40).collect()))
    }
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'_, str>>::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}
