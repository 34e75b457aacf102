//! The earliest deadline of every set of a bucket.

use std::collections::BTreeSet;

use crate::job::{State, UnixMillis};

/// Classes of deadlines, in the order in which a promote acts on them. No caller waits for the end
/// of a retention, so the retentions of dead and of finished jobs come last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    Living,
    Dead,
    Finished,
}

impl Class {
    const COUNT: usize = 3;

    /// Returns the class of a set; `None` for ready jobs, whose times are not deadlines.
    fn from_state(state: State) -> Option<Self> {
        match state {
            State::Delayed | State::Reserved => Some(Self::Living),
            State::Ready => None,
            State::Dead => Some(Self::Dead),
            State::Finished => Some(Self::Finished),
        }
    }
}

/// First deadlines, each with topic and state of its set, by class.
#[derive(Debug, Default)]
pub struct Deadlines([BTreeSet<(UnixMillis, u32, State)>; Class::COUNT]);

impl Deadlines {
    /// Changes the first time of a set.
    pub fn change(
        &mut self,
        (topic, state): (u32, State),
        before: Option<UnixMillis>,
        after: Option<UnixMillis>,
    ) {
        let Some(class) = Class::from_state(state).filter(|_| before != after) else { return };
        let deadlines = &mut self.0[class as usize];
        if let Some(at) = before {
            deadlines.remove(&(at, topic, state));
        }
        deadlines.extend(after.map(|at| (at, topic, state)));
    }

    /// Returns the earliest of all deadlines.
    pub fn first(&self) -> Option<UnixMillis> {
        self.0.iter().filter_map(BTreeSet::first).map(|(at, _, _)| *at).min()
    }

    /// Returns the earliest deadline of a delayed or reserved job.
    pub fn first_living(&self) -> Option<UnixMillis> {
        self.0[Class::Living as usize].first().map(|(at, _, _)| *at)
    }

    /// Returns topic and state of the set with the earliest deadline of a class up to `until`.
    pub fn first_set(&self, class: Class, until: UnixMillis) -> Option<(u32, State)> {
        let (_, topic, state) = self.0[class as usize].first().filter(|(at, _, _)| *at <= until)?;
        Some((*topic, *state))
    }
}
