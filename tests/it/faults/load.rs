//! Eight clients: four put and delete, four pop and finish, release, or let the TTR run out.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::task::JoinSet;

use crate::faults::{
    client::Client,
    history::{Delivery, History, StoreResult, Text, Time},
};

/// Where most jobs go, which are all popped and ended.
const TOPIC: &str = "t";
/// Jobs that no consumer pops: due in an hour.
const KEPT: &str = "kept";
/// Jobs that are popped for an hour.
const HELD: &str = "held";
/// Jobs that have one attempt, which fails.
const DOOMED: &str = "doomed";
/// All of them.
pub const TOPICS: [&str; 4] = [TOPIC, KEPT, HELD, DOOMED];

/// The shortest there is, and room for a busy machine: what a failed pop took comes back after it.
pub const TTR: Duration = Duration::from_secs(2);
/// How often a job is tried.
const ATTEMPTS: u32 = 20;
/// How often a client asks what was not answered.
pub const TRIES: usize = 3;
/// Between two puts of a client: debug builds on a busy machine must keep up.
const PAUSE: Duration = Duration::from_millis(10);

/// The running clients.
pub struct Load {
    stop: Arc<AtomicBool>,
    clients: JoinSet<()>,
}

impl Load {
    /// Starts all clients.
    pub fn start(history: &Arc<History>, servers: &[String]) -> Self {
        // No two loads put the same ids.
        static LOADS: AtomicUsize = AtomicUsize::new(0);
        let load = LOADS.fetch_add(1, Ordering::Relaxed);
        let stop = Arc::new(AtomicBool::new(false));
        let mut clients = JoinSet::new();
        // A server gets as many of each kind as the other.
        for number in 0..4 {
            let client = || Client::new(Arc::clone(history), servers, number);
            clients.spawn(put_jobs(client(), format!("{load}:{number}"), Arc::clone(&stop)));
            clients.spawn(end_jobs(client(), Arc::clone(&stop)));
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

async fn put_jobs(mut client: Client, producer: String, stop: Arc<AtomicBool>) {
    let mut number = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        put_one(&mut client, &format!("{producer}:{number}"), number).await;
        tokio::time::sleep(PAUSE).await;
    }
}

/// `name` is the job's id, if it gets one, and its body.
async fn put_one(client: &mut Client, name: &str, number: u64) {
    let name = Text::from(name);
    let (id, body) = (Some(name.clone()), name.clone());
    let (now, soon) = (Duration::ZERO, Duration::from_millis(number * 37 % 2000));
    match number % 20 {
        // Deleted before it is due, or while a consumer may hold it.
        0 | 1 => {
            let delay = if number % 20 == 1 { soon } else { now };
            client.put(TOPIC, id, body, delay, ATTEMPTS).await;
            client.delete(&name).await;
        }
        2 => {
            // Alive for an hour, so putting it again is harmless: it becomes certain.
            let hour = Duration::from_secs(3600);
            for _ in 0..TRIES {
                let put = client.put(KEPT, id.clone(), body.clone(), hour, ATTEMPTS).await;
                if !matches!(put, StoreResult::Unknown) {
                    return;
                }
            }
        }
        3 if number % 100 == 3 => {
            client.put(HELD, id, body, now, ATTEMPTS).await;
            client.pop(HELD, "ttr=1h").await;
        }
        // Dead at its first release.
        4 => {
            client.put(DOOMED, id, body, now, 1).await;
            for job in client.pop(DOOMED, "").await {
                client.release(&job, now).await;
            }
        }
        5..9 => drop(client.put(TOPIC, None, body, now, ATTEMPTS).await),
        9..14 => drop(client.put(TOPIC, id, body, soon, ATTEMPTS).await),
        _ => drop(client.put(TOPIC, id, body, now, ATTEMPTS).await),
    }
}

async fn end_jobs(mut client: Client, stop: Arc<AtomicBool>) {
    let mut popped = 0_u64;
    let mut later: Vec<(Time, Delivery)> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        for job in client.pop(TOPIC, "wait=1s&count=5").await {
            popped += 1;
            match popped % 20 {
                // The next consumer holds it for a while, until the finish of the next line.
                _ if job.attempt > 1 => later.push((client.now() + TTR / 5, job)),
                // Too late: refused if another consumer has the job by now, else accepted.
                0 | 1 => later.push((client.now() + TTR + TTR / 20, job)),
                2 => client.release(&job, Duration::from_millis(popped % 500)).await,
                3 => client.delete(&job.id).await,
                _ => client.finish(&job).await,
            }
        }
        let now = client.now();
        for (_, job) in later.extract_if(.., |(at, _)| *at <= now) {
            client.finish(&job).await;
        }
    }
}

/// Pops and finishes with four clients until `empty` says that nothing is left to wait for; whether
/// it came to that within the limit.
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
            while !stop.load(Ordering::Relaxed) {
                for job in client.pop(TOPIC, "wait=500ms&count=20").await {
                    client.finish(&job).await;
                }
            }
        });
    }
    let end = history.now() + limit;
    let mut drained = empty().await;
    while !drained && history.now() < end {
        tokio::time::sleep(Duration::from_millis(100)).await; // no event tells that all is gone
        drained = empty().await;
    }
    stop.store(true, Ordering::Relaxed);
    while clients.join_next().await.is_some() {}
    drained
}
