//! Joining what goes to one server of the store into one call.

pub mod coalescer;
pub mod dispatcher;
pub mod has_job_id;
pub mod sticky;
