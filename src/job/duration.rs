//! Spans of time, as clients and settings write them, in whole milliseconds.
//!
//! Text is read by a grammar of our own, because libraries take months and years as well, and
//! `"1M"` is one keystroke from a minute. A value finer than a millisecond is rounded up, so that
//! rounding can make a job later but never early.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use thiserror::Error;

/// The longest duration a client may give: ten years of 365.25 days.
pub const MAX_DURATION: Millis = Millis(315_576_000_000);

/// The units of a text, in milliseconds. Case matters.
const UNITS: [(&str, u64); 6] = [
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
    ("w", 604_800_000),
];

/// Characters of a refused text that are shown again.
const SHOWN: usize = 40;

/// A span of time in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Millis(u64);

/// A duration that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "must be a duration from 0 to ten years: a number of seconds (30, 0.25), or text with the \
     units ms, s, m, h, d, w (\"500ms\", \"90s\", \"1h30m\", \"7d\"); got {given}{why}"
)]
pub struct DurationError {
    given: String,
    /// What is wrong with it, where that is more than its size.
    why: String,
}

impl DurationError {
    fn number(given: impl fmt::Display) -> Self {
        Self { given: given.to_string(), why: String::new() }
    }

    fn text(given: &str, why: String) -> Self {
        let shown: String = given.chars().take(SHOWN).collect();
        let dots = if shown.len() < given.len() { "…" } else { "" };
        Self { given: format!("{shown:?}{dots}"), why }
    }
}

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

    /// From the text of a query, where a plain number of seconds needs no unit.
    ///
    /// # Errors
    /// It is no duration, or a longer one than ten years.
    pub fn from_query(text: &str) -> Result<Self, DurationError> {
        match scaled(text, 1_000) {
            Some(millis) => Self(millis).limited(|| DurationError::text(text, String::new())),
            None => text.parse(),
        }
    }

    /// From a number of seconds as a client writes it. Goes by the shortest decimal text of the
    /// number, so that 16.1 is 16,100 ms and not one more for a binary fraction.
    fn from_seconds(seconds: f64) -> Result<Self, DurationError> {
        let refused = || DurationError::number(seconds);
        let millis = scaled(&seconds.to_string(), 1_000).ok_or_else(refused)?;
        Self(millis).limited(refused)
    }

    fn limited(self, refused: impl FnOnce() -> DurationError) -> Result<Self, DurationError> {
        if self <= MAX_DURATION { Ok(self) } else { Err(refused()) }
    }

    /// The span in seconds, as answers give it.
    #[expect(clippy::cast_precision_loss, reason = "ten years in ms have 39 bits")]
    pub fn as_seconds(self) -> f64 {
        self.0 as f64 / 1000.0
    }
}

/// `number` (digits, and perhaps a fraction) times `unit`, rounded up; none if it is no such
/// number. A huge one is as large as fits.
fn scaled(number: &str, unit: u64) -> Option<u64> {
    /// Digits of a fraction that count; of those behind them, only whether there are any.
    const DIGITS: usize = 18;

    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let (near, far) = fraction.split_at(fraction.len().min(DIGITS));
    let near: u128 = format!("{near:0<DIGITS$}").parse().ok()?;
    let part = near + u128::from(far.bytes().any(|digit| digit != b'0'));
    let part = (part * u128::from(unit)).div_ceil(10_u128.pow(DIGITS as u32));
    let whole = whole.parse().unwrap_or(u64::MAX).saturating_mul(unit);
    Some(whole.saturating_add(u64::try_from(part).unwrap_or(u64::MAX)))
}

impl FromStr for Millis {
    type Err = DurationError;

    /// From text with units: numbers, each followed by its unit.
    fn from_str(text: &str) -> Result<Self, DurationError> {
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        let (mut rest, mut millis) = (text, 0_u64);
        loop {
            let (number, behind) =
                rest.split_at(rest.find(|c| !is_number(c)).unwrap_or(rest.len()));
            let (unit, behind) = behind.split_at(behind.find(is_number).unwrap_or(behind.len()));
            let known = UNITS.iter().find(|(name, _)| *name == unit);
            let part = known.and_then(|&(_, unit)| scaled(number, unit));
            let part = part.ok_or_else(|| DurationError::text(text, why(number, unit)))?;
            millis = millis.saturating_add(part);
            rest = behind;
            if rest.is_empty() {
                return Self(millis).limited(|| DurationError::text(text, String::new()));
            }
        }
    }
}

