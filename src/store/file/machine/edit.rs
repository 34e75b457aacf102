//! Shows jobs to the decisions of `delay-queue-core`, and applies their edits.

use delay_queue_core::decide::{AttemptEdit, Attempts, Edit, Ended, JOB_EXPIRED, Known, Place};

use super::{ErrorText, HistoryChange, Machine, Write, due_at_of, finish::Finished};
use crate::{
    job::{Change, JobId, Refusal, State, Topics, UnixMillis},
    store::{
        Now, ReadyJobs, Reply, Target, Transitioned,
        file::{
            index::{Attempt, Size, Slot},
            records::StoredEnding,
        },
    },
};

impl Machine {
    /// Decides on a job that a caller names, and applies the edit, if any.
    pub(super) fn decide(
        &mut self,
        id: &JobId,
        now: Now,
        writes: &mut Vec<Write>,
        decide: impl FnOnce(&Known<'_>) -> Reply<Option<Edit>>,
    ) -> Reply<Transitioned> {
        self.decide_ended(id, None, now, writes, decide)
    }

    /// Decides like [`decide`](Self::decide) on a job that may be finished. `ending` is that of a
    /// finished job, if the caller has read it from disk.
    pub(super) fn decide_ended(
        &mut self,
        id: &JobId,
        ending: Option<StoredEnding>,
        now: Now,
        writes: &mut Vec<Write>,
        decide: impl FnOnce(&Known<'_>) -> Reply<Option<Edit>>,
    ) -> Reply<Transitioned> {
        let slot = self.index.find(id).ok_or(Refusal::NotFound)?;
        let mut job = self.known(slot, id);
        if let Some(StoredEnding { attempt, outcome, .. }) = &ending {
            job.attempts = Some(attempts_of(attempt));
            (job.due_at, job.outcome) = (attempt.due_at, Some(*outcome));
        }
        let edit = decide(&job)?;
        let Some(edit) = edit else { return Ok(job.unchanged().answer(&job)) };
        let answer = edit.answer(&job);
        self.apply(slot, edit, ending, now, writes);
        Ok(answer)
    }

    /// Kicks a job if its state allows it.
    pub(in crate::store::file) fn kick_at(
        &mut self,
        slot: Slot,
        now: Now,
        writes: &mut Vec<Write>,
    ) -> ReadyJobs {
        let target = Target { id: self.index.id(slot), topics: Topics::ALL };
        let kicked = self.kick(now, target, writes);
        kicked.map_or(ReadyJobs::NONE, |job| ReadyJobs::one(job.priority))
    }

    /// Returns what decisions need to know of a job.
    pub(super) fn known<'a>(&'a self, slot: Slot, id: &'a JobId) -> Known<'a> {
        let entry = self.index.entry(slot);
        Known {
            id,
            topic: self.index.topic(slot),
            state: entry.state,
            is_astray: false,
            due_at: due_at_of(entry),
            held_until: entry.at,
            policy: &entry.kind.policy,
            expires_at: self.index.expires_at(slot),
            attempts: entry.attempt.as_deref().map(attempts_of),
            outcome: None,
            may_move: true,
            has_room: true,
            has_record: true,
            is_damaged: false,
        }
    }

    pub(super) fn apply(
        &mut self,
        slot: Slot,
        edit: Edit,
        ending: Option<StoredEnding>,
        now: Now,
        writes: &mut Vec<Write>,
    ) {
        let Edit { place, attempts, policy, body } = edit;
        match (attempts, place) {
            (attempts, Place::Finished { outcome, result, until }) => {
                let ended = match attempts {
                    AttemptEdit::Ended(ended) => Some(ended.outcome),
                    _ => None,
                };
                let finished = Finished { outcome, result, until, ended, last: ending };
                return self.keep(slot, now, finished, policy.finished_retention, writes);
            }
            (_, Place::Gone) => return self.end(slot, writes),
            (_, Place::New { .. }) => unreachable!("a put inserts its job itself"),
            (AttemptEdit::Kept, Place::Next { state, due_at }) => {
                self.schedule(slot, state, due_at, writes);
            }
            (AttemptEdit::Unheld, Place::Next { state, due_at }) => {
                if let Some(attempt) = &mut self.index.entry_mut(slot).attempt {
                    attempt.reservation = None;
                }
                self.schedule(slot, state, due_at, writes);
            }
            (AttemptEdit::Forgotten, Place::Next { state, due_at }) => {
                self.forget_attempts(slot, (state, due_at), writes);
            }
            (AttemptEdit::Lapsed { error, ttr_ended_at }, place) => {
                self.note_lapse(slot, error, ttr_ended_at.is_some());
                self.follow_lapse(slot, place, writes);
            }
            (AttemptEdit::Ended(ended), place) => self.end_attempt(slot, ended, place, now, writes),
            (
                AttemptEdit::Kept | AttemptEdit::Unheld | AttemptEdit::Forgotten,
                Place::Dead { .. } | Place::Moved { .. },
            ) => {
                unreachable!("a job dies at the end of an attempt")
            }
        }
        let change = Change { schedule: None, body, policy };
        if change != Change::default() {
            self.change(slot, change, writes);
        }
    }

    /// Changes the contents of a job.
    fn change(&mut self, slot: Slot, change: Change, writes: &mut Vec<Write>) {
        let (serial, mut policy) = (self.index.entry(slot).serial, self.index.policy(slot));
        policy.set(change.policy.clone());
        self.index.set_policy(slot, policy.decisive());
        if let Some(body) = &change.body {
            self.index.resize(slot, Size::from_bytes(body.len()));
        }
        writes.push(Write::Change { serial, change });
    }

    fn end_attempt(
        &mut self,
        slot: Slot,
        ended: Ended,
        place: Place,
        now: Now,
        writes: &mut Vec<Write>,
    ) {
        let entry = self.index.entry(slot);
        let (was, due_at) = (entry.state, due_at_of(entry));
        match place {
            Place::Next { state, due_at } => {
                self.attempt_mut(slot).due_at = due_at;
                self.index.place(slot, state, due_at);
            }
            Place::Dead { .. } if was == State::Dead => {}
            Place::Dead { died_at } | Place::Moved { at: died_at, .. } => {
                self.attempt_mut(slot).due_at = due_at;
                self.die(slot, died_at);
            }
            Place::New { .. } | Place::Finished { .. } | Place::Gone => {
                unreachable!("such a job is never popped again")
            }
        }
        let timed_out = self.drop_hold(slot);
        let attempt = self.attempt_mut(slot);
        (attempt.number, attempt.is_snoozed) = (ended.number, ended.is_snoozed);
        let history = HistoryChange::end(timed_out, ended.outcome, now.floor);
        self.write_attempt(slot, ErrorText::Set(ended.error), history, writes);
        if let Some(cause) = ended.cause {
            // The history keeps the consumer's error.
            let error = ErrorText::Set(Some(cause.to_owned()));
            self.write_attempt(slot, error, HistoryChange::default(), writes);
        }
        if let Place::Moved { to, at } = place {
            self.move_to(slot, to, at, writes);
        }
    }

    /// Notes that the TTR of a job has ended, or that it has expired.
    fn note_lapse(&mut self, slot: Slot, error: &str, has_ttr_ended: bool) {
        let entry = self.index.entry_mut(slot);
        let (due_at, ttr) = (due_at_of(entry), entry.kind.policy.ttr);
        let attempt = entry.attempt.get_or_insert_with(|| Box::new(Attempt::none(due_at, ttr)));
        attempt.due_at = due_at;
        attempt.timed_out |= has_ttr_ended;
        attempt.job_expired = error == JOB_EXPIRED;
    }

    fn follow_lapse(&mut self, slot: Slot, place: Place, writes: &mut Vec<Write>) {
        match place {
            Place::Next { state, due_at } => self.index.place(slot, state, due_at),
            Place::Dead { died_at } => self.die(slot, died_at),
            Place::Moved { to, at } => {
                self.die(slot, at);
                self.move_to(slot, to, at, writes);
            }
            Place::New { .. } | Place::Finished { .. } | Place::Gone => {
                unreachable!("no deadline finishes a job")
            }
        }
    }

    /// Forgets the attempts of a dead job, which is then in another state. Its history stays.
    fn forget_attempts(
        &mut self,
        slot: Slot,
        (state, due_at): (State, UnixMillis),
        writes: &mut Vec<Write>,
    ) {
        let timed_out = self.drop_hold(slot);
        let has_moved = self.index.entry(slot).kind.policy.dead_from.is_some();
        let attempt = self.attempt_mut(slot);
        // A job that has moved needs a row: without one, loading would take it for expired.
        if !attempt.has_row() && !has_moved {
            self.index.entry_mut(slot).attempt = None;
            return self.schedule(slot, state, due_at, writes);
        }
        (attempt.number, attempt.is_snoozed) = (0, false);
        (attempt.due_at, attempt.died_at) = (due_at, UnixMillis::new(0));
        attempt.was_kicked = true;
        self.index.place(slot, state, due_at);
        let history = HistoryChange { timed_out, ..HistoryChange::default() };
        self.write_attempt(slot, ErrorText::Set(None), history, writes);
    }
}

fn attempts_of(attempt: &Attempt) -> Attempts {
    Attempts {
        number: attempt.number,
        is_snoozed: attempt.is_snoozed,
        reservation: attempt.reservation,
        died_at: attempt.died_at,
    }
}
