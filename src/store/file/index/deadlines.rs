//! The earliest deadline of every set of a bucket.

use std::collections::BTreeSet;

use crate::job::{State, UnixMillis};

/// First deadlines, each with topic and state of its set. Finished jobs have separate deadlines,
/// because all other deadlines are promoted first.
#[derive(Debug, Default)]
pub struct Deadlines {
    living: BTreeSet<(UnixMillis, u32, State)>,
    finished: BTreeSet<(UnixMillis, u32, State)>,
}

impl Deadlines {
    /// Changes the first time of a set. Ignores sets of ready jobs, whose times are not deadlines.
    pub fn change(
        &mut self,
        (topic, state): (u32, State),
        before: Option<UnixMillis>,
        after: Option<UnixMillis>,
    ) {
        if before == after || state == State::Ready {
            return;
        }
        let is_finished = state == State::Finished;
        let deadlines = if is_finished { &mut self.finished } else { &mut self.living };
        if let Some(at) = before {
            deadlines.remove(&(at, topic, state));
        }
        deadlines.extend(after.map(|at| (at, topic, state)));
    }

    /// Returns the earliest of all deadlines.
    pub fn first(&self) -> Option<UnixMillis> {
        let firsts = [self.living.first(), self.finished.first()];
        firsts.into_iter().flatten().map(|(at, _, _)| *at).min()
    }

    /// Returns topic and state of the set with the earliest deadline up to `until`: of finished
    /// jobs only, or of all other jobs only.
    pub fn first_set(&self, is_finished: bool, until: UnixMillis) -> Option<(u32, State)> {
        let deadlines = if is_finished { &self.finished } else { &self.living };
        let (_, topic, state) = deadlines.first().filter(|(at, _, _)| *at <= until)?;
        Some((*topic, *state))
    }
}
