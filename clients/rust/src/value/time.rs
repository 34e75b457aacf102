//! Times as RFC 3339 in UTC with milliseconds. For `#[serde(with = "time")]`.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serializer, de::Error, ser::Error as _};

/// Returns the wall clock, for ids, signatures and the fake. Reservations follow the monotonic
/// clock.
#[expect(
    clippy::disallowed_methods,
    reason = "the rule is for servers, whose clock is the store's"
)]
pub(crate) fn now() -> SystemTime {
    SystemTime::now()
}

/// Returns the text of a time, rounded up to milliseconds.
pub(crate) fn text(time: SystemTime) -> Result<String, jiff::Error> {
    let time = Timestamp::try_from(time + Duration::from_nanos(999_999))?;
    let millis = Timestamp::from_millisecond(time.as_millisecond())?;
    Ok(format!("{millis:.3}"))
}

pub(crate) fn serialize<S: Serializer>(
    time: &SystemTime,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&text(*time).map_err(S::Error::custom)?)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<SystemTime, D::Error> {
    let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
    let time: Timestamp = text.parse().map_err(D::Error::custom)?;
    Ok(SystemTime::from(time))
}

/// The same for an optional time, whose absence is null.
pub(crate) mod option {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::SystemTime;

    #[derive(Serialize, Deserialize)]
    #[serde(transparent)]
    struct Text(#[serde(with = "super")] SystemTime);

    pub(crate) fn serialize<S: Serializer>(
        time: &Option<SystemTime>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        time.map(Text).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<SystemTime>, D::Error> {
        Ok(Option::<Text>::deserialize(deserializer)?.map(|text| text.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_the_form_of_the_api() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(1_769_860_800_250);
        assert_eq!(text(time).unwrap(), "2026-01-31T12:00:00.250Z");
        assert_eq!(text(time + Duration::from_nanos(1)).unwrap(), "2026-01-31T12:00:00.251Z");
    }
}
