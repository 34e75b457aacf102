//! A durable delay queue over plain HTTP: a job is put now and delivered to a consumer when it is
//! due; if the consumer does not finish it in time, it comes back.
//!
//! The way of a request: `http` (extract, one call, answer) → `queue` (validate, find the bucket,
//! join what else goes there) → `store` (one transition for a batch, atomic).
//!
//! The way of a due job: deadline → the bucket's timer in `queue` → `store` promotes what is due →
//! those who wait for its topics are woken → one pop for as many as wait → their answers.
//!
//! Arrows run one way: `cli → server → http → queue → store → job`. `ARCHITECTURE.md` is the map.

#![warn(clippy::too_many_lines)]

pub mod access;
pub mod cli;
pub mod config;
pub mod http;
pub mod job;
pub mod queue;
pub mod server;
pub mod store;

mod metrics;
mod suggest;
mod tls_error;
mod traces;

#[cfg(any(test, fuzzing))]
#[path = "../fuzz/inside/mod.rs"]
pub mod fuzzing;
