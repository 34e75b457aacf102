//! The task of each server that puts the jobs of due schedules.
//!
//! It looks at all due schedules at once, plans a step for each, and lets the store check that none
//! has changed since. Whatever fails is left due, so that this or another server repeats it.

mod clock_errors;
mod conflicts;
mod pass;
mod planning;
mod retries;
mod work;

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use self::pass::{Next, Passes};
use super::service::Shared;

/// Longest time without a look at the schedules: finds changes by other servers whose hints were
/// lost.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);
/// First and longest pause after a failure.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Bounds of the pause in ms after another server has advanced a schedule first.
const AFTER_CONTEST: std::ops::Range<u64> = 5..50;

/// Runs until `stop`.
pub async fn run(shared: Arc<Shared>, stop: CancellationToken) {
    let mut passes = Passes::default();
    let mut pause: Option<Duration> = None;
    loop {
        let changed = shared.queue.schedules_changed();
        let until = match passes.pass(&shared, &stop).await {
            Ok(next) => {
                if pause.take().is_some() {
                    tracing::info!("schedules are read again");
                }
                let wait = match next {
                    Next::Now => Duration::ZERO,
                    Next::Contested => Duration::from_millis(rand::random_range(AFTER_CONTEST)),
                    Next::In(wait) => wait.min(LOOK_INTERVAL),
                };
                Instant::now() + wait
            }
            Err(error) => {
                if pause.is_none() {
                    tracing::warn!(%error, "schedules cannot be read; trying again");
                }
                let longer = pause.map_or(FIRST_PAUSE, |pause| (pause * 2).min(LONGEST_PAUSE));
                pause = Some(longer);
                Instant::now() + longer
            }
        };
        tokio::select! {
            () = sleep_until(until) => {}
            // A failing store is not called more often because of changes.
            () = changed, if pause.is_none() => {}
            () = stop.cancelled() => return,
        }
    }
}
