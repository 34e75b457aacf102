//! One line in the log when the server becomes unavailable, and one when it is back; one for each
//! refusal that concerns the worker itself.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;
use tracing::{error, info, warn};

use crate::Error;

#[derive(Debug, Default)]
pub(super) struct Outage(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    since: Option<Instant>,
    /// Refusals since the last pop that succeeded.
    refusals: Vec<String>,
}

impl Outage {
    pub(super) fn failed(&self, error: &Error) {
        let mut state = self.state();
        let text = error.to_string();
        if error.is_passing() {
            if state.since.is_none() {
                state.since = Some(Instant::now());
                warn!("the server is unavailable, and the worker tries again: {text}");
            }
        } else if !state.refusals.contains(&text) {
            error!("the server refuses the worker, which tries again: {text}");
            state.refusals.push(text);
        }
    }

    pub(super) fn succeeded(&self) {
        if let Some(since) = self.state().since.take() {
            info!("the server is available again, after {:.1?}", since.elapsed());
        }
    }

    pub(super) fn popped(&self) {
        self.succeeded();
        self.state().refusals.clear();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
