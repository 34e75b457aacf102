//! Points in time, in whole milliseconds.
//!
//! This module reads no clock. A value finer than a millisecond is rounded up, so that rounding can
//! make a job later but never early.

use std::fmt;

use jiff::{Timestamp, tz::Offset};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use thiserror::Error;

use super::duration::Millis;

/// A point in time, in milliseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixMillis(u64);

/// An invalid time.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "must be a time as RFC 3339 text with an offset (\"2026-01-31T12:00:00Z\") or a 13-digit \
     number of Unix milliseconds; got {0}"
)]
pub struct TimeError(String);

impl UnixMillis {
    /// Creates the time `millis` milliseconds after the epoch.
    pub const fn new(millis: u64) -> Self {
        Self(millis)
    }

    /// Latest due time of a job: the end of the year 5000. Stores write times with at most 14
    /// digits, which leaves room to add the longest durations to this one.
    pub const LAST: Self = Self(95_649_119_999_999);

    /// Stands for never: the end of the year 9999, after every time of a sound job.
    pub const NEVER: Self = Self(253_402_300_799_999);

    /// Returns the milliseconds since the epoch.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the time `span` later.
    pub const fn after(self, span: Millis) -> Self {
        Self(self.0.saturating_add(span.get()))
    }

    /// Returns the time `span` earlier; the epoch if that is before it.
    pub const fn before(self, span: Millis) -> Self {
        Self(self.0.saturating_sub(span.get()))
    }

    /// Parses a query parameter: RFC 3339 text as in a body, or 13 digits of Unix milliseconds.
    ///
    /// # Errors
    /// The text has neither format.
    pub fn from_query(text: &str) -> Result<Self, TimeError> {
        match text.parse() {
            Ok(millis) if text.len() == 13 => Ok(Self(millis)),
            _ => text.parse(),
        }
    }

    /// Returns RFC 3339 text in UTC with milliseconds; `None` after the year 9999.
    ///
    /// Most answers have a time, and a formatter would take several times as long.
    fn rfc3339(self) -> Option<[u8; 24]> {
        let time = Timestamp::from_millisecond(i64::try_from(self.0).ok()?).ok()?;
        let time = Offset::UTC.to_datetime(time);
        let mut text = *b"0000-00-00T00:00:00.000Z";
        let fields = [
            (0..4, time.year()),
            (5..7, time.month().into()),
            (8..10, time.day().into()),
            (11..13, time.hour().into()),
            (14..16, time.minute().into()),
            (17..19, time.second().into()),
            (20..23, time.millisecond()),
        ];
        for (digits, mut number) in fields {
            for digit in text[digits].iter_mut().rev() {
                *digit += u8::try_from(number % 10).ok()?;
                number /= 10;
            }
        }
        Some(text)
    }

    /// Returns the span from `earlier` to this time; zero if it is not later.
    pub const fn since(self, earlier: Self) -> Millis {
        Millis::new(self.0.saturating_sub(earlier.0))
    }
}

impl std::str::FromStr for UnixMillis {
    type Err = TimeError;

    fn from_str(text: &str) -> Result<Self, TimeError> {
        let refused = || TimeError(format!("{text:?}"));
        // The parser also accepts variants of RFC 3339 (zone names in brackets, short forms).
        let bytes = text.as_bytes();
        let rfc3339_shape = text.len() >= 20
            && text.is_ascii()
            && matches!(bytes[10], b'T' | b't' | b' ')
            && [bytes[13], bytes[16]] == *b"::"
            && !text.contains('[');
        if !rfc3339_shape {
            return Err(refused());
        }
        // The parser reads a leap second as the second before it, which would make a job early.
        let leap = &text[17..19] == "60";
        let text = if leap { format!("{}59{}", &text[..17], &text[19..]) } else { text.to_owned() };
        let time: Timestamp = text.parse().map_err(|_| refused())?;
        // A time before 1970 becomes 1970: a job with either is due now.
        let nanos = u128::try_from(time.as_nanosecond()).unwrap_or(0);
        let millis = nanos.div_ceil(1_000_000) + if leap { 1_000 } else { 0 };
        u64::try_from(millis).map(Self).map_err(|_| refused())
    }
}

impl fmt::Display for UnixMillis {
    /// Writes RFC 3339 in UTC with milliseconds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.rfc3339();
        match text.as_ref().and_then(|text| str::from_utf8(text).ok()) {
            Some(text) => f.write_str(text),
            None => write!(f, "{} ms after 1970", self.0),
        }
    }
}

impl Serialize for UnixMillis {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for UnixMillis {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = UnixMillis;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time: RFC 3339 text with an offset, or 13 digits of milliseconds")
            }

            fn visit_u64<E: de::Error>(self, millis: u64) -> Result<UnixMillis, E> {
                match millis {
                    1_000_000_000_000..=9_999_999_999_999 => Ok(UnixMillis(millis)),
                    _ => Err(E::custom(TimeError(millis.to_string()))),
                }
            }

            fn visit_i64<E: de::Error>(self, millis: i64) -> Result<UnixMillis, E> {
                Err(E::custom(TimeError(millis.to_string())))
            }

            /// Accepts a float without a fraction: in JSON, 1763690060000.0 is a whole number.
            fn visit_f64<E: de::Error>(self, millis: f64) -> Result<UnixMillis, E> {
                match millis.to_string().parse() {
                    Ok(whole) => self.visit_u64(whole),
                    Err(_) => Err(E::custom(TimeError(millis.to_string()))),
                }
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<UnixMillis, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests;
