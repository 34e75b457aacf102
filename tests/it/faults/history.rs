//! Record of the calls of all clients and their answers, with times of one monotonic clock.

mod calls;
pub mod samples;

use std::sync::MutexGuard;

use xxhash_rust::xxh3::xxh3_64;

use crate::faults::prelude::*;

pub use calls::{Answer, Ask, Call, Delivery, Fate, StoreResult};

/// Time since the history began.
pub type Time = Duration;

/// Shared text, such as an id in all calls of a job, since a long history has millions of calls.
pub type Text = Arc<str>;

/// Buckets of a new store on Redis.
pub const BUCKETS: u64 = 16;

/// Calls of all clients. Reads of recent calls do not scan old ones.
pub struct History {
    began: Instant,
    recorded: Mutex<Recorded>,
    /// Number of failures, by kind of call and reason.
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

    /// Records the calls of one request, which ends now. Returns whether a call failed because a
    /// server or store was unavailable. `kind` is the kind of the request, since batches and
    /// waiting pops take longer than others.
    pub fn add(
        &self,
        kind: &'static str,
        start: Time,
        asked: impl IntoIterator<Item = (Ask, StoreResult)>,
    ) -> bool {
        let mut recorded = self.recorded();
        // Reads the time under the lock, so that calls are in the order of their ends.
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

    /// Records that a store may have lost all jobs put before `until`, and all settings: adds a
    /// delete with an unknown outcome for each job.
    pub fn may_have_forgotten(&self, until: Time) {
        let forgotten = |call: &Call| match (&call.ask, &call.outcome) {
            _ if call.start > until => None,
            (Ask::Put { .. }, StoreResult::Done(Answer::Put { id, .. }))
            | (Ask::Put { id: Some(id), .. }, _) => Some(Arc::clone(id)),
            _ => None,
        };
        let calls = &mut self.recorded().calls;
        let is_setting = |call: &&mut Call| matches!(call.ask, Ask::SetDeadTo { .. });
        for call in calls.iter_mut().filter(|call| call.start <= until).filter(is_setting) {
            call.outcome = StoreResult::Unknown;
        }
        let ids: Vec<Text> = calls.iter().filter_map(forgotten).collect();
        calls.extend(ids.into_iter().map(|id| Call {
            start: Time::ZERO,
            end: until,
            ask: Ask::Delete { id },
            outcome: StoreResult::Unknown,
        }));
    }

    /// Records that a store may have lost changes acknowledged in this period.
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

    /// Returns the durations of requests without a failure, by kind.
    pub fn took(&self) -> BTreeMap<&'static str, Durations> {
        self.recorded().took.clone()
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

    /// Returns the longest duration of calls that ended after `from`. Omits pops, which may wait,
    /// and changes of topic settings, which call the store twice, one call after the other.
    pub fn longest_since(&self, from: Time) -> Time {
        let calls = self.calls();
        let ended = calls.ended_since(from).iter();
        let calls_once = |call: &&Call| {
            use Ask::{Pause, Pop, Resume, SetDeadTo};
            !matches!(call.ask, Pop { .. } | Pause { .. } | Resume { .. } | SetDeadTo { .. })
        };
        ended.filter(calls_once).map(|call| call.end - call.start).max().unwrap_or_default()
    }

    /// Returns the time at which every bucket had delivered a job whose put began after `from`;
    /// `None` if a bucket has not.
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
        for (kind, took) in self.took() {
            println!("{kind}: {}", took.percentiles());
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
    let put = |name: &str| samples::put(None, name, Duration::ZERO);
    history.add("put", Time::ZERO, [(put("old"), StoreResult::Unknown)]);
    let from = history.now();
    // This call began before `from` and ended after it.
    history.add("put", Time::ZERO, [(put("between"), StoreResult::Unknown)]);
    assert_eq!(history.failures_between(from, history.now()), 1);
    assert_eq!(history.failures_between(Time::ZERO, from), 1);
    assert!(history.longest_since(from) > from);
    history.add("put", history.now(), [(put("new"), StoreResult::Unknown)]);
    let delivery =
        |n: u64| Delivery { body: "new".into(), ..samples::delivery(&n.to_string(), 1, 0, 0) };
    history.add("waiting pop", from, [samples::pop((0..500).map(delivery))]);
    let at = history.all_buckets_deliver(from).expect("500 ids are in all buckets");
    assert!(at >= from);
    assert_eq!(history.all_buckets_deliver(history.now()), None);
    assert_eq!(history.calls().len(), 4);
    let kinds: Vec<_> = history.took().into_keys().collect();
    assert_eq!(kinds, ["waiting pop"], "the durations of failed calls are counted");
}
