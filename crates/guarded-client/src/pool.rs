//! Kept connections.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use http::{HeaderMap, HeaderName};
use tokio::time::{Instant, sleep};

use crate::{connection::Connection, url::Target};

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
/// Longest time that a connection waits for its next request. Many servers close theirs after 5
/// seconds.
const MAX_IDLE: Duration = Duration::from_secs(4);
/// Time by which a connection is dropped before the endpoint would close it.
const MARGIN: Duration = Duration::from_secs(1);
/// Age after which a connection takes no more requests, so that the name of a busy target is looked
/// up again.
const MAX_AGE: Duration = Duration::from_secs(30);
/// Time between two removals of connections that waited for too long.
const TICK: Duration = Duration::from_secs(1);

/// Connections that wait for a request, by target.
#[derive(Default)]
pub(crate) struct Pool(Mutex<State>);

#[derive(Default)]
struct State {
    /// The one that was used last is at the end.
    idle: HashMap<Target, Vec<Idle>>,
    /// Whether a task removes connections that waited for too long.
    is_swept: bool,
}

struct Idle {
    connection: Connection,
    until: Instant,
}

impl Pool {
    /// Takes the connection to a target that was used last.
    pub(crate) fn take(&self, target: &Target) -> Option<Connection> {
        let mut state = self.lock();
        let idle = state.idle.get_mut(target)?;
        let now = Instant::now();
        idle.retain(|idle| idle.is_usable(now));
        idle.pop().map(|idle| idle.connection)
    }

    /// Keeps a connection after an answer with these headers, unless the endpoint would close it
    /// soon or it is old.
    pub(crate) fn put(
        self: &Arc<Self>,
        target: &Target,
        connection: Connection,
        headers: &HeaderMap,
    ) {
        let now = Instant::now();
        let until = (now + idle_time(headers)).min(connection.opened + MAX_AGE);
        if until <= now {
            return;
        }
        let mut state = self.lock();
        state.idle.entry(target.clone()).or_default().push(Idle { connection, until });
        if !std::mem::replace(&mut state.is_swept, true) {
            tokio::spawn(sweep(Arc::downgrade(self)));
        }
    }

    /// Removes connections that are closed or waited for too long. Returns whether any is left.
    fn remove_unusable(&self) -> bool {
        let (mut state, now) = (self.lock(), Instant::now());
        state.idle.retain(|_, idle| {
            idle.retain(|idle| idle.is_usable(now));
            !idle.is_empty()
        });
        state.is_swept = !state.idle.is_empty();
        state.is_swept
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Idle {
    fn is_usable(&self, now: Instant) -> bool {
        now < self.until && self.connection.is_ready()
    }
}

async fn sweep(pool: Weak<Pool>) {
    loop {
        sleep(TICK).await;
        if !pool.upgrade().is_some_and(|pool| pool.remove_unusable()) {
            return;
        }
    }
}

/// Returns how long a connection may wait after an answer with these headers.
fn idle_time(headers: &HeaderMap) -> Duration {
    let values = headers.get_all(KEEP_ALIVE).iter().filter_map(|value| value.to_str().ok());
    let parameters =
        values.flat_map(|value| value.split(',')).filter_map(|one| one.split_once('='));
    let timeouts = parameters
        .filter(|(name, _)| name.trim().eq_ignore_ascii_case("timeout"))
        .filter_map(|(_, seconds)| seconds.trim().trim_matches('"').parse().ok());
    timeouts
        .map(|seconds| Duration::from_secs(seconds).saturating_sub(MARGIN))
        .fold(MAX_IDLE, Duration::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_waits_less_than_the_endpoint_allows() {
        let idle = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(KEEP_ALIVE, text.parse().expect("a value"));
            idle_time(&headers).as_secs()
        };
        assert_eq!(idle_time(&HeaderMap::new()), MAX_IDLE);
        assert_eq!(
            (idle("timeout=5"), idle("timeout=3, max=100"), idle("max=9, Timeout = \"2\"")),
            (4, 2, 1)
        );
        assert_eq!((idle("timeout=1"), idle("timeout=0"), idle("timeout=60")), (0, 0, 4));
        assert_eq!((idle("timeout=soon"), idle("300"), idle("timeout=-1")), (4, 4, 4));
    }
}
