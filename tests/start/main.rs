//! Starting, stopping and refusing to start, with the real binary; and what the README promises.

mod access;
mod bench;
#[expect(dead_code, reason = "no fault is brought about here")]
#[path = "../support/cluster.rs"]
mod cluster_of_redis;
mod doctor;
mod guarded;
mod kinds;
mod moving;
#[expect(dead_code, reason = "here no metrics are read")]
#[path = "../support/process.rs"]
mod process;
mod readme;
mod refusals;
#[path = "../support/resp.rs"]
mod resp;
mod said;
#[path = "../support/shared_cluster.rs"]
mod shared_cluster;
mod signals;
#[path = "../support/mod.rs"]
mod support;
mod tls;

/// Runs the program to its end.
fn output(dir: &std::path::Path, arguments: &[&str]) -> std::process::Output {
    process::program(dir, arguments).output().expect("the program runs")
}
