//! Spans and points of time, in whole milliseconds.
//!
//! Nothing here reads a clock. A value finer than a millisecond is rounded up, so that rounding
//! can make a job later but never early.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use thiserror::Error;

/// The longest duration a client may give: ten years of 365.25 days.
pub const MAX_DURATION: Millis = Millis(315_576_000_000);

/// A span of time in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Millis(u64);

/// A point in time, in milliseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixMillis(u64);

/// A duration that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "must be a duration from 0 to ten years, as a number of seconds (30, 0.25) or text with units \
     (\"500ms\", \"90s\", \"1h30m\", \"7d\"); got {0}"
)]
pub struct DurationError(String);

/// A time that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "must be a time as RFC 3339 text with an offset (\"2026-01-31T12:00:00Z\") or a 13-digit \
     number of Unix milliseconds; got {0}"
)]
pub struct TimeError(String);

impl Millis {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// `millis` milliseconds.
    pub const fn new(millis: u64) -> Self {
        Self(millis)
    }

    /// The number of milliseconds.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// From a number of seconds as a client writes it. Goes by the shortest decimal text of the
    /// number, so that 16.1 is 16,100 ms and not one more for a binary fraction.
    fn from_seconds(seconds: f64) -> Result<Self, DurationError> {
        let refused = || DurationError(seconds.to_string());
        if !(0.0..=1e12).contains(&seconds) {
            return Err(refused());
        }
        let text = seconds.to_string();
        let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
        let (millis, finer) = fraction.split_at(fraction.len().min(3));
        let number = |digits: &str| digits.parse::<u64>().map_err(|_| refused());
        let up = u64::from(finer.bytes().any(|digit| digit != b'0'));
        Self(number(whole)? * 1000 + number(&format!("{millis:0<3}"))? + up).limited()
    }

    fn limited(self) -> Result<Self, DurationError> {
        if self <= MAX_DURATION {
            Ok(self)
        } else {
            Err(DurationError(format!("{} seconds", self.as_seconds())))
        }
    }

    /// The span in seconds, as answers give it.
    #[expect(clippy::cast_precision_loss, reason = "ten years in ms have 39 bits")]
    pub fn as_seconds(self) -> f64 {
        self.0 as f64 / 1000.0
    }
}

impl std::str::FromStr for Millis {
    type Err = DurationError;

    /// From text: with units, or a plain number of seconds as a query has it.
    fn from_str(text: &str) -> Result<Self, DurationError> {
        let refused = || DurationError(format!("{text:?}"));
        let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        if plain {
            return Self::from_seconds(text.parse().map_err(|_| refused())?);
        }
        let span = humantime::parse_duration(text).map_err(|_| refused())?;
        u64::try_from(span.as_nanos().div_ceil(1_000_000))
            .map_or_else(|_| Err(refused()), |millis| Self(millis).limited())
    }
}

impl From<Millis> for std::time::Duration {
    fn from(span: Millis) -> Self {
        Self::from_millis(span.0)
    }
}

impl Serialize for Millis {
    /// A number of seconds; a whole one without a fraction.
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

impl UnixMillis {
    /// `millis` milliseconds after the epoch.
    pub const fn new(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the epoch.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The time `span` later.
    pub const fn after(self, span: Millis) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// How long from `earlier` until this time; zero if it is not later.
    pub const fn since(self, earlier: Self) -> Millis {
        Millis(self.0.saturating_sub(earlier.0))
    }
}

impl std::str::FromStr for UnixMillis {
    type Err = TimeError;

