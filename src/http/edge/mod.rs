//! What every request passes before its route and every answer after it: proxies, admission, request ids, problems, the
//! log and the counters.

pub mod admit;
pub mod farewell;
pub mod finalize;
pub mod forwarded;
pub mod log;
pub mod origin;
pub mod requests;
pub mod service;
