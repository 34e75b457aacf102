//! Record of clients' calls and their answers, on one monotonic clock.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use xxhash_rust::xxh3::xxh3_64;

use crate::faults::percentiles::{Durations, Percentiles};

/// Time since the history began.
pub type Time = Duration;

/// Text that most calls of a job share, such as ids: a long history has millions of them.
pub type Text = Arc<str>;

/// Buckets of a new store on Redis.
pub const BUCKETS: u64 = 16;

#[derive(Debug, Clone)]
pub struct Call {
    pub start: Time,
    pub end: Time,
    pub ask: Ask,
    pub outcome: StoreResult,
}

#[derive(Debug, Clone)]
pub enum Ask {
    /// Bodies differ between jobs, so a body identifies the put of its job.
    Put {
        id: Option<Text>,
        body: Text,
        delay: Duration,
        max_attempts: u32,
    },
    /// Pop of one topic, or of several separated by commas, at the server of this number.
    Pop {
        topic: &'static str,
        server: usize,
    },
    Finish {
        id: Text,
        reservation: Text,
    },
    Release {
        id: Text,
        reservation: Text,
        delay: Duration,
    },
    Delete {
        id: Text,
    },
    /// Delete of a job that no consumer has; its id stays taken.
    Cancel {
        id: Text,
    },
    /// Touch for the job's TTR, or until the present end of the reservation if that is later.
    Touch {
        id: Text,
        reservation: Text,
        ttr: Duration,
    },
    Bury {
        id: Text,
        reservation: Text,
    },
    Kick {
        id: Text,
    },
    Reschedule {
        id: Text,
        delay: Duration,
    },
    Pause {
        topic: &'static str,
        server: usize,
    },
    Resume {
        topic: &'static str,
    },
}

#[derive(Debug, Clone)]
pub enum StoreResult {
    Done(Answer),
    /// Nothing was changed; the reason as a code.
    Refused(Text),
    Unknown,
    /// An answer that must not be given; whether the call was done is unknown too.
    Wrong(Text),
}

/// Answer to a call that was done. Times are the store's, in Unix milliseconds.
#[derive(Debug, Clone)]
pub enum Answer {
    Put { id: Text, due_at: i64 },
    Popped(Box<[Delivery]>),
    Finished,
    Released { due_at: i64 },
    Deleted,
    Touched { reserved_until: i64 },
    Buried,
    Kicked,
    Rescheduled { due_at: i64 },
    Paused,
    Resumed,
}

/// Job as a pop returned it.
#[derive(Debug, Clone)]
pub struct Delivery {
    pub id: Text,
    pub body: Text,
    pub attempt: u32,
    pub reservation: Text,
    pub due_at: i64,
    pub reserved_until: i64,
    pub ttr: Duration,
}

impl Ask {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Put { .. } => "put",
            Self::Pop { .. } => "pop",
            Self::Finish { .. } => "finish",
            Self::Release { .. } => "release",
            Self::Delete { .. } => "delete",
            Self::Cancel { .. } => "cancel",
            Self::Touch { .. } => "touch",
            Self::Bury { .. } => "bury",
            Self::Kick { .. } => "kick",
            Self::Reschedule { .. } => "reschedule",
            Self::Pause { .. } => "pause",
            Self::Resume { .. } => "resume",
        }
    }
}

impl Call {
    pub fn done(&self) -> bool {
        matches!(self.outcome, StoreResult::Done(_))
    }

    /// Reports whether the call failed because a server or store was unavailable.
    pub fn failed(&self) -> bool {
        match &self.outcome {
            StoreResult::Done(_) => false,
            StoreResult::Refused(code) => {
                !code.starts_with("job_") && !["reservation_lost", "wrong_state"].contains(&&**code)
            }
            StoreResult::Unknown | StoreResult::Wrong(_) => true,
        }
    }

    /// Reports whether the call was or may have been done.
    pub fn may_be_done(&self) -> bool {
        !matches!(self.outcome, StoreResult::Refused(_))
    }

