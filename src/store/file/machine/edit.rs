//! Shows jobs to the decisions of `delay-queue-core`, and applies their edits.

use delay_queue_core::decide::{Attempts, Edit, Known, Place};

use super::{ErrorText, HistoryChange, Machine, Write, due_at_of};
use crate::{
    job::{Change, JobId, Refusal, State},
    store::{
        JobRef, Now, Reply, Transitioned,
        file::index::{Size, Slot},
    },
};

impl Machine {
    /// Decides on the attempt of a job, and applies the edit.
    pub(super) fn end_attempt(
        &mut self,
        held: &JobRef,
        now: Now,
        writes: &mut Vec<Write>,
        decide: impl FnOnce(&Known<'_>) -> Reply<Edit>,
    ) -> Reply<Transitioned> {
        let slot = self.index.find(&held.id).ok_or(Refusal::NotFound)?;
        let job = self.known(slot, &held.id);
        let edit = decide(&job)?;
        let answer = edit.answer(&job);
        self.apply(slot, edit, now, writes);
        Ok(answer)
    }

    /// Returns what decisions need to know of a job.
    fn known<'a>(&'a self, slot: Slot, id: &'a JobId) -> Known<'a> {
        let entry = self.index.entry(slot);
        let attempts = entry.attempt.as_deref().map(|attempt| Attempts {
            number: attempt.number,
            is_snoozed: attempt.is_snoozed,
            reservation: attempt.reservation,
            died_at: attempt.died_at,
        });
        Known {
            id,
            topic: self.index.topic(slot),
            state: entry.state,
            due_at: due_at_of(entry),
            policy: &entry.kind.policy,
            expires_at: self.index.expires_at(slot),
            attempts,
            may_move: true,
            is_damaged: false,
        }
    }

    /// Ends the attempt of a job.
    fn apply(&mut self, slot: Slot, edit: Edit, now: Now, writes: &mut Vec<Write>) {
        let entry = self.index.entry(slot);
        let (was, due_at) = (entry.state, due_at_of(entry));
        match edit.place {
            Place::Next { state, due_at } => {
                self.attempt_mut(slot).due_at = due_at;
                self.index.place(slot, state, due_at);
            }
            Place::Dead { .. } if was == State::Dead => {}
            Place::Dead { died_at } | Place::Moved { at: died_at, .. } => {
                self.attempt_mut(slot).due_at = due_at;
                self.die(slot, died_at);
            }
        }
        let expired = self.drop_hold(slot);
        let attempt = self.attempt_mut(slot);
        (attempt.number, attempt.is_snoozed) = (edit.number, edit.is_snoozed);
        let history = HistoryChange::end(expired, edit.outcome, now.floor);
        self.write_attempt(slot, ErrorText::Set(edit.error), history, writes);
        if let Some(cause) = edit.cause {
            // The history keeps the consumer's error.
            let error = ErrorText::Set(Some(cause.to_owned()));
            self.write_attempt(slot, error, HistoryChange::default(), writes);
        }
        if let Some(body) = edit.body {
            self.index.resize(slot, Size::of(body.len()));
            let change = Change { body: Some(body), ..Change::default() };
            writes.push(Write::Change { serial: self.index.entry(slot).serial, change });
        }
        if let Place::Moved { to, at } = edit.place {
            self.move_to(slot, to, at, writes);
        }
    }
}
