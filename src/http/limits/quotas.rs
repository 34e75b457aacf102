//! Limits per caller: waiting pops, and puts per second.

use std::{
    net::IpAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::time::Instant;

use super::limit_by::{KeyPermit, KeyedLimit, network};
use crate::{
    access::TokenName,
    bounded_map::BoundedMap,
    config::Limits,
    http::{
        client::identity::Identity,
        problem::{Code, Problem},
    },
};

/// The caller that a limit applies to: its access token, or without one its address. All Unix
/// sockets together are one caller.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Caller {
    Token(TokenName),
    Address(IpAddr),
    Local,
}

impl Caller {
    /// Returns the token of a caller, else its address.
    pub fn new(identity: &Identity) -> Self {
        match (identity.name(), identity.address()) {
            (Some(name), _) => Self::Token(name.clone()),
            (None, Some(address)) => Self::Address(network(address.ip())),
            (None, None) => Self::Local,
        }
    }
}

/// Maximum number of tests of pushes that one caller has under way. The server has more in all, so
/// that tests of slow endpoints hold up no other caller.
const MAX_TESTS: usize = 4;

/// Waiting pops, tests and recent puts of all callers.
#[derive(Clone)]
pub struct Quotas {
    waiting: KeyedLimit<Caller>,
    tests: KeyedLimit<Caller>,
    puts: Option<Arc<Rate>>,
}

impl Quotas {
    pub fn new(limits: &Limits) -> Self {
        let puts = limits.puts_per_second.map(|rate| Arc::new(Rate::new(rate)));
        let waiting = KeyedLimit::new(limits.waiting_pops);
        Self { waiting, tests: KeyedLimit::new(MAX_TESTS), puts }
    }

    /// Takes a permit for a pop, or a GET of a job, that waits.
    ///
    /// # Errors
    /// 429 `too_many_requests`: the caller has `limits.waiting_pops` already.
    pub fn wait(&self, caller: Caller) -> Result<KeyPermit<Caller>, Problem> {
        let detail = "too many requests of this caller are waiting (limits.waiting_pops)";
        self.waiting.take(caller).ok_or_else(|| too_many(detail))
    }

    /// Takes a permit for a test of a push.
    ///
    /// # Errors
    /// 429 `too_many_requests`: the caller has [`MAX_TESTS`] already.
    pub fn test(&self, caller: Caller) -> Result<KeyPermit<Caller>, Problem> {
        let detail = format!("{MAX_TESTS} test requests of this caller are under way");
        self.tests.take(caller).ok_or_else(|| too_many(&detail))
    }

    /// Counts puts of `jobs` jobs.
    ///
    /// # Errors
    /// 429 `too_many_requests`: the caller has exceeded `limits.puts_per_second`.
    pub fn put(&self, caller: Caller, jobs: usize) -> Result<(), Problem> {
        let detail = "this caller puts too many jobs a second (limits.puts_per_second)";
        let has_puts = |rate: &Arc<Rate>| rate.take(&caller, jobs, Instant::now());
        if self.puts.as_ref().is_none_or(has_puts) { Ok(()) } else { Err(too_many(detail)) }
    }
}

fn too_many(detail: &str) -> Problem {
    Problem::new(Code::TooManyRequests, detail)
}

/// Maximum number of callers with their own rate. When there are more, a sweep forgets callers that
/// may use their whole rate again; further callers share one rate.
const MAX_CALLERS: usize = 10_000;
/// Minimum time between two sweeps.
const SWEEP_INTERVAL: Duration = Duration::from_millis(100);

/// Rate limit of puts per caller: a token bucket that holds the puts of one second. A batch of any
/// size passes while at least one put is left. If the batch is larger than the number of puts left,
/// later puts get 429 until enough time for the whole batch has passed.
struct Rate {
    per_second: f64,
    left: Mutex<PutsLeft>,
}

/// Puts left to each caller, and when this number was computed.
struct PutsLeft {
    by_caller: BoundedMap<Caller, (f64, Instant)>,
    /// The puts left to all callers without their own rate together.
    shared: Option<(f64, Instant)>,
}

impl Rate {
    fn new(per_second: u32) -> Self {
        let by_caller = BoundedMap::new(MAX_CALLERS, SWEEP_INTERVAL);
        let left = PutsLeft { by_caller, shared: None };
        Self { per_second: per_second.into(), left: Mutex::new(left) }
    }

    /// Returns whether the caller may put now; if so, subtracts `jobs` from the puts left to it.
    fn take(&self, caller: &Caller, jobs: usize, now: Instant) -> bool {
        let mut all = self.left.lock().expect("no thread panics while holding this lock");
        let PutsLeft { by_caller, shared } = &mut *all;
        let left = |(left, at): (f64, Instant)| {
            let more = now.saturating_duration_since(at).as_secs_f64() * self.per_second;
            (left + more).min(self.per_second)
        };
        let full = (self.per_second, now);
        let is_needed = |known: &(f64, Instant)| left(*known) < self.per_second;
        let own = by_caller.entry(caller, now.into_std(), is_needed, || full);
        let entry = own.unwrap_or_else(|| shared.get_or_insert(full));
        let before = left(*entry);
        let is_allowed = before >= 1.0;
        let jobs = f64::from(u32::try_from(jobs).unwrap_or(u32::MAX));
        *entry = (if is_allowed { before - jobs } else { before }, now);
        is_allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_beyond_the_cap_share_one_rate() {
        let (rate, begin) = (Rate::new(10), Instant::now());
        let caller = |n: u32| Caller::Address(n.to_be_bytes().into());
        let most = u32::try_from(MAX_CALLERS).expect("a small number");
        for n in 0..most {
            assert!(rate.take(&caller(n), 10, begin));
        }
        let beyond = (most..most + 100).filter(|&n| rate.take(&caller(n), 1, begin)).count();
        assert_eq!(beyond, 10, "all together");
        assert!(!rate.take(&caller(0), 1, begin), "it still has its own rate");
        assert_eq!(rate.left.lock().expect("the lock").by_caller.len(), MAX_CALLERS);
        let later = begin + Duration::from_secs(1);
        assert!(rate.take(&caller(most), 10, later));
        assert_eq!(rate.left.lock().expect("the lock").by_caller.len(), 1);
    }

    #[test]
    fn a_large_batch_uses_the_rate_of_later_seconds() {
        let (rate, begin) = (Rate::new(10), Instant::now());
        let at = |millis| begin + Duration::from_millis(millis);
        let put = |jobs, millis| rate.take(&Caller::Local, jobs, at(millis));
        assert!((0..10).all(|_| put(1, 0)), "a second's worth at once");
        assert!(!put(1, 0));
        assert!(!put(1, 99));
        assert!(put(1, 100));
        assert!(rate.take(&Caller::Address([127, 0, 0, 1].into()), 1, at(100)), "another caller");
        assert!(put(1_000, 10_000));
        assert!(!put(1, 100_000 + 9_000));
        assert!(put(1, 100_000 + 9_200));
    }
}
