//! Faults under load, with the real binary and real Redis processes: whatever is killed, frozen
//! or cut off, the promises hold, as judged from what clients were told and what the store holds.

mod client;
mod clock;
mod cluster;
#[path = "../support/cluster.rs"]
mod cluster_of_redis;
mod cut;
mod frozen;
mod history;
mod judge;
mod load;
#[path = "../support/process.rs"]
mod process;
#[path = "../support/proxy.rs"]
mod proxy;
mod redis;
#[path = "../support/resp.rs"]
mod resp;
#[path = "../support/scan.rs"]
mod scan;
mod scenario;
mod sentinel;
#[path = "../support/sentinel.rs"]
mod sentinels;
#[path = "../support/shifted_clock.rs"]
mod shifted_clock;
#[path = "../support/signal.rs"]
mod signal;
#[path = "../support/mod.rs"]
mod support;
mod vitals;