    pub fn refused(&self, code: &str) -> bool {
        matches!(&self.outcome, StoreResult::Refused(because) if &**because == code)
    }

    pub fn deliveries(&self) -> &[Delivery] {
        match &self.outcome {
            StoreResult::Done(Answer::Popped(deliveries)) => deliveries,
            _ => &[],
        }
    }
}

/// Calls of all clients. Reads of recent calls do not scan old ones.
pub struct History {
    began: Instant,
    recorded: Mutex<Recorded>,
    /// Count of each failure of each kind of call.
    failures: Mutex<BTreeMap<String, usize>>,
}

#[derive(Default)]
struct Recorded {
    /// In the order of their ends.
    calls: Vec<Call>,
    /// Durations of the answered requests, by kind.
    took: BTreeMap<&'static str, Durations>,
}

/// All calls that have ended, in the order of their ends.
pub struct Calls<'a>(MutexGuard<'a, Recorded>);

impl std::ops::Deref for Calls<'_> {
    type Target = Vec<Call>;

    fn deref(&self) -> &Vec<Call> {
        &self.0.calls
    }
}

impl Calls<'_> {
    /// Returns the calls that ended at this time or later.
    fn ended_since(&self, from: Time) -> &[Call] {
        &self[self.partition_point(|call| call.end < from)..]
    }
}

impl History {
    pub fn new() -> Self {
        Self { began: Instant::now(), recorded: Mutex::default(), failures: Mutex::default() }
    }

    pub fn now(&self) -> Time {
        self.began.elapsed()
    }

    /// Records the calls of one request, which ends now. Returns whether any failed because a
    /// server or store was unavailable. `kind` is that of the request: batches and waiting pops
    /// take longer than others.
    pub fn add(
        &self,
        kind: &'static str,
        start: Time,
        asked: impl IntoIterator<Item = (Ask, StoreResult)>,
    ) -> bool {
        let mut recorded = self.recorded();
        // Read under the lock, so that calls are in the order of their ends.
        let end = self.now();
        let before = recorded.calls.len();
        let calls = asked.into_iter().map(|(ask, outcome)| Call { start, end, ask, outcome });
        recorded.calls.extend(calls);
        let failed = recorded.calls[before..].iter().any(Call::failed);
        if !failed {
            recorded.took.entry(kind).or_default().add(end - start);
        }
        failed
    }

    /// Notes that a store may have lost all jobs put before `until`, as if each may have been
    /// deleted by then.
    pub fn may_have_forgotten(&self, until: Time) {
        let forgotten = |call: &Call| match (&call.ask, &call.outcome) {
            _ if call.start > until => None,
            (Ask::Put { .. }, StoreResult::Done(Answer::Put { id, .. }))
            | (Ask::Put { id: Some(id), .. }, _) => Some(Arc::clone(id)),
            _ => None,
        };
        let calls = &mut self.recorded().calls;
        let ids: Vec<Text> = calls.iter().filter_map(forgotten).collect();
        calls.extend(ids.into_iter().map(|id| Call {
            start: Time::ZERO,
            end: until,
            ask: Ask::Delete { id },
            outcome: StoreResult::Unknown,
        }));
    }

    /// Notes that acknowledgements given in this time may not hold.
    pub fn may_have_undone(&self, from: Time, to: Time) {
        let calls = &mut self.recorded().calls;
        for call in calls.iter_mut().filter(|call| (from..=to).contains(&call.end) && call.done()) {
            call.outcome = StoreResult::Unknown;
        }
    }

