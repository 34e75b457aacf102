//! Starting, stopping and refusing to start, with the real binary; and what the documentation shows.

mod access;
mod bench;
#[expect(dead_code, reason = "no fault is brought about here")]
#[path = "../support/cluster.rs"]
mod cluster_of_redis;
mod connections;
mod damaged;
mod docs;
mod doctor;
mod logs;
mod memory;
mod moving;
mod outputs;
#[expect(dead_code, reason = "here no metrics are read")]
#[path = "../support/process.rs"]
mod process;
mod protected_servers;
mod refusals;
#[path = "../support/resp.rs"]
mod resp;
mod settings;
#[path = "../support/shared_cluster.rs"]
mod shared_cluster;
#[path = "../support/signal.rs"]
mod signal;
mod signals;
mod store_urls;
#[path = "../support/mod.rs"]
mod support;
mod tls;
mod waiting_for_redis;

/// Runs the program to its end; it waits for no store.
fn output(dir: &std::path::Path, arguments: &[&str]) -> std::process::Output {
    let mut command = process::program(dir, arguments);
    command.env("DELAY_QUEUE__STORE__CONNECT_TIMEOUT", "0").output().expect("the program runs")
}
