//! Durations in whole milliseconds, as clients and settings write them.
//!
//! Text has its own grammar. The grammars of libraries include months and years, so a client that
//! wrote `"1M"` instead of `"1m"` would get a month instead of a minute. A value finer than a
//! millisecond is rounded up, so that rounding can make a job later but never early.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use thiserror::Error;

/// The longest duration that a client may give: ten years of 365.25 days.
pub const MAX_DURATION: Millis = Millis(315_576_000_000);

/// The units of text, in milliseconds. Case matters.
const UNITS: [(&str, u64); 6] = [
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
    ("w", 604_800_000),
];

/// Maximum number of characters of a refused text that its error repeats.
const SHOWN: usize = 40;

/// A span of time in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Millis(u64);

/// An invalid duration.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "must be a duration from 0 to ten years: a number of seconds (30, 0.25), or text with the \
     units ms, s, m, h, d, w (\"500ms\", \"90s\", \"1h30m\", \"7d\"); got {given}{reason}"
)]
pub struct DurationError {
    given: String,
    /// The reason, to follow the text in the message; empty if only the length of the duration is
    /// wrong.
    reason: String,
}

impl DurationError {
    fn number(given: impl fmt::Display) -> Self {
        Self { given: given.to_string(), reason: String::new() }
    }

    fn text(given: &str, reason: String) -> Self {
        let shown: String = given.chars().take(SHOWN).collect();
        let dots = if shown.len() < given.len() { "…" } else { "" };
        Self { given: format!("{shown:?}{dots}"), reason }
    }
}

impl Millis {
    /// Zero.
    pub const ZERO: Self = Self(0);

    /// Creates a span of `millis` milliseconds.
    pub const fn new(millis: u64) -> Self {
        Self(millis)
    }

    /// Returns whether it is 0.
    pub const fn is_zero(&self) -> bool {
        self.0 == 0
    }

    /// Returns the number of milliseconds.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Reads the text of a query parameter, where a plain number of seconds needs no unit.
    ///
    /// # Errors
    /// The text is not a duration, or is longer than ten years.
    pub fn from_query(text: &str) -> Result<Self, DurationError> {
        match scaled(text, 1_000) {
            Some(millis) => Self(millis).limited(|| DurationError::text(text, String::new())),
            None => text.parse(),
        }
    }

    /// Reads a number of seconds from a body by its shortest decimal text. So 16.1 gives 16,100 ms,
    /// although its binary fraction is slightly larger and would be rounded up to 16,101 ms.
    fn from_seconds(seconds: f64) -> Result<Self, DurationError> {
        let refused = || DurationError::number(seconds);
        if let Some(millis) = exact_millis(seconds) {
            return Ok(Self(millis));
        }
        let millis = scaled(&seconds.to_string(), 1_000).ok_or_else(refused)?;
        Self(millis).limited(refused)
    }

    fn limited(self, refused: impl FnOnce() -> DurationError) -> Result<Self, DurationError> {
        if self <= MAX_DURATION { Ok(self) } else { Err(refused()) }
    }

    /// Returns the span in seconds, as answers show it.
    #[expect(clippy::cast_precision_loss, reason = "ten years in ms have 39 bits")]
    pub fn as_seconds(self) -> f64 {
        self.0 as f64 / 1000.0
    }
}

/// Returns the milliseconds of a number of seconds with at most three decimals, within the limit.
///
/// A decimal number of at most 15 digits has its own double, and ten years in milliseconds have 12
/// digits. So if the nearest whole number of milliseconds gives the same double, both numbers have
/// the same shortest text.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::float_cmp,
    reason = "whole numbers of at most 39 bits, which doubles hold exactly"
)]
fn exact_millis(seconds: f64) -> Option<u64> {
    let millis = (seconds * 1000.0).round();
    let is_exact =
        seconds.is_sign_positive() && millis <= MAX_DURATION.0 as f64 && millis / 1000.0 == seconds;
    is_exact.then_some(millis as u64)
}

/// Returns `number` times `unit`, rounded up; `None` if `number` is not digits with an optional
/// fraction. A result too large for `u64` becomes the maximum of `u64`.
fn scaled(number: &str, unit: u64) -> Option<u64> {
    /// Number of digits of a fraction that count. If a later digit is not zero, the result is
    /// rounded up.
    const DIGITS: usize = 18;

    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let whole_units = |whole: &str| whole.parse().unwrap_or(u64::MAX).saturating_mul(unit);
    let Some((whole, fraction)) = number.split_once('.') else {
        return digits(number).then(|| whole_units(number));
    };
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let (near, far) = fraction.split_at(fraction.len().min(DIGITS));
    let near: u128 = format!("{near:0<DIGITS$}").parse().ok()?;
    let part = near + u128::from(far.bytes().any(|digit| digit != b'0'));
    let part = (part * u128::from(unit)).div_ceil(10_u128.pow(DIGITS as u32));
    Some(whole_units(whole).saturating_add(u64::try_from(part).unwrap_or(u64::MAX)))
}

impl FromStr for Millis {
    type Err = DurationError;

    /// Reads text with units: numbers, each followed by its unit.
    fn from_str(text: &str) -> Result<Self, DurationError> {
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        let (mut rest, mut millis) = (text, 0_u64);
        loop {
            let (number, behind) =
                rest.split_at(rest.find(|c| !is_number(c)).unwrap_or(rest.len()));
            let (unit, behind) = behind.split_at(behind.find(is_number).unwrap_or(behind.len()));
            let known = UNITS.iter().find(|(name, _)| *name == unit);
            let part = known.and_then(|&(_, unit)| scaled(number, unit));
            let part =
                part.ok_or_else(|| DurationError::text(text, describe_error(number, unit)))?;
            millis = millis.saturating_add(part);
            rest = behind;
            if rest.is_empty() {
                return Self(millis).limited(|| DurationError::text(text, String::new()));
            }
        }
    }
}

/// Describes the error in one part of a text.
fn describe_error(number: &str, unit: &str) -> String {
    let unit: String = unit.chars().take(SHOWN).collect();
    match unit.as_str() {
        _ if number.is_empty() => String::new(),
        "" => format!(", which lacks a unit: \"{number}s\" is seconds, \"{number}m\" minutes"),
        "M" | "y" | "Y" => {
            format!("; {unit:?} is not a unit, because months and years differ in length")
        }
        unit => {
            format!("; {unit:?} is not a unit (units are case-sensitive and contain no spaces)")
        }
    }
}

impl From<Millis> for std::time::Duration {
    fn from(span: Millis) -> Self {
        Self::from_millis(span.0)
    }
}

impl Serialize for Millis {
    /// Writes a number of seconds; a whole one without a fraction.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 % 1000 {
            0 => serializer.serialize_u64(self.0 / 1000),
            _ => serializer.serialize_f64(self.as_seconds()),
        }
    }
}

impl<'de> Deserialize<'de> for Millis {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Millis;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration: a number of seconds, or text such as \"1h30m\"")
            }

            #[expect(clippy::cast_precision_loss, reason = "only values far over the limit lose")]
            fn visit_u64<E: de::Error>(self, seconds: u64) -> Result<Millis, E> {
                Millis::from_seconds(seconds as f64).map_err(E::custom)
            }

            #[expect(clippy::cast_precision_loss, reason = "negative: refused in any case")]
            fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<Millis, E> {
                Millis::from_seconds(seconds as f64).map_err(E::custom)
            }

            fn visit_f64<E: de::Error>(self, seconds: f64) -> Result<Millis, E> {
                Millis::from_seconds(seconds).map_err(E::custom)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Millis, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests;
