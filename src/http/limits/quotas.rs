//! Limits per caller: waiting pops, and puts per second.

use std::{
    convert::Infallible,
    net::IpAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{extract::FromRequestParts, http::request::Parts};
use tokio::time::Instant;

use super::{
    keyed::Keyed,
    limit_by::{LimitBy, Taken, network},
};
use crate::{
    access::TokenName,
    config::Limits,
    http::{
        client::identity::Identity,
        problem::{Code, Problem},
    },
};

/// Unit of counting: an access token, else an address, or all Unix sockets together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Caller {
    Token(TokenName),
    Address(IpAddr),
    Local,
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get().map_or(Self::Local, Self::of))
    }
}

impl Caller {
    /// Returns the token of a caller, else its address.
    pub fn of(identity: &Identity) -> Self {
        match (identity.name(), identity.address()) {
            (Some(name), _) => Self::Token(name.clone()),
            (None, Some(address)) => Self::Address(network(address.ip())),
            (None, None) => Self::Local,
        }
    }
}

/// Waiting pops and recent puts of all callers.
#[derive(Clone)]
pub struct Quotas {
    waiting: LimitBy<Caller>,
    puts: Option<Arc<Rate>>,
}

impl Quotas {
    pub fn new(limits: &Limits) -> Self {
        let puts = limits.puts_per_second.map(|rate| Arc::new(Rate::new(rate)));
        Self { waiting: LimitBy::new(limits.waiting_pops), puts }
    }

    /// Takes a permit for a pop or a get that waits.
    ///
    /// # Errors
    /// 429 `too_many_requests`: the caller has `limits.waiting_pops` already.
    pub fn wait(&self, caller: Caller) -> Result<Taken<Caller>, Problem> {
        let detail = "this caller has too many requests that wait (limits.waiting_pops)";
        self.waiting.take(caller).ok_or_else(|| too_many(detail))
    }

    /// Counts puts of `jobs` jobs.
    ///
    /// # Errors
    /// 429 `too_many_requests`: the caller has put `limits.puts_per_second` in the last second.
    pub fn put(&self, caller: Caller, jobs: usize) -> Result<(), Problem> {
        let detail = "this caller puts too many jobs a second (limits.puts_per_second)";
        let fits = self.puts.as_ref().is_none_or(|rate| rate.take(&caller, jobs, Instant::now()));
        if fits { Ok(()) } else { Err(too_many(detail)) }
    }
}

fn too_many(detail: &str) -> Problem {
    Problem::new(Code::TooManyRequests, detail)
}

/// Maximum number of callers with their own rate. When there are more, callers without a put in the
/// last second are forgotten; callers that still do not fit share one rate.
const CALLERS: usize = 10_000;
/// Shortest time between two searches for such callers.
const SWEEP: Duration = Duration::from_millis(100);

/// Rate limit of puts per caller. A second's worth may come at once. A batch of any size passes
/// while at least one put is left; the next put then gets 429 until the excess is made up for.
struct Rate {
    a_second: f64,
    left: Mutex<Left>,
}

/// Puts left to each caller, and the time at which that was computed.
struct Left {
    of: Keyed<Caller, (f64, Instant)>,
    of_others: Option<(f64, Instant)>,
}

impl Rate {
    fn new(a_second: u32) -> Self {
        let left = Left { of: Keyed::new(CALLERS, SWEEP), of_others: None };
        Self { a_second: a_second.into(), left: Mutex::new(left) }
    }

    fn take(&self, caller: &Caller, jobs: usize, now: Instant) -> bool {
        let mut all = self.left.lock().expect("no thread panics while holding this lock");
        let Left { of, of_others } = &mut *all;
        let left = |(left, at): (f64, Instant)| {
            let more = now.saturating_duration_since(at).as_secs_f64() * self.a_second;
            (left + more).min(self.a_second)
        };
        let all_left = (self.a_second, now);
        let is_needed = |seen: &(f64, Instant)| left(*seen) < self.a_second;
        let own = of.entry(caller, now.into_std(), is_needed, || all_left);
        let mine = own.unwrap_or_else(|| of_others.get_or_insert(all_left));
        let had = left(*mine);
        let fits = had >= 1.0;
        let rest =
            if fits { had - f64::from(u32::try_from(jobs).unwrap_or(u32::MAX)) } else { had };
        *mine = (rest, now);
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_beyond_the_cap_share_one_rate() {
        let (rate, begin) = (Rate::new(10), Instant::now());
        let caller = |n: u32| Caller::Address(n.to_be_bytes().into());
        let most = u32::try_from(CALLERS).expect("a small number");
        for n in 0..most {
            assert!(rate.take(&caller(n), 10, begin));
        }
        let beyond = (most..most + 100).filter(|&n| rate.take(&caller(n), 1, begin)).count();
        assert_eq!(beyond, 10, "of all together");
        assert!(!rate.take(&caller(0), 1, begin), "it has its own still");
        assert_eq!(rate.left.lock().expect("the lock").of.len(), CALLERS);
        let later = begin + Duration::from_secs(1);
        assert!(rate.take(&caller(most), 10, later));
        assert_eq!(rate.left.lock().expect("the lock").of.len(), 1);
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
