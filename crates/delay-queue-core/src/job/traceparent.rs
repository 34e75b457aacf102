//! The position of a put in a distributed trace.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The `traceparent` of W3C Trace Context
/// (<https://www.w3.org/TR/trace-context/#traceparent-header>): trace id, span id and flags. A job
/// keeps that of its put and gives it to each of its consumers, perhaps hours later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    trace: u128,
    span: u64,
    flags: u8,
}

/// Length of the text in version 00.
const LENGTH: usize = 55;
/// The only flag that every version has: the caller records this trace.
const SAMPLED: u8 = 1;

/// Error for text that is not a traceparent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be a W3C traceparent, like \"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\""
)]
pub struct TraceParentError;

impl TraceParent {
    /// Returns the id of the trace: 128 bits, not all zero.
    pub fn trace(self) -> u128 {
        self.trace
    }

    /// Returns the id of the span that was current at the put: 64 bits, not all zero.
    pub fn span(self) -> u64 {
        self.span
    }

    /// Returns the flags. Bit 0: the caller records this trace. The others are kept as received.
    pub fn flags(self) -> u8 {
        self.flags
    }
}

impl FromStr for TraceParent {
    type Err = TraceParentError;

    /// Parses a traceparent. Reads only the fields of version 00 from a later version, and keeps
    /// them as version 00.
    fn from_str(text: &str) -> Result<Self, TraceParentError> {
        let parse = || {
            let (version, rest) = (hex(text, 0, 2)?, text.as_bytes().get(LENGTH..)?);
            let is_whole = match version {
                0 => rest.is_empty(),
                0xff => false,
                _ => rest.first().is_none_or(|&byte| byte == b'-'),
            };
            let dashes = [2, 35, 52].into_iter().all(|place| text.as_bytes()[place] == b'-');
            let flags = u8::try_from(hex(text, 53, 55)?).ok()?;
            let flags = if version == 0 { flags } else { flags & SAMPLED };
            let span = u64::try_from(hex(text, 36, 52)?).ok()?;
            let found = Self { trace: hex(text, 3, 35)?, span, flags };
            (is_whole && dashes && found.trace != 0 && found.span != 0).then_some(found)
        };
        parse().ok_or(TraceParentError)
    }
}

/// Reads lower-case hexadecimal digits, as the specification demands.
fn hex(text: &str, from: usize, to: usize) -> Option<u128> {
    let digits = text.get(from..to)?;
    let lower = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    digits.bytes().all(lower).then(|| u128::from_str_radix(digits, 16).ok())?
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, self.flags)
    }
}

impl Serialize for TraceParent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TraceParent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = TraceParent;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a W3C traceparent")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<TraceParent, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_traceparent_round_trips_unchanged() {
        for text in [EXAMPLE, "00-00000000000000000000000000000001-0000000000000001-00"] {
            assert_eq!(text.parse::<TraceParent>().expect("valid").to_string(), text);
        }
    }

    #[test]
    fn a_later_version_is_read_as_far_as_it_is_known() {
        for text in [EXAMPLE.replace("00-4", "01-4"), EXAMPLE.replace("00-4", "cc-4") + "-more"] {
            assert_eq!(text.parse::<TraceParent>().expect("valid").to_string(), EXAMPLE);
        }
    }

    #[test]
    fn invalid_traceparents_are_refused() {
        let zeros = EXAMPLE.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32));
        let others = [
            EXAMPLE.replace("00-4", "ff-4"),
            EXAMPLE.replace("00f067aa0ba902b7", "0000000000000000"),
            EXAMPLE.to_uppercase(),
            EXAMPLE.replace("-01", "-+1"),
            EXAMPLE.replace('-', "_"),
            format!("{EXAMPLE}-more"),
            EXAMPLE[..54].to_owned(),
            EXAMPLE.replace("4bf92f", "4bfü2"),
            "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01x".to_owned(),
            String::new(),
        ];
        for text in others.iter().chain([&zeros]) {
            assert_eq!(text.parse::<TraceParent>(), Err(TraceParentError), "{text}");
        }
    }
}
