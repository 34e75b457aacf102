//! Steps of every request before its handler and of every answer after it: proxies, admission,
//! request ids, problems, the log and the metrics.

pub mod admit;
pub mod connection_error;
pub mod finalize;
pub mod forwarded;
pub mod log;
pub mod origin;
pub mod site;
mod span;
