//! Failures of the disk that refuse work. Callers see them without waiting for the writer.

use std::{
    mem,
    sync::{Mutex, MutexGuard},
};

use crate::store::{Applied, StoreError};

/// Need of a piece of work for room on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// The work only reads.
    Nothing,
    /// The work frees room or needs none, such as finish, delete, purge, unpop. Allowed while the
    /// disk is full.
    Writing,
    /// The work may need a little more room. Refused when only the reserve for
    /// [`Writing`](Self::Writing) is left.
    Growing,
    /// The work adds jobs or bodies. Refused as soon as the disk is full.
    Room,
}

/// Health of the disk: the writer sets it, any thread may read it.
#[derive(Debug, Default)]
pub struct Health(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    full: bool,
    /// Calls refused since the disk became full.
    refused: u64,
    /// Reason why nothing can be written.
    broken: Option<StoreError>,
}

impl Health {
    /// Returns the error with which work of this need is refused at once; `None` if it is allowed.
    pub fn refusal(&self, need: Need) -> Option<StoreError> {
        let mut state = self.state();
        match need {
            Need::Nothing => None,
            _ if matches!(state.broken, Some(StoreError::Replaced { .. })) => state.broken.clone(),
            // Comes before `broken`: a used-up quota may show only in a failed sync, which sets
            // both fields.
            Need::Room if state.full => {
                state.refused += 1;
                Some(full())
            }
            _ => state.broken.clone(),
        }
    }

    pub fn is_full(&self) -> bool {
        self.state().full
    }

    /// Records that the disk is full. Logs it once, until there is room again.
    pub fn fill(&self, cause: &str) {
        if !mem::replace(&mut self.state().full, true) {
            tracing::error!(cause, "the disk is full: puts are refused until there is room again");
        }
    }

    /// Records that the disk has room again.
    pub fn empty(&self) {
        let State { refused, .. } = {
            let mut state = self.state();
            let broken = state.broken.clone();
            mem::replace(&mut *state, State { broken, ..State::default() })
        };
        tracing::info!(refused, "the disk has room again: puts are accepted");
    }

    /// Records that nothing can be written, because of `error`. Logs it once, until writing works.
    pub fn fail(&self, error: StoreError) {
        let mut state = self.state();
        // Replaced files stay replaced until a restart.
        if matches!(state.broken, Some(StoreError::Replaced { .. })) {
            return;
        }
        if state.broken.is_none() || matches!(error, StoreError::Replaced { .. }) {
            tracing::error!(%error, "nothing can be written: all changes are refused");
        }
        state.broken = Some(error);
    }

    pub fn mend(&self) {
        let mut state = self.state();
        // Replaced files stay replaced until a restart.
        if !matches!(state.broken, None | Some(StoreError::Replaced { .. })) {
            state.broken = None;
            tracing::info!("writes succeed again: changes are accepted");
        }
    }

    /// Returns whether writing fails but may work later. False if the files were replaced.
    pub fn is_failing(&self) -> bool {
        self.state()
            .broken
            .as_ref()
            .is_some_and(|error| !matches!(error, StoreError::Replaced { .. }))
    }

    pub fn is_replaced(&self) -> bool {
        matches!(self.state().broken, Some(StoreError::Replaced { .. }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no thread panics while holding this lock")
    }
}

pub fn full() -> StoreError {
    StoreError::Full { cause: "the disk is full".into() }
}

/// Returns the error of work that changed nothing, because nothing can be written.
pub fn failing(cause: impl ToString) -> StoreError {
    StoreError::Unavailable { applied: Applied::No, cause: cause.to_string().into() }
}
