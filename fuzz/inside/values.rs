//! Fuzz targets of values that clients and stores write.

use serde::{Serialize, de::DeserializeOwned};

use crate::job::{Backoff, JobId, MAX_DURATION, Millis, UnixMillis};

fn round_trip<T: Serialize + DeserializeOwned>(value: &T) -> T {
    let text = serde_json::to_string(value).expect("every value can be written");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Checks that accepted durations and times are within the limits and read back as written, and
/// that no duration is shorter than requested.
pub fn durations(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let of_json = serde_json::from_str::<Millis>(text);
    if let (Ok(span), Ok(seconds)) = (&of_json, serde_json::from_str::<f64>(text)) {
        assert!(span.as_seconds() >= seconds, "{text} became {span:?}");
    }
    let read = [text.parse::<Millis>().ok(), Millis::from_query(text).ok(), of_json.ok()];
    for span in read.into_iter().flatten() {
        assert!(span <= MAX_DURATION, "{text} became {span:?}");
        assert_eq!(format!("{}ms", span.get()).parse(), Ok(span), "{text}");
        assert_eq!(round_trip(&span), span, "{text}");
    }
    let of_json = serde_json::from_str::<UnixMillis>(text).ok();
    for time in
        [text.parse().ok(), UnixMillis::from_query(text).ok(), of_json].into_iter().flatten()
    {
        assert_eq!(round_trip(&time), time, "{text}");
    }
}

/// Checks that backoffs from clients and from stores read back as written, and that no wait exceeds
/// the maximum of its backoff.
pub fn backoff(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let id: JobId = "a".parse().expect("an id");
    let stored = text.parse::<Backoff>().ok();
    for (backoff, from_client) in [(stored, false), (serde_json::from_str(text).ok(), true)] {
        let Some(backoff) = backoff else { continue };
        assert_eq!(backoff.to_string().parse().as_ref(), Ok(&backoff), "{text}");
        if from_client {
            assert_eq!(round_trip(&backoff), backoff, "{text}");
        }
        let longest = match &backoff {
            Backoff::List(values) => values.iter().max().copied(),
            Backoff::Exponential { max, .. } => Some(*max),
        };
        for attempt in [0, 1, 2, 3, 100, u32::MAX] {
            assert!(Some(backoff.delay(&id, attempt)) <= longest, "{text}: attempt {attempt}");
        }
        assert!(backoff.attempts().is_none_or(|attempts| attempts > 1), "{text}");
    }
}
