//! The earliest deadline of every set of a bucket.

use std::collections::BTreeSet;

use crate::job::{State, UnixMillis};

/// First deadlines with the topic and state of their sets. Those of finished jobs are apart: the
/// others are acted on before them.
#[derive(Debug, Default)]
pub struct Deadlines {
    living: BTreeSet<(UnixMillis, u32, State)>,
    finished: BTreeSet<(UnixMillis, u32, State)>,
}

impl Deadlines {
    /// Changes the first time of a set; that of ready jobs is not a deadline.
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

    /// Returns the earliest of all.
    pub fn first(&self) -> Option<UnixMillis> {
        let firsts = [self.living.first(), self.finished.first()];
        firsts.into_iter().flatten().map(|(at, _, _)| *at).min()
    }

    /// Returns topic and state of the set with the earliest deadline up to `until`; only sets of
    /// finished jobs, or only others.
    pub fn first_set(&self, is_finished: bool, until: UnixMillis) -> Option<(u32, State)> {
        let deadlines = if is_finished { &self.finished } else { &self.living };
        let (_, topic, state) = deadlines.first().filter(|(at, _, _)| *at <= until)?;
        Some((*topic, *state))
    }
}
