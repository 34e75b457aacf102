//! Consumers that disconnect at random moments. For each request, one of these must hold:
//!
//! - The server has sent no byte of an answer: then the next consumer gets the job at once, with
//!   the first attempt, as if the first one had never sent its request.
//! - The server has sent the whole answer: then the job is reserved for this consumer, and its
//!   reservation is valid.
//!
//! TTRs are an hour, so no job is ready again because its TTR has ended.

use std::sync::atomic::Ordering::Relaxed;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::Semaphore,
    time::sleep,
};

use crate::faults::prelude::*;
use crate::support::events::close;

const CONSUMERS: u64 = 1000;
const AT_ONCE: usize = 50;
const SEED: u64 = 15;

/// Moment at which a consumer disconnects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// After part of the request, in thousandths.
    Sending(usize),
    /// This time after the request, before a job is put.
    Waiting(Duration),
    /// This part, in thousandths, of the last measured time until an answer, counted from the put
    /// of the job. Because of this unit, about half of the consumers disconnect before the answer,
    /// however busy the machine is.
    Answered(u64),
    /// After reading the whole answer.
    Done,
}

impl Phase {
    fn of(random: &mut StdRng) -> Self {
        match random.random_range(0..4) {
            0 => Self::Sending(random.random_range(0..1000)),
            1 => Self::Waiting(Duration::from_micros(random.random_range(0..50_000))),
            2 => Self::Answered(random.random_range(0..2000)),
            _ => Self::Done,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Sending(_) => "while it sends",
            Self::Waiting(_) => "while it waits",
            Self::Answered(_) => "while it is answered",
            Self::Done => "after it was answered",
        }
    }
}

/// A consumer that disconnects, and the next consumer.
struct Consumer {
    number: u64,
    server: Arc<Process>,
    /// Last measured time in microseconds from the put of a job until its consumer had read the
    /// answer.
    answer_took: Arc<AtomicU64>,
}

impl Consumer {
    /// Puts a job for these two consumers.
    async fn put(&self) {
        let topic = format!("t{}", self.number);
        let job = json!({"topic": topic, "id": self.number.to_string(), "ttr": "1h"});
        self.server.put_job(job).await;
    }

    /// Disconnects in this phase. Returns whether the next consumer got the job; otherwise this one
    /// has it.
    async fn disconnect(&self, phase: Phase) -> bool {
        let mut connection = TcpStream::connect(self.server.address()).await.expect("connected");
        let path = format!("/topics/t{}/pop?wait=30s", self.number);
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let part = match phase {
            Phase::Sending(thousandths) => request.len() * thousandths / 1000,
            _ => request.len(),
        };
        connection.write_all(&request.as_bytes()[..part]).await.expect("sent");
        // A connection closed in one direction can still read an answer.
        let half_closed = match phase {
            // Every other consumer resets its connection.
            Phase::Sending(_) | Phase::Waiting(_) => {
                if let Phase::Waiting(span) = phase {
                    sleep(span).await;
                }
                if self.number.is_multiple_of(2) {
                    connection.set_zero_linger().expect("a socket");
                }
                close(connection).await;
                self.put().await;
                None
            }
            Phase::Answered(thousandths) => {
                let span = self.answer_took.load(Relaxed) * thousandths / 1000;
                let span = Duration::from_micros(span);
                let goes = async {
                    sleep(span).await;
                    connection.shutdown().await.expect("closed");
                };
                tokio::join!(self.put(), goes);
                Some(connection)
            }
            Phase::Done => {
                let since = Instant::now();
                self.put().await;
                let job = read_job(&mut connection).await.expect("an answer with a job");
                let took = u64::try_from(since.elapsed().as_micros())
                    .expect("microseconds that fit into 64 bits");
                self.answer_took.store(took, Relaxed);
                drop(connection);
                self.assert_held(&job).await;
                return false;
            }
        };
        if let Some(job) = self.next().await {
            self.assert_held(&job).await;
            return true;
        }
        let job = match half_closed {
            Some(mut connection) => read_job(&mut connection).await,
            None => None,
        };
        let job = job.unwrap_or_else(|| panic!("{phase:?}: no consumer has the job"));
        self.assert_held(&job).await;
        false
    }

    /// Returns the job of the next consumer; `None` if it gets no job.
    async fn next(&self) -> Option<Value> {
        let path = format!("/topics/t{}/pop?wait=5s", self.number);
        self.server.post_ok(&path, json!({})).await["jobs"].get_mut(0).map(Value::take)
    }

    /// Asserts that this is the first attempt of the job, with a valid reservation.
    async fn assert_held(&self, job: &Value) {
        assert_eq!((&job["id"], &job["attempt"]), (&json!(self.number.to_string()), &json!(1)));
        let held = json!({"reservation": job["reservation"]});
        self.server.post_ok(&format!("/jobs/{}/finish", self.number), held).await;
    }
}

/// Reads an answer. Returns its job if the answer is complete and has a job.
async fn read_job(connection: &mut TcpStream) -> Option<Value> {
    let mut answer = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&answer);
        if let Some((_, body)) = text.split_once("\r\n\r\n")
            && let Ok(body) = serde_json::from_str::<Value>(body)
        {
            return body["jobs"].get(0).cloned();
        }
        if connection.read_buf(&mut answer).await.ok()? == 0 {
            return None;
        }
    }
}

async fn each_job_reaches_a_consumer(store: &str) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let server = Arc::new(Process::start(dir.path(), &["--store", store]).await);
    let mut random = StdRng::seed_from_u64(SEED);
    let (places, mut consumers) = (Arc::new(Semaphore::new(AT_ONCE)), JoinSet::new());
    let answer_took = Arc::new(AtomicU64::new(10_000));
    for number in 0..CONSUMERS {
        let (server, answer_took) = (Arc::clone(&server), Arc::clone(&answer_took));
        let consumer = Consumer { number, server, answer_took };
        let (phase, places) = (Phase::of(&mut random), Arc::clone(&places));
        consumers.spawn(async move {
            let _place = places.acquire().await.expect("the semaphore is open");
            (phase, consumer.disconnect(phase).await)
        });
    }
    // By phase, how many jobs the next consumer got, and how many the one that disconnected.
    let mut counts: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
    while let Some(ended) = consumers.join_next().await {
        let (phase, is_next) = ended.expect("each job reaches a consumer");
        counts.entry(phase.name()).or_default()[usize::from(!is_next)] += 1;
    }
    println!("{store}, seed {SEED}: {counts:?}");
    for phase in ["while it sends", "while it waits", "while it is answered"] {
        assert!(counts[phase][0] > 20, "too few consumers disconnected {phase}: {counts:?}");
    }
    assert!(counts["after it was answered"][1] > 100, "{counts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn jobs_of_a_thousand_lost_consumers_reach_others_on_file() {
    each_job_reaches_a_consumer("file:./data").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn jobs_of_a_thousand_lost_consumers_reach_others_on_redis() {
    let redis = Redis::start();
    each_job_reaches_a_consumer(&redis.url()).await;
}
