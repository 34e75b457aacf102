//! Merging of requests to one server of the store into one call.

pub mod coalescer;
pub mod dispatcher;
pub mod has_job_id;
pub mod sticky;

use std::time::Duration;

/// How long after a call was given up the store may still execute it, because the server or the
/// network had stalled.
pub const LATE_CALL: Duration = Duration::from_secs(60);
