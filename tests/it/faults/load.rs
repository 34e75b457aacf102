//! The ordinary load: clients that put and delete jobs, clients that put ids again, clients that
//! pop and end jobs, and one that pauses a topic. Jobs have all priorities. Some jobs expire soon,
//! and some late. The jobs of one topic move to another topic when they die.

mod consumers;
mod dying;
mod producers;

use crate::faults::prelude::*;

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
/// Topic of jobs that no consumer pops. They expire soon after their due times.
const EXPIRING: &str = "expiring";
/// Topic of jobs whose ids stay taken after their end. Producers put these ids again meanwhile.
const ONCE: &str = "once";
/// Topic of jobs that have one or two attempts and move to [`FALLEN`] when they die.
const DYING: &str = "dying";
/// Topic of jobs that have died in [`DYING`]. Most of them are finished here.
const FALLEN: &str = "fallen";
pub const TOPICS: [&str; 9] = [TOPIC, KEPT, HELD, DOOMED, PAUSED, EXPIRING, ONCE, DYING, FALLEN];

/// TTR of jobs. It is short, since jobs of a failed pop are ready only after it, but long enough
/// for a busy machine.
pub const TTR: Duration = Duration::from_secs(2);
/// Limit of a job's attempts.
const ATTEMPTS: u32 = 20;
/// Maximum number of times that a client sends a request without an answer.
pub const TRIES: usize = 3;
/// Time for which the id of a job of the topic `once` stays taken.
pub const RETENTION: Duration = Duration::from_secs(60);
/// Number of clients that put, and of clients that pop.
const CLIENTS: usize = 6;
/// Jobs per pop and per batch.
const BATCH: u64 = 16;

/// Whether clients put ids again that stay taken.
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
    /// Starts the clients. The clients of the topic `once` run only if no fault makes the store
    /// forget the end of a job.
    pub fn start(history: &Arc<History>, servers: &[String], again: Again) -> Self {
        // The number of the load makes its ids unique.
        static LOADS: AtomicUsize = AtomicUsize::new(0);
        let load = LOADS.fetch_add(1, Ordering::Relaxed);
        let stop = Arc::new(AtomicBool::new(false));
        let mut clients = JoinSet::new();
        let behind: Arc<AtomicBool> = Arc::default();
        // Both servers get the same number of clients of each kind.
        let client = |number| Client::new(Arc::clone(history), servers, number);
        for number in 0..CLIENTS {
            let flags = || (Arc::clone(&behind), Arc::clone(&stop));
            clients.spawn(producers::put_jobs(client(number), format!("{load}:{number}"), flags()));
            clients.spawn(consumers::end_jobs(client(number), flags()));
        }
        clients.spawn(consumers::pause_and_resume(client(0), Arc::clone(&stop)));
        clients.spawn(consumers::end_paused_jobs(client(1), Arc::clone(&stop)));
        for number in 0..servers.len() {
            let (name, stop) = (format!("{load}:dying:{number}"), || Arc::clone(&stop));
            clients.spawn(dying::put_dying(client(number), name, stop()));
            clients.spawn(dying::let_die(client(number), stop()));
            clients.spawn(dying::end_fallen(client(number), stop()));
        }
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

/// Returns the body that the holder of a reservation gives to a job: it names the job as the old
/// one does.
pub fn changed_body(body: &str, reservation: &str) -> Text {
    format!("{}~{reservation}", put_body(body)).into()
}

/// Returns the body with which a job was put that has this one.
pub fn put_body(body: &str) -> &str {
    body.split('~').next().unwrap_or_default()
}

/// Counts the load's jobs that consumers can still pop, or that will expire.
pub fn pending(scan: &Scan) -> usize {
    let pending = |set: &String| {
        [TOPIC, PAUSED, EXPIRING, ONCE, DYING, FALLEN].iter().any(|topic| {
            ["delayed", "ready", "reserved"].iter().any(|s| set.ends_with(&format!(":{s}:{topic}")))
        })
    };
    scan.values().filter(|stored| stored.sets.iter().any(pending)).count()
}

/// Pops and finishes jobs with four clients until `empty` returns true. Returns false after
/// `limit`.
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
                let jobs = client.pop("t,paused,once,dying,fallen", "wait=500ms&count=20").await;
                if !jobs.is_empty() {
                    client.finish_batch(&jobs).await;
                }
            }
        });
    }
    let watch = Stopwatch::start();
    let mut drained = empty().await;
    while !drained && watch.elapsed() < limit {
        tokio::time::sleep(Duration::from_millis(100)).await; // no event reports the last job
        drained = empty().await;
    }
    stop.store(true, Ordering::Relaxed);
    while clients.join_next().await.is_some() {}
    drained
}
