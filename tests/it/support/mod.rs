//! Fixtures and clients of tests: servers, Redis, Sentinel and Cluster as separate processes, and
//! ways to break them.

#[macro_use]
pub mod patience;

pub mod cluster;
#[macro_use]
mod each_store;
pub mod endpoint;
pub mod events;
pub mod file_log;
pub mod http;
pub mod process;
pub mod proxy;
mod redis;
pub mod resp;
pub mod scan;
pub mod scan_api;
pub mod scan_file;
pub mod sentinel;
#[path = "../../../benches/peers/serve.rs"]
pub mod serve;
pub mod shared;
pub mod shifted_clock;
pub mod signal;
pub mod stopwatch;

pub use self::redis::{Redis, free_port, redis_server};
