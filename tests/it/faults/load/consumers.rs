//! Clients that pop and end jobs, and one that pauses a topic.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use super::{BATCH, ONCE, PAUSED, TOPIC, TTR};
use crate::faults::{
    client::Client,
    history::{Delivery, Time},
};

enum Then {
    Finish,
    /// Touch, and finish after the first TTR, within the second.
    Touch,
    Kick,
    /// Reschedule too late, which ends the hold, then try to finish.
    Change,
}

/// Ends jobs until `stop`, and reports in `behind` whether consumers are behind.
pub async fn end_jobs(mut client: Client, (behind, stop): (Arc<AtomicBool>, Arc<AtomicBool>)) {
    let mut popped = 0_u64;
    let mut later: Vec<(Time, Then, Delivery)> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let mut done = Vec::new();
        // A pop that does not wait finds more jobs.
        let wait = if popped.is_multiple_of(3) { "" } else { "wait=1s&" };
        let jobs = client.pop(TOPIC, &format!("{wait}count={BATCH}")).await;
        behind.store(jobs.len() as u64 == BATCH, Ordering::Relaxed);
        for job in jobs {
            popped += 1;
            let now = client.now();
            match popped % 40 {
                // The next consumer holds the job for a while, until the finish further below.
                _ if job.attempt > 1 => later.push((now + TTR / 5, Then::Finish, job)),
                // Too late: refused if another consumer has the job by now, accepted otherwise.
                0 | 1 => later.push((now + TTR + TTR / 20, Then::Finish, job)),
                2 => client.release(&job, Duration::from_millis(popped % 500)).await,
                3 => client.delete(&job.id).await,
                4 => {
                    client.bury(&job).await;
                    // Some stay dead.
                    if popped % 200 != 4 {
                        later.push((now + TTR / 10, Then::Kick, job));
                    }
                }
                5 => later.push((now + TTR / 2, Then::Touch, job)),
                6 => later.push((now + TTR + TTR / 20, Then::Change, job)),
                7..10 => client.finish(&job).await,
                _ => done.push(job),
            }
        }
        if !done.is_empty() {
            client.finish_batch(&done).await;
        }
        let now = client.now();
        let due: Vec<_> = later.extract_if(.., |(at, _, _)| *at <= now).collect();
        for (at, then, job) in due {
            match then {
                Then::Finish => client.finish(&job).await,
                Then::Touch => {
                    client.touch(&job).await;
                    later.push((at + TTR * 3 / 4, Then::Finish, job));
                }
                Then::Kick => client.kick(&job.id).await,
                Then::Change => {
                    client.reschedule(&job.id, Duration::ZERO).await;
                    client.finish(&job).await;
                }
            }
        }
    }
}

/// Pops jobs of the topic that is paused at times. The pops are so short that each pause sees some
/// begin and end.
pub async fn end_paused_jobs(mut client: Client, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        for job in client.pop(PAUSED, "wait=50ms&count=10").await {
            client.finish(&job).await;
        }
    }
}

/// Finishes jobs whose ids stay taken; some after a release, or after an expired TTR.
pub async fn end_once(mut client: Client, stop: Arc<AtomicBool>) {
    let mut popped = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        for job in client.pop(ONCE, "wait=500ms&count=10").await {
            popped += 1;
            match popped % 10 {
                0 => client.release(&job, Duration::from_millis(popped % 500)).await,
                1 => {}
                _ => client.finish(&job).await,
            }
        }
    }
}

pub async fn pause_and_resume(mut client: Client, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(300)).await;
        client.pause(PAUSED).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        while !client.resume(PAUSED).await && !stop.load(Ordering::Relaxed) {}
    }
}
