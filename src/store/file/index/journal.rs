//! The changes of a batch in memory, so that they can be rolled back when the disk refuses the
//! batch, or a part of it.
//!
//! Until the changes are kept, removed jobs keep their slots, and empty topics remain. So a
//! rollback finds everything in its place.

use std::sync::Arc;

use super::{Attempt, Index, Kind, Size, Slot, TopicSets};
use crate::job::{State, UnixMillis};

#[derive(Debug, Default)]
pub struct Journal {
    steps: Vec<Step>,
    /// Position of the last mark. An entry that changes after it is recorded again.
    marked: usize,
    /// Topics that may have no jobs left.
    emptied: Vec<u32>,
}

#[derive(Debug)]
enum Step {
    Inserted(Slot),
    Removed(Slot),
    Changed(Slot, Before),
}

/// Fields of an entry before a change.
#[derive(Debug)]
struct Before {
    at: UnixMillis,
    state: State,
    kind: Arc<Kind>,
    expires_at: Option<UnixMillis>,
    attempt: Option<Box<Attempt>>,
    size: Size,
}

impl Journal {
    pub fn inserted(&mut self, slot: Slot) {
        self.steps.push(Step::Inserted(slot));
    }

    pub fn removed(&mut self, slot: Slot) {
        self.steps.push(Step::Removed(slot));
    }

    pub fn emptied(&mut self, topic: u32) {
        self.emptied.push(topic);
    }
}

impl Index {
    /// Records the state of an entry. Call it before each change of the entry.
    pub fn note(&mut self, slot: Slot) {
        let own = self.journal.steps[self.journal.marked..].last();
        if let Some(Step::Changed(last, _) | Step::Inserted(last)) = own
            && *last == slot
        {
            return; // already noted: a transition changes an entry in several steps
        }
        let entry = &self.entries[slot];
        let before = Before {
            at: entry.at,
            state: entry.state,
            kind: Arc::clone(&entry.kind),
            expires_at: self.expiries.get(slot),
            attempt: entry.attempt.clone(),
            size: entry.size,
        };
        self.journal.steps.push(Step::Changed(slot, before));
    }

    /// Marks a position for a later [`roll_back`](Self::roll_back).
    pub fn mark(&mut self) -> usize {
        self.journal.marked = self.journal.steps.len();
        self.journal.marked
    }

    pub fn roll_back(&mut self, mark: usize) {
        self.journal.marked = mark.min(self.journal.marked);
        while self.journal.steps.len() > mark {
            match self.journal.steps.pop() {
                Some(Step::Inserted(slot)) => {
                    self.unlink(slot);
                    self.forget_id(slot);
                    self.free(slot);
                }
                Some(Step::Removed(slot)) => {
                    self.know_id(slot);
                    self.link(slot);
                }
                Some(Step::Changed(slot, before)) => {
                    self.unlink(slot);
                    let entry = &mut self.entries[slot];
                    let Before { at, state, kind, expires_at, attempt, size } = before;
                    (entry.at, entry.state, entry.kind) = (at, state, kind);
                    (entry.attempt, entry.size) = (attempt, size);
                    self.expiries.set(slot, expires_at);
                    self.link(slot);
                }
                None => break,
            }
        }
    }

    /// Keeps all changes, and frees the slots of removed jobs and empty topics.
    pub fn keep_changes(&mut self) {
        self.journal.marked = 0;
        while let Some(step) = self.journal.steps.pop() {
            if let Step::Removed(slot) = step {
                self.free(slot);
            }
        }
        while let Some(number) = self.journal.emptied.pop() {
            if self.topics.get(number as usize).is_some_and(TopicSets::is_empty) {
                let topic = self.topics.remove(number as usize);
                self.by_name.remove(&topic.name);
            }
        }
    }
}

#[cfg(test)]
mod tests;