    pub fn count_failure(&self, what: String) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        *failures.entry(what).or_default() += 1;
    }

    fn recorded(&self) -> MutexGuard<'_, Recorded> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn calls(&self) -> Calls<'_> {
        Calls(self.recorded())
    }

    pub fn operations(&self) -> usize {
        self.calls().len()
    }

    /// Returns the durations of requests that met no failure, by kind.
    pub fn took(&self) -> BTreeMap<&'static str, Durations> {
        self.recorded().took.clone()
    }

    /// Returns the percentiles of those durations.
    pub fn percentiles(&self) -> BTreeMap<&'static str, Percentiles> {
        self.took().into_iter().map(|(kind, took)| (kind, took.percentiles())).collect()
    }

    /// Counts calls that failed because a server or store was unavailable, and ended between these
    /// times.
    pub fn failures_between(&self, from: Time, to: Time) -> usize {
        let calls = self.calls();
        let until = calls.ended_since(from).iter().take_while(|call| call.end <= to);
        until.filter(|call| call.failed()).count()
    }

    /// Counts the failures whose description contains `words`.
    pub fn failures_with(&self, words: &str) -> usize {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.iter().filter(|(what, _)| what.contains(words)).map(|(_, count)| count).sum()
    }

    /// Returns the longest duration of calls that ended after `from`; pops do not count, as they
    /// may wait.
    pub fn longest_since(&self, from: Time) -> Time {
        let calls = self.calls();
        let ended = calls.ended_since(from).iter();
        let ended = ended.filter(|call| !matches!(call.ask, Ask::Pop { .. }));
        ended.map(|call| call.end - call.start).max().unwrap_or_default()
    }

    /// Returns the time at which the last bucket first delivered a job whose put began after
    /// `from`; none while a bucket has not.
    pub fn all_buckets_deliver(&self, from: Time) -> Option<Time> {
        let calls = self.calls();
        let calls = calls.ended_since(from);
        let put = calls.iter().filter_map(|call| match &call.ask {
            Ask::Put { body, .. } if call.start >= from && call.may_be_done() => Some(&**body),
            _ => None,
        });
        let put: HashSet<&str> = put.collect();
        let mut first: HashMap<u64, Time> = HashMap::new();
        for call in calls {
            for job in call.deliveries().iter().filter(|job| put.contains(&*job.body)) {
                first.entry(xxh3_64(job.id.as_bytes()) % BUCKETS).or_insert(call.end);
            }
        }
        let all = u64::try_from(first.len()) == Ok(BUCKETS);
        all.then(|| first.into_values().max()).flatten()
    }

    pub fn print(&self) {
        let mut done: BTreeMap<&str, usize> = BTreeMap::new();
        for call in self.calls().iter().filter(|call| call.done()) {
            *done.entry(call.ask.name()).or_default() += 1;
        }
        println!("done: {done:?}");
        for (kind, percentiles) in self.percentiles() {
            println!("{kind}: {percentiles}");
        }
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        for (what, count) in failures.iter() {
            println!("failed: {count:6} {what}");
        }
    }
}

#[test]
fn what_is_recent_is_found_from_the_back() {
    let history = History::new();
    let put = |name: &str| Ask::Put {
        id: None,
        body: name.into(),
        delay: Duration::ZERO,
        max_attempts: 1,
    };
    let delivery = |n: u64| Delivery {
        id: n.to_string().into(),
        body: "new".into(),
        attempt: 1,
        reservation: "r".into(),
        due_at: 0,
        reserved_until: 0,
        ttr: Duration::ZERO,
    };
    history.add("put", Time::ZERO, [(put("old"), StoreResult::Unknown)]);
    let from = history.now();
    // A call that began before and ended after.
    history.add("put", Time::ZERO, [(put("between"), StoreResult::Unknown)]);
    assert_eq!(history.failures_between(from, history.now()), 1);
    assert_eq!(history.failures_between(Time::ZERO, from), 1);
    assert!(history.longest_since(from) > from);
    history.add("put", history.now(), [(put("new"), StoreResult::Unknown)]);
    let all = StoreResult::Done(Answer::Popped((0..500).map(delivery).collect()));
    history.add("waiting pop", from, [(Ask::Pop { topic: "t", server: 0 }, all)]);
    let at = history.all_buckets_deliver(from).expect("500 ids are in all buckets");
    assert!(at >= from);
    assert_eq!(history.all_buckets_deliver(history.now()), None);
    assert_eq!(history.operations(), 4);
    let kinds: Vec<_> = history.percentiles().into_keys().collect();
    assert_eq!(kinds, ["waiting pop"], "those that failed are not counted");
}
