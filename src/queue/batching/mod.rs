//! Merging of requests to one server of the store into one call.

pub mod coalescer;
pub mod dispatcher;
pub mod sticky;

use std::time::Duration;

/// How long a stalled server or network may delay the execution of an abandoned call.
pub const LATE_CALL: Duration = Duration::from_secs(60);
