//! Load on a store while one fault after another is injected. `./tests/soak` runs it. In the test
//! suite, the load runs for a minute on the file store and on one Redis, and each fault must have
//! an effect.

mod epochs;
pub mod faults;
mod options;
mod prelude;
mod report;
mod stage;

use crate::soak::prelude::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn all_promises_hold_for_a_minute_on_files_or_as_configured() {
    epochs::run(Options::given_or("--store\nfile\n--minutes\n1\n--seed\n1")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn all_promises_hold_for_a_minute_on_redis() {
    let words = ["--store", "redis", "--minutes", "1", "--seed", "1"];
    epochs::run(Options::read(&words).expect("valid options")).await;
}

/// Waits up to ten seconds for a condition. Returns whether it holds.
pub async fn holds_soon(mut holds: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + scaled(Duration::from_secs(10));
    while !holds() {
        if Instant::now() > end {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(2)).await; // no event reports the condition
    }
    true
}