    fn from_str(text: &str) -> Result<Self, TimeError> {
        let refused = || TimeError(format!("{text:?}"));
        // The parser also takes neighbours of RFC 3339 (zone names in brackets, short dates).
        let rfc3339_shape = text.len() >= 20
            && matches!(text.as_bytes()[10], b'T' | b't' | b' ')
            && !text.contains('[');
        let time: jiff::Timestamp = match rfc3339_shape {
            true => text.parse().map_err(|_| refused())?,
            false => return Err(refused()),
        };
        // Before 1970 is as good as 1970: due now.
        let nanos = u128::try_from(time.as_nanosecond()).unwrap_or(0);
        u64::try_from(nanos.div_ceil(1_000_000)).map(Self).map_err(|_| refused())
    }
}

impl fmt::Display for UnixMillis {
    /// RFC 3339 in UTC with milliseconds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = i64::try_from(self.0).ok().map(jiff::Timestamp::from_millisecond);
        match time {
            Some(Ok(time)) => write!(f, "{time:.3}"),
            _ => write!(f, "{} ms after 1970", self.0),
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

            fn visit_f64<E: de::Error>(self, millis: f64) -> Result<UnixMillis, E> {
                Err(E::custom(TimeError(millis.to_string())))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<UnixMillis, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn duration(json: &str) -> Result<u64, serde_json::Error> {
        serde_json::from_str::<Millis>(json).map(Millis::get)
    }

    fn time(json: &str) -> Result<u64, serde_json::Error> {
        serde_json::from_str::<UnixMillis>(json).map(UnixMillis::get)
    }

    #[test]
    fn durations_are_seconds_or_text_and_are_rounded_up() {
        let given = ["0", "30", "0.25", "16.1", "0.0001", "1.0001", r#""500ms""#, r#""1h30m""#];
        let millis = [0, 30_000, 250, 16_100, 1, 1_001, 500, 5_400_000];
        assert_eq!(given.map(|json| duration(json).expect(json)), millis);
        assert_eq!(duration(r#""1us""#).expect("a microsecond"), 1);
        assert_eq!(duration(r#""7d""#).expect("a week"), 604_800_000);
    }

    #[test]
    fn other_durations_are_refused_saying_what_is_allowed() {
        let refused = [
            "-1",
            "-0.5",
            "315576001",
            "1e300",
            "18446744073709551615",
            r#""""#,
            r#""NaN""#,
            r#""-5s""#,
            r#""5 parsecs""#,
            r#""1h30""#,
            r#""11y""#,
            r#""1.2.3""#,
            r#""9999999999y""#,
        ];
        for json in refused {
            let error = duration(json).expect_err(json).to_string();
            assert!(error.contains("from 0 to ten years"), "{json}: {error}");
        }
        for json in ["true", "[]", "{}", "null"] {
            duration(json).expect_err(json);
        }
    }

    #[test]
    fn times_are_rfc_3339_or_thirteen_digits() {
        assert_eq!(
            time(r#""2026-01-31T12:00:00.0001+08:00""#).expect("rfc 3339"),
            1_769_832_000_001
        );
        assert_eq!(time("1769832000001").expect("milliseconds"), 1_769_832_000_001);
        assert_eq!(time(r#""1969-01-31T12:00:00Z""#).expect("before the epoch"), 0);
        let refused = [
            "1769832000",
            "17698320000010",
            "-1",
            "1.5",
            r#""2026-01-31""#,
            r#""tomorrow""#,
            r#""2026-01-31T12:00:00""#,
            r#""2026-13-31T12:00:00Z""#,
            r#""""#,
            r#""2026-01-31T12:00:00+01:00[Europe/Paris]""#,
        ];
        for json in refused {
            let error = time(json).expect_err(json).to_string();
            assert!(error.contains("RFC 3339 text with an offset"), "{json}: {error}");
        }
    }

    proptest! {
        #[test]
        fn a_time_survives_its_text(millis in 0..9_999_999_999_999_u64) {
            let time = UnixMillis(millis);
            prop_assert_eq!(time.to_string().parse::<UnixMillis>(), Ok(time));
        }

        #[test]
        fn a_duration_survives_its_number(millis in 0..=MAX_DURATION.0) {
            let json = serde_json::to_string(&Millis(millis)).expect("a number");
            prop_assert_eq!(duration(&json).expect("our own number"), millis);
        }

        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _ = text.parse::<Millis>();
            let _ = text.parse::<UnixMillis>();
        }
    }
}
