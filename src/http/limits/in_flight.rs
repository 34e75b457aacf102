//! Limit of requests handled at once. A request does not count while its body arrives or while it
//! waits for jobs: slow clients and waiting consumers do not block others.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use crate::http::problem::Problem;

/// Number of requests that are being handled.
#[derive(Clone)]
pub struct InFlight(Arc<Inner>);

struct Inner {
    limit: usize,
    now: AtomicUsize,
}

/// Permit of one request in the limit; an extension of the request.
#[derive(Clone)]
pub struct InFlightPermit(Arc<PermitInner>);

struct PermitInner {
    all: InFlight,
    counts: AtomicBool,
}

impl InFlight {
    /// Limits requests to `limit` at once (`limits.requests_in_flight`).
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Inner { limit, now: AtomicUsize::new(0) }))
    }

    /// Takes a permit for a request.
    ///
    /// # Errors
    /// 503 `overloaded`: the limit is reached.
    pub fn permit(&self) -> Result<InFlightPermit, Problem> {
        let permit = PermitInner { all: self.clone(), counts: AtomicBool::new(false) };
        let permit = InFlightPermit(Arc::new(permit));
        permit.enter().map(|()| permit)
    }
}

impl InFlightPermit {
    /// Counts the request again.
    ///
    /// # Errors
    /// 503 `overloaded`: the limit is reached.
    pub fn enter(&self) -> Result<(), Problem> {
        let Inner { limit, now } = &*self.0.all.0;
        if now.fetch_add(1, Ordering::Relaxed) >= *limit {
            now.fetch_sub(1, Ordering::Relaxed);
            return Err(Problem::overloaded_by("limits.requests_in_flight"));
        }
        self.0.counts.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Stops counting the request until [`Self::enter`].
    pub fn leave(&self) {
        self.0.leave();
    }
}

impl PermitInner {
    fn leave(&self) {
        if self.counts.swap(false, Ordering::Relaxed) {
            self.all.0.now.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for PermitInner {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permit_counts_while_it_is_taken_and_once() {
        let all = InFlight::new(1);
        let permit = all.permit().expect("there is room");
        assert!(all.permit().is_err());
        permit.leave();
        permit.leave();
        let other = all.permit().expect("there is room");
        permit.enter().expect_err("the other has it");
        drop(other);
        permit.enter().expect("there is room");
        drop(permit);
        assert_eq!(all.0.now.load(Ordering::Relaxed), 0);
    }
}
