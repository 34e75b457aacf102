//! Concurrency limit of requests. A request does not count while its body arrives or while it waits
//! for jobs, so that slow clients and waiting consumers do not block other callers.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use crate::http::problem::Problem;

/// The concurrency limit, and the number of requests that count in it.
#[derive(Clone)]
pub struct InFlight(Arc<Inner>);

struct Inner {
    limit: usize,
    current: AtomicUsize,
}

/// Permit of one request; `None` if the request does not count.
#[derive(Clone, Default)]
pub struct InFlightPermit(Option<Arc<PermitInner>>);

struct PermitInner {
    all: InFlight,
    counts: AtomicBool,
}

impl InFlight {
    /// Limits requests to `limit` at once (`limits.requests_in_flight`).
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Inner { limit, current: AtomicUsize::new(0) }))
    }

    /// Takes a permit for a request.
    ///
    /// # Errors
    /// 503 `overloaded`: the limit is reached.
    pub fn permit(&self) -> Result<InFlightPermit, Problem> {
        let permit = PermitInner { all: self.clone(), counts: AtomicBool::new(false) };
        permit.enter().map(|()| InFlightPermit(Some(Arc::new(permit))))
    }
}

impl InFlightPermit {
    /// Counts the request again.
    ///
    /// # Errors
    /// 503 `overloaded`: the limit is reached.
    pub fn enter(&self) -> Result<(), Problem> {
        self.0.as_ref().map_or(Ok(()), |permit| permit.enter())
    }

    /// Stops counting the request until [`Self::enter`].
    pub fn leave(&self) {
        if let Some(permit) = &self.0 {
            permit.leave();
        }
    }
}

impl PermitInner {
    fn enter(&self) -> Result<(), Problem> {
        let Inner { limit, current } = &*self.all.0;
        if current.fetch_add(1, Ordering::Relaxed) >= *limit {
            current.fetch_sub(1, Ordering::Relaxed);
            return Err(Problem::overloaded_by("limits.requests_in_flight"));
        }
        self.counts.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn leave(&self) {
        if self.counts.swap(false, Ordering::Relaxed) {
            self.all.0.current.fetch_sub(1, Ordering::Relaxed);
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
    fn a_permit_counts_once_while_it_is_held() {
        let all = InFlight::new(1);
        let permit = all.permit().expect("there is room");
        assert!(all.permit().is_err());
        permit.leave();
        permit.leave();
        let other = all.permit().expect("there is room");
        permit.enter().expect_err("the other permit counts");
        drop(other);
        permit.enter().expect("there is room");
        drop(permit);
        assert_eq!(all.0.current.load(Ordering::Relaxed), 0);
    }
}
