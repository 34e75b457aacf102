//! What clients asked and were told, on one monotonic clock.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use xxhash_rust::xxh3::xxh3_64;

/// Time since the history began.
pub type Time = Duration;

/// Buckets of a new store on Redis.
const BUCKETS: u64 = 16;

/// One call of one client.
#[derive(Debug, Clone)]
pub struct Call {
    pub start: Time,
    pub end: Time,
    pub ask: Ask,
    pub outcome: StoreResult,
}

/// What was asked.
#[derive(Debug, Clone)]
pub enum Ask {
    /// Bodies differ between jobs, so that one tells which put a job comes from.
    Put {
        id: Option<String>,
        body: String,
        delay: Duration,
        max_attempts: u32,
    },
    Pop,
    Finish {
        id: String,
        reservation: String,
    },
    Release {
        id: String,
        reservation: String,
        delay: Duration,
    },
    Delete {
        id: String,
    },
}

/// What came of it.
#[derive(Debug, Clone)]
pub enum StoreResult {
    Done(Answer),
    /// Nothing was changed, with the reason as a code.
    Refused(String),
    /// It may have been done or not.
    Unknown,
    /// An answer that must not be given; whether it was done is unknown too.
    Wrong(String),
}

/// What was answered. Times are the store's, in Unix milliseconds.
#[derive(Debug, Clone)]
pub enum Answer {
    Put { id: String, due_at: i64 },
    Popped(Vec<Delivery>),
    Finished,
    Released { due_at: i64 },
    Deleted,
}

/// A job as a pop gave it.
#[derive(Debug, Clone)]
pub struct Delivery {
    pub id: String,
    pub body: String,
    pub attempt: u32,
    pub reservation: String,
    pub due_at: i64,
    pub reserved_until: i64,
    pub ttr: Duration,
}

impl Ask {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Put { .. } => "put",
            Self::Pop => "pop",
            Self::Finish { .. } => "finish",
            Self::Release { .. } => "release",
            Self::Delete { .. } => "delete",
        }
    }
}

impl Call {
    pub fn done(&self) -> bool {
        matches!(self.outcome, StoreResult::Done(_))
    }

    /// It failed for want of a server or store.
    pub fn failed(&self) -> bool {
        match &self.outcome {
            StoreResult::Done(_) => false,
            StoreResult::Refused(code) => !code.starts_with("job_") && code != "reservation_lost",
            StoreResult::Unknown | StoreResult::Wrong(_) => true,
        }
    }

    /// It was done, or perhaps.
    pub fn may_be_done(&self) -> bool {
        !matches!(self.outcome, StoreResult::Refused(_))
    }

    pub fn refused(&self, code: &str) -> bool {
        matches!(&self.outcome, StoreResult::Refused(because) if because == code)
    }

    pub fn deliveries(&self) -> &[Delivery] {
        match &self.outcome {
            StoreResult::Done(Answer::Popped(deliveries)) => deliveries,
            _ => &[],
        }
    }
}

/// Collects the calls of all clients.
pub struct History {
    began: Instant,
    calls: Mutex<Vec<Call>>,
    /// How often each call met each failure.
    failures: Mutex<BTreeMap<String, usize>>,
}

impl History {
    pub fn new() -> Self {
        Self { began: Instant::now(), calls: Mutex::default(), failures: Mutex::default() }
    }

    pub fn now(&self) -> Time {
        self.began.elapsed()
    }

    pub fn add(&self, call: Call) {
        self.calls().push(call);
    }

    pub fn count_failure(&self, what: String) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        *failures.entry(what).or_default() += 1;
    }

    /// All calls that have ended.
    pub fn calls(&self) -> MutexGuard<'_, Vec<Call>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls that failed for want of a server or store, and ended between these times.
    pub fn failures_between(&self, from: Time, to: Time) -> usize {
        self.calls().iter().filter(|c| c.end >= from && c.end <= to && c.failed()).count()
    }

    /// How often any call met a failure that is told with these words.
    pub fn failures_with(&self, words: &str) -> usize {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.iter().filter(|(what, _)| what.contains(words)).map(|(_, count)| count).sum()
    }

    /// The longest that any call took which ended after `from`, but for pops, which may wait.
    pub fn longest_since(&self, from: Time) -> Time {
        let calls = self.calls();
        let ended = calls.iter().filter(|call| call.end >= from && !matches!(call.ask, Ask::Pop));
        ended.map(|call| call.end - call.start).max().unwrap_or_default()
    }

    /// When each bucket first delivered a job whose put began after `from`; none while one has not.
    pub fn all_buckets_deliver(&self, from: Time) -> Option<Time> {
        let calls = self.calls();
        let mut put = HashMap::new();
        for call in calls.iter().filter(|call| call.start >= from) {
            if let (Ask::Put { body, .. }, true) = (&call.ask, call.may_be_done()) {
                put.insert(body.as_str(), ());
            }
        }
        let mut first: HashMap<u64, Time> = HashMap::new();
        for call in calls.iter().filter(|call| call.start >= from || call.end >= from) {
            for job in call.deliveries().iter().filter(|job| put.contains_key(job.body.as_str())) {
                let at = first.entry(xxh3_64(job.id.as_bytes()) % BUCKETS).or_insert(call.end);
                *at = call.end.min(*at);
            }
        }
        let all = u64::try_from(first.len()) == Ok(BUCKETS);
        all.then(|| first.into_values().max()).flatten()
    }

    /// Prints how many calls went how.
    pub fn print(&self) {
        let mut done: BTreeMap<&str, usize> = BTreeMap::new();
        for call in self.calls().iter().filter(|call| call.done()) {
            *done.entry(call.ask.name()).or_default() += 1;
        }
        println!("done: {done:?}");
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        for (what, count) in failures.iter() {
            println!("failed: {count:6} {what}");
        }
    }
}
