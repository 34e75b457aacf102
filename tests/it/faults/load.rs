//! The ordinary load: clients that put and delete, some of them again, clients that pop and end,
//! and one that pauses.

mod consumers;
mod producers;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::task::JoinSet;

use crate::{
    faults::{client::Client, history::History},
    support::scan::Scan,
};

/// Topic of most jobs, which are all popped and ended.
const TOPIC: &str = "t";
/// Topic of jobs that no consumer pops: due in an hour.
const KEPT: &str = "kept";
/// Topic of jobs that are reserved for an hour.
const HELD: &str = "held";
/// Topic of jobs that have one attempt, which fails.
const DOOMED: &str = "doomed";
/// Topic that is paused at times; its jobs are popped and finished.
const PAUSED: &str = "paused";
/// Topic of jobs whose ids stay taken after their end, and that are put again meanwhile.
const ONCE: &str = "once";
pub const TOPICS: [&str; 6] = [TOPIC, KEPT, HELD, DOOMED, PAUSED, ONCE];

/// Short, as jobs of a failed pop come back after it, and long enough for a busy machine.
pub const TTR: Duration = Duration::from_secs(2);
/// Limit of a job's attempts.
const ATTEMPTS: u32 = 20;
/// Times that a client sends a request that gets no answer.
pub const TRIES: usize = 3;
/// Time for which the id of a job of the topic `once` stays taken.
pub const RETENTION: Duration = Duration::from_secs(60);
/// Number of clients that put, and of clients that pop.
const CLIENTS: usize = 6;
/// Jobs per pop and per batch.
const BATCH: u64 = 16;

/// Whether ids are put again that stay taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    Puts,
    Never,
}

pub struct Load {
    stop: Arc<AtomicBool>,
    clients: JoinSet<()>,
}

impl Load {
    /// Starts the clients. Those of `once` run only if no fault makes the store forget an end.
    pub fn start(history: &Arc<History>, servers: &[String], again: Again) -> Self {
        // No two loads put the same ids.
        static LOADS: AtomicUsize = AtomicUsize::new(0);
        let load = LOADS.fetch_add(1, Ordering::Relaxed);
        let stop = Arc::new(AtomicBool::new(false));
        let mut clients = JoinSet::new();
        let behind: Arc<AtomicBool> = Arc::default();
        // Each server gets as many clients of each kind as the other.
        let client = |number| Client::new(Arc::clone(history), servers, number);
        for number in 0..CLIENTS {
            let flags = || (Arc::clone(&behind), Arc::clone(&stop));
            clients.spawn(producers::put_jobs(client(number), format!("{load}:{number}"), flags()));
            clients.spawn(consumers::end_jobs(client(number), flags()));
        }
        clients.spawn(consumers::pause_and_resume(client(0), Arc::clone(&stop)));
        clients.spawn(consumers::end_paused_jobs(client(1), Arc::clone(&stop)));
        let again = if again == Again::Puts { 2 } else { 0 };
        for number in 0..again {
            let name = format!("{load}:once:{number}");
            clients.spawn(producers::put_again(client(number), name, Arc::clone(&stop)));
            clients.spawn(consumers::end_once(client(number), Arc::clone(&stop)));
        }
        Self { stop, clients }
    }

    /// Lets each client end its call.
    pub async fn stop(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = self.clients.join_next().await {
            ended.expect("a client does not panic");
        }
    }
}

/// Counts the load's jobs that consumers can still pop.
pub fn pending(scan: &Scan) -> usize {
    let pending = |set: &String| {
        [TOPIC, PAUSED, ONCE].iter().any(|topic| {
            ["delayed", "ready", "reserved"].iter().any(|s| set.ends_with(&format!(":{s}:{topic}")))
        })
    };
    scan.values().filter(|stored| stored.sets.iter().any(pending)).count()
}

/// Pops and finishes with four clients until `empty` returns true. Returns whether it did within
/// the limit.
pub async fn drain(
    history: &Arc<History>,
    servers: &[String],
    empty: impl AsyncFn() -> bool,
    limit: Duration,
) -> bool {
    let stop = Arc::new(AtomicBool::new(false));
    let mut clients = JoinSet::new();
    for number in 0..4 {
        let mut client = Client::new(Arc::clone(history), servers, number);
        let stop = Arc::clone(&stop);
        clients.spawn(async move {
            let mut resumed = false;
            while !stop.load(Ordering::Relaxed) {
                resumed = resumed || client.resume(PAUSED).await;
                let jobs = client.pop("t,paused,once", "wait=500ms&count=20").await;
                if !jobs.is_empty() {
                    client.finish_batch(&jobs).await;
                }
            }
        });
    }
    let end = history.now() + limit;
    let mut drained = empty().await;
    while !drained && history.now() < end {
        tokio::time::sleep(Duration::from_millis(100)).await; // no event reports the last job
        drained = empty().await;
    }
    stop.store(true, Ordering::Relaxed);
    while clients.join_next().await.is_some() {}
    drained
}
