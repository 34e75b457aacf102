//! A durable delay queue over plain HTTP: it delivers a job to a consumer when the job is due, and
//! delivers it again if the consumer does not finish it in time.
//!
//! The path of a request: `http` (extract, one call, answer) → `queue` (find the bucket, join other
//! requests to the same server of the store) → `store` (one atomic transition for a batch).
//!
//! The path of a due job: deadline → the timer in `queue` → `store` promotes due jobs → pops that
//! wait for their topics wake up → one call pops for all of them → their answers.
//!
//! Imports run one way: `cli → server → http → queue → store → job`. `ARCHITECTURE.md` is the map.

#![warn(clippy::too_many_lines)]

pub mod access;
pub mod cli;
pub mod config;
pub mod http;
pub use delay_queue_core::job;
pub mod push;
pub mod queue;
pub mod schedules;
pub mod server;
pub mod store;

mod bounded_map;
mod budget;
mod metrics;
mod suggest;
mod tls_error;
mod traces;

#[cfg(any(test, fuzzing))]
#[path = "../fuzz/inside/mod.rs"]
pub mod fuzzing;
