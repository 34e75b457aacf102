//! What the API, metrics and health tell of the queue.

pub mod last_errors;
pub mod lateness;
pub mod metrics;
pub mod readiness;
pub mod stats;
pub mod survey;
