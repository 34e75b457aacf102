//! A durable delay queue over plain HTTP: a job is put now and handed to a consumer when it is
//! due; if the consumer does not finish it in time, it comes back.
//!
//! The way of a request: `http` (extract, one call, answer) → `queue` (validate, find the bucket,
//! join what else goes there) → `store` (one transition for a batch, atomic).
//!
//! The way of a due job: deadline → the bucket's timer in `queue` → `store` promotes what is due →
//! those who wait for its topics are woken → one pop for as many as wait → their answers.
//!
//! Arrows run one way: `cli → server → http → queue → store → job`. `ARCHITECTURE.md` is the map.

pub mod cli;
pub mod config;
pub mod http;
pub mod job;
pub mod queue;
pub mod server;
pub mod store;

/// Inner parts that `benches/micro.rs` measures. No part of what this crate promises.
#[doc(hidden)]
pub mod measured {
    pub use crate::{
        queue::Coalescer,
        store::redis::{Record, record, record_rest},
    };
}
