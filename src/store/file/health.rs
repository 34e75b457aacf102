//! What the store cannot do just now, for those who ask without waiting for the writer.

use std::{
    mem,
    sync::{Mutex, MutexGuard},
};

use crate::store::{Applied, StoreError};

/// What a piece of work needs of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// It only reads.
    Nothing,
    /// It frees room, or takes none: finishing, deleting, purging, giving back. Goes on when the disk
    /// is full.
    Writing,
    /// It may need a little more room than before: refused when nothing is left but what
    /// [`Writing`](Self::Writing) needs.
    Growing,
    /// It brings jobs or bodies: refused first when there is no room.
    Room,
}

/// The writer finds out, everybody may know.
#[derive(Debug, Default)]
pub struct Health(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    full: bool,
    /// Calls refused since there was no room.
    refused: u64,
    /// Why nothing can be written.
    broken: Option<StoreError>,
}

impl Health {
    /// Why such work is refused before it is begun, if it is.
    pub fn refusal(&self, need: Need) -> Option<StoreError> {
        let mut state = self.state();
        match need {
            Need::Nothing => None,
            _ if matches!(state.broken, Some(StoreError::Replaced { .. })) => state.broken.clone(),
            // A quota may be found out by a sync alone: then nothing can be written, and this is why.
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

    /// There is no room. Logged once, until there is again.
    pub fn fill(&self, cause: &str) {
        if !mem::replace(&mut self.state().full, true) {
            tracing::error!(cause, "the disk is full: puts are refused until there is room again");
        }
    }

    /// There is room again.
    pub fn empty(&self) {
        let State { refused, .. } = {
            let mut state = self.state();
            let broken = state.broken.clone();
            mem::replace(&mut *state, State { broken, ..State::default() })
        };
        tracing::info!(refused, "the disk has room again: puts are taken");
    }

    /// Nothing can be written, for this reason. Logged once, until something can.
    pub fn fail(&self, error: StoreError) {
        let mut state = self.state();
        // What was replaced stays replaced.
        if matches!(state.broken, Some(StoreError::Replaced { .. })) {
            return;
        }
        if state.broken.is_none() || matches!(error, StoreError::Replaced { .. }) {
            tracing::error!(%error, "nothing can be written: all changes are refused");
        }
        state.broken = Some(error);
    }

    /// Writing goes well again.
    pub fn mend(&self) {
        let mut state = self.state();
        // What was replaced stays replaced.
        if !matches!(state.broken, None | Some(StoreError::Replaced { .. })) {
            state.broken = None;
            tracing::info!("writing goes well again: changes are taken");
        }
    }

    /// Whether it is worth trying to write again.
    pub fn is_failing(&self) -> bool {
        self.state()
            .broken
            .as_ref()
            .is_some_and(|error| !matches!(error, StoreError::Replaced { .. }))
    }

    /// Whether the files are not those that were opened.
    pub fn is_replaced(&self) -> bool {
        matches!(self.state().broken, Some(StoreError::Replaced { .. }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no thread panics while holding this lock")
    }
}

/// A put without room.
pub fn full() -> StoreError {
    StoreError::Full { cause: "the disk is full".into() }
}

/// Nothing was changed, and nothing can be.
pub fn failing(cause: impl ToString) -> StoreError {
    StoreError::Unavailable { applied: Applied::No, cause: cause.to_string().into() }
}
