//! Joining what goes to one server of the store into one call.

pub mod coalescer;
pub mod dispatcher;
pub mod has_job_id;
pub mod sticky;

use std::time::Duration;

/// How long after it was given up a call may still be carried out: by a server that stood still, or
/// over a network that did.
pub const LATE_CALL: Duration = Duration::from_secs(60);
