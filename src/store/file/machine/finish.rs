//! Ends of jobs: finish and delete, and the data that is kept of an ended job.

use bytes::Bytes;

use super::{HistoryChange, Machine, Write, due_at_of};
use crate::{
    job::{AttemptOutcome, Event, Millis, Outcome, Refusal, State, Topic, next},
    store::{
        Delete, Finish, Now, Reply,
        file::index::{Attempt, Size, Slot},
    },
};

/// How a kept job ends.
struct Ending {
    outcome: Outcome,
    result: Option<Bytes>,
    /// How long the job is kept; `None` means as long as its policy says.
    retention: Option<Millis>,
}

/// Returns how long the id of a deleted job stays taken; `None` if it becomes free at once.
pub fn remembered(delete: &Delete) -> Option<Millis> {
    delete.remember.filter(|time| !time.is_zero())
}

impl Machine {
    /// Finishes a job. Refuses another finish of a finished job with `Finished`, whatever its
    /// reservation, because the job's reservation is only on disk.
    pub fn finish(&mut self, now: Now, finish: &Finish, writes: &mut Vec<Write>) -> Reply<Topic> {
        let slot = self.held_slot(&finish.held)?;
        let entry = self.index.entry(slot);
        let kept = !entry.kind.policy.finished_retention.is_zero();
        if finish.result.is_some() && !kept {
            return Err(Refusal::ResultNotKept);
        }
        let state = next(Some(entry.state), Event::Finish { kept })?;
        let topic = self.index.topic(slot).clone();
        if state.is_some() {
            let result = finish.result.clone();
            let ending = Ending { outcome: Outcome::Finished, result, retention: None };
            self.keep(slot, now, (ending, None), writes);
        } else {
            self.end(slot, writes);
        }
        Ok(topic)
    }

    /// Deletes a job, or remembers its id. `last` is the last attempt of a finished job that is to
    /// be remembered; this attempt is only on disk.
    pub fn delete(
        &mut self,
        now: Now,
        (delete, last): (&Delete, Option<Attempt>),
        writes: &mut Vec<Write>,
    ) -> Reply<State> {
        let slot = self.reach(&delete.job.id, &delete.job.topics)?;
        let state = self.index.entry(slot).state;
        if delete.states.is_some_and(|states| !states.has(state)) {
            return Err(Refusal::WrongState(state));
        }
        let retention = remembered(delete);
        if next(Some(state), Event::Delete { kept: retention.is_some() })?.is_some() {
            let ending = Ending { outcome: Outcome::Deleted, result: None, retention };
            self.keep(slot, now, (ending, last), writes);
        } else {
            self.end(slot, writes);
        }
        Ok(state)
    }

    /// Makes a job finished until the end of its retention. Afterwards only the disk has its
    /// attempt. `last` is the attempt of a job that was already finished.
    fn keep(
        &mut self,
        slot: Slot,
        now: Now,
        (ending, last): (Ending, Option<Attempt>),
        writes: &mut Vec<Write>,
    ) {
        let Ending { outcome, result, retention } = ending;
        let entry = self.index.entry(slot);
        let policy = &entry.kind.policy;
        let never_popped = || Attempt::none(entry.at, policy.ttr);
        let known = entry.attempt.as_deref();
        let living = known.map(|attempt| Attempt { due_at: due_at_of(entry), ..attempt.clone() });
        let attempt = last.or(living).unwrap_or_else(never_popped);
        let expired = attempt.expired;
        let history = match outcome {
            Outcome::Deleted => HistoryChange { expired, ..HistoryChange::default() },
            _ => HistoryChange::end(expired, AttemptOutcome::Finished, now.floor),
        };
        let attempt = Attempt { died_at: now.floor, expired: false, job_expired: false, ..attempt };
        let at = now.floor.after(retention.unwrap_or(policy.finished_retention));
        let serial = entry.serial;
        let size = Size::from_bytes(result.as_ref().map_or(0, Bytes::len));
        self.index.finish(slot, at, size);
        writes.push(Write::Finish { serial, at, attempt, outcome, result, retention, history });
    }
}
