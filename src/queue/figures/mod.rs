//! The figures that the API, metrics and health tell, as they are gathered.

pub mod last_errors;
pub mod lateness;
pub mod stats;
pub mod store_checks;
pub mod survey;
