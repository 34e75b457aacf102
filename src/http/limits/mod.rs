//! Limits of requests and callers. Those of topics and of the store are in `queue/capacity.rs`.

pub mod delivery;
pub mod held;
pub mod hold;
pub mod in_flight;
pub mod limit_by;
pub mod memory;
pub mod per_minute;
pub mod quotas;