/// What is wrong with a part of a text.
fn why(number: &str, unit: &str) -> String {
    let unit: String = unit.chars().take(SHOWN).collect();
    match unit.as_str() {
        _ if number.is_empty() => String::new(),
        "" => format!(", which lacks a unit: \"{number}s\" is seconds, \"{number}m\" minutes"),
        "M" | "y" | "Y" => {
            format!("; {unit:?} is no unit, because months and years differ in length")
        }
        unit => format!("; {unit:?} is no unit (they are case-sensitive, without blanks)"),
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn duration(json: &str) -> Result<u64, serde_json::Error> {
        serde_json::from_str::<Millis>(json).map(Millis::get)
    }

    #[test]
    fn durations_are_seconds_or_text_with_units_and_are_rounded_up() {
        for (json, millis) in [
            ("0", 0),
            ("30", 30_000),
            ("0.25", 250),
            ("16.1", 16_100),
            ("0.0001", 1),
            ("1.0001", 1_001),
            (r#""0s""#, 0),
            (r#""500ms""#, 500),
            (r#""90s""#, 90_000),
            (r#""1h30m""#, 5_400_000),
            (r#""7d""#, 604_800_000),
            (r#""1w1d1h1m1s1ms""#, 694_861_001),
            (r#""0.1ms""#, 1),
            (r#""1.5h""#, 5_400_000),
            (r#""0.00000000000000000001w""#, 1),
            ("315576000", MAX_DURATION.get()),
        ] {
            assert_eq!(duration(json).expect(json), millis, "{json}");
        }
    }

    #[test]
    fn other_durations_are_refused_saying_what_is_allowed() {
        let refused = [
            "-1",
            "-0.5",
            "315576001",
            "315576000.0001",
            "1e300",
            "18446744073709551615",
            r#""""#,
            r#""NaN""#,
            r#""-5s""#,
            r#""+5s""#,
            r#""5""#,
            r#""0""#,
            r#""0.5""#,
            r#""5 parsecs""#,
            r#""1h30""#,
            r#""1M""#,
            r#""1y""#,
            r#""1H""#,
            r#""1S""#,
            r#""1us""#,
            r#""1sec""#,
            r#""1 h""#,
            r#""1h 30m""#,
            r#"" 1h""#,
            r#""1h\n""#,
            r#"".5h""#,
            r#""5.h""#,
            r#""1.2.3s""#,
            r#""h""#,
            r#""3653d""#,
            r#""99999999999999999999w""#,
        ];
        for json in refused {
            let error = duration(json).expect_err(json).to_string();
            assert!(error.contains("from 0 to ten years"), "{json}: {error}");
            assert!(error.contains("ms, s, m, h, d, w"), "{json}: {error}");
        }
        for json in ["true", "[]", "{}", "null"] {
            duration(json).expect_err(json);
        }
    }

    #[test]
    fn a_refusal_says_what_is_wrong_with_the_unit() {
        for (json, why) in [
            (r#""5""#, "lacks a unit"),
            (r#""1h30""#, "lacks a unit"),
            (r#""1M""#, r#""M" is no unit, because months"#),
            (r#""1y""#, r#""y" is no unit, because months and years"#),
            (r#""1H""#, r#""H" is no unit (they are case-sensitive"#),
        ] {
            let error = duration(json).expect_err(json).to_string();
            assert!(error.contains(why), "{json}: {error}");
        }
    }

    #[test]
    fn a_query_takes_a_plain_number_of_seconds_too() {
        let taken = ["20", "0.25", "20s", "1m"].map(|text| Millis::from_query(text).expect(text));
        assert_eq!(taken.map(Millis::get), [20_000, 250, 20_000, 60_000]);
        for text in ["", "-1", "1e3", "+5", "1M", "1.", "99999999999", "NaN"] {
            Millis::from_query(text).expect_err(text);
        }
    }

    proptest! {
        #[test]
        fn a_duration_survives_its_number(millis in 0..=MAX_DURATION.0) {
            let json = serde_json::to_string(&Millis(millis)).expect("a number");
            prop_assert_eq!(duration(&json).expect("our own number"), millis);
        }

        #[test]
        fn units_add_up(parts in proptest::collection::vec((0..1000_u64, 0..UNITS.len()), 1..6)) {
            let text: String =
                parts.iter().map(|&(n, unit)| format!("{n}{}", UNITS[unit].0)).collect();
            let sum: u64 = parts.iter().map(|&(n, unit)| n * UNITS[unit].1).sum();
            let expected = Some(Millis(sum)).filter(|&span| span <= MAX_DURATION);
            prop_assert_eq!(text.parse().ok(), expected);
        }

        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _ = text.parse::<Millis>();
            let _ = Millis::from_query(&text);
        }
    }
}
