//! Limits of requests, callers, topics and the store.

pub mod capacity;
pub mod held;
pub mod hold;
pub mod in_flight;
mod keyed;
pub mod limit_by;
pub mod memory;
pub mod per_minute;
pub mod quotas;
