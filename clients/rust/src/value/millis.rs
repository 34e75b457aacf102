//! Durations as a number of seconds, in whole milliseconds. For `#[serde(with = "millis")]`.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

/// Largest duration that the API takes: ten years.
const MAX_SECONDS: f64 = 10.0 * 366.0 * 24.0 * 3600.0;

/// Returns the duration in milliseconds, rounded up: the server never waits shorter than asked.
pub(crate) fn ceil(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// Returns the duration that the API writes as this number of seconds.
pub(crate) fn from_seconds(seconds: f64) -> Option<Duration> {
    let is_duration = (0.0..=MAX_SECONDS).contains(&seconds);
    is_duration.then(|| Duration::from_millis((seconds * 1000.0).round() as u64))
}

pub(crate) fn serialize<S: Serializer>(
    duration: &Duration,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match ceil(*duration) {
        millis if millis % 1000 == 0 => serializer.serialize_u64(millis / 1000),
        millis => serializer.serialize_f64(millis as f64 / 1000.0),
    }
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Duration, D::Error> {
    let seconds = f64::deserialize(deserializer)?;
    from_seconds(seconds).ok_or_else(|| {
        D::Error::custom(format!("{seconds} is not a number of seconds up to ten years"))
    })
}

/// Duration with this form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Seconds(#[serde(with = "self")] pub(crate) Duration);

/// The same for an optional duration, whose absence is null.
pub(crate) mod option {
    use super::{Deserialize, Deserializer, Duration, Seconds, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        duration.map(Seconds).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<Seconds>::deserialize(deserializer)?.map(|seconds| seconds.0))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_duration_survives_its_json_form(millis in 0..=10 * 365 * 24 * 3_600_000_u64) {
            let duration = Duration::from_millis(millis);
            let text = serde_json::to_string(&Seconds(duration)).unwrap();
            prop_assert_eq!(serde_json::from_str::<Seconds>(&text).unwrap().0, duration);
        }
    }

    #[test]
    fn a_fraction_of_a_millisecond_is_rounded_up() {
        assert_eq!(serde_json::to_string(&Seconds(Duration::from_micros(1_500))).unwrap(), "0.002");
        assert_eq!(serde_json::to_string(&Seconds(Duration::from_secs(90))).unwrap(), "90");
    }

    #[test]
    fn a_number_that_is_no_duration_is_refused() {
        for text in ["-1", "1e300"] {
            assert!(serde_json::from_str::<Seconds>(text).is_err(), "{text}");
        }
    }
}
