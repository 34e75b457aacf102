//! Collection of the figures that the API, metrics and health checks report.

pub mod last_errors;
pub mod lateness;
pub mod pattern;
pub mod stats;
pub mod store_checks;
pub mod survey;
