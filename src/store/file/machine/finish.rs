//! Ends of jobs: finish and delete, and the data that is kept of an ended job.

use bytes::Bytes;
use delay_queue_core::decide;

use super::{HistoryChange, Machine, Write, due_at_of};
use crate::{
    job::{AttemptOutcome, Millis, Outcome, Refusal, State, Topic, UnixMillis},
    store::{
        Delete, Finish, Now, Reply,
        file::{
            index::{Attempt, Size, Slot},
            records::StoredEnding,
        },
    },
};

/// How a kept job ends.
pub struct Finished {
    pub outcome: Outcome,
    pub result: Option<Bytes>,
    pub until: UnixMillis,
    /// How its attempt ends, if one does.
    pub ended: Option<AttemptOutcome>,
    /// The ending that it had already.
    pub last: Option<StoredEnding>,
}

impl Machine {
    /// Finishes a job. `ending` is that of a finished job, if it was read from disk; without it,
    /// another finish is refused with `Finished`.
    pub fn finish(
        &mut self,
        now: Now,
        finish: &Finish,
        ending: Option<StoredEnding>,
        writes: &mut Vec<Write>,
    ) -> Reply<Topic> {
        let id = &finish.held.id;
        let done =
            self.decide_ended(id, ending, now, writes, |job| decide::finish(job, now, finish))?;
        Ok(done.topic)
    }

    /// Deletes a job, or remembers its id; returns its state before. `ending` is that of a finished
    /// job that is to be remembered.
    pub fn delete(
        &mut self,
        now: Now,
        (delete, ending): (&Delete, Option<StoredEnding>),
        writes: &mut Vec<Write>,
    ) -> Reply<State> {
        let id = &delete.job.id;
        let slot = self.index.find(id).ok_or(Refusal::NotFound)?;
        let state = self.index.entry(slot).state;
        self.decide_ended(id, ending, now, writes, |job| decide::delete(job, now, delete))?;
        Ok(state)
    }

    /// Makes a job finished until the end of its retention. Afterwards only the disk has its
    /// attempt.
    pub(super) fn keep(
        &mut self,
        slot: Slot,
        now: Now,
        finished: Finished,
        retention: Option<Millis>,
        writes: &mut Vec<Write>,
    ) {
        let Finished { outcome, result, until, ended, last } = finished;
        let entry = self.index.entry(slot);
        let never_popped = || Attempt::none(entry.at, entry.kind.policy.ttr);
        let known = entry.attempt.as_deref();
        let living = known.map(|attempt| Attempt { due_at: due_at_of(entry), ..attempt.clone() });
        let last = last.map(|ending| ending.attempt);
        let attempt = last.or(living).unwrap_or_else(never_popped);
        let timed_out = attempt.timed_out;
        let history = match ended {
            None => HistoryChange { timed_out, ..HistoryChange::default() },
            Some(outcome) => HistoryChange::end(timed_out, outcome, now.floor),
        };
        let attempt =
            Attempt { died_at: now.floor, timed_out: false, job_expired: false, ..attempt };
        let serial = entry.serial;
        let size = Size::from_bytes(result.as_ref().map_or(0, Bytes::len));
        self.index.finish(slot, until, size);
        let at = until;
        writes.push(Write::Finish { serial, at, attempt, outcome, result, retention, history });
    }
}
