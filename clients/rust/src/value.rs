//! JSON forms of durations and times, which the API writes as seconds and as RFC 3339.

pub(crate) mod millis;
pub(crate) mod time;
