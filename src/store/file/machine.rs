//! Carries out every transition on the jobs of one bucket, in memory, by the state table.
//!
//! The machine has no clock and no I/O. Callers pass the time in and get back [`Write`]s, one or
//! two rows per transition. A promotion writes nothing as long as the job is kept: it follows from
//! the deadline on disk, and happens again after a restart.

mod batch;
mod clock;
mod edit;
mod finish;
mod history;
mod moving;
mod promote;
mod restore;
mod topics;
mod verbs;
mod write;

use std::{mem, sync::Arc};

use delay_queue_core::decide::{self, Place};

use crate::{
    job::{
        Consumer, Event, JobId, Millis, NewJob, Refusal, Reservation, State, Topic, Topics,
        UnixMillis, next,
    },
    store::{JobRef, Now, Placed, Popped, Reply},
};

use super::index::{Arrival, Attempt, Entry, Index, Size, Slot};

pub use delay_queue_core::decide::{JOB_EXPIRED, TTR_ENDED};

pub use self::{
    history::{HistoryChange, HistoryStep},
    write::{ErrorText, Fate, Write},
};

/// A job that a pop reserved, without the fields that only the disk has.
#[derive(Debug)]
pub struct Taken {
    pub id: JobId,
    pub serial: u64,
    pub attempt: u32,
    pub due_at: UnixMillis,
    pub ttr: Millis,
    pub reservation: Reservation,
    pub reserved_until: UnixMillis,
}

/// Hold that a pop gives to a consumer.
pub struct Hold {
    pub reservation: Reservation,
    /// TTR instead of the job's own.
    pub ttr: Option<Millis>,
    pub consumer: Option<Consumer>,
}

/// The jobs of one bucket.
#[derive(Debug, Default)]
pub struct Machine {
    index: Index,
}

impl Machine {
    /// Reserves memory for the ids of `jobs` jobs, so that loading does not hash them again.
    pub fn make_room(&mut self, jobs: usize) {
        self.index.make_room(jobs);
    }

    /// Loads a job from disk. An overdue job is ready at once, not only after the next promotion.
    /// Due times are compared with the believed time, which differs from the clock after a jump.
    pub fn load(&mut self, now: Now, arrival: Arrival) {
        let due = arrival.state == State::Delayed && arrival.at <= now.believed;
        let state = if due { State::Ready } else { arrival.state };
        // The clock may have been set back since the pop, but no reservation may outlast its TTR.
        let at = match (&arrival.attempt, state) {
            (Some(attempt), State::Reserved) => arrival.at.min(now.ceil.after(attempt.ttr)),
            _ => arrival.at,
        };
        self.index.add(Arrival { state, at, ..arrival });
    }

    /// Loads a damaged job unless another job has its id; returns whether it was loaded.
    pub fn load_damaged(&mut self, now: Now, arrival: Arrival) -> bool {
        let is_free = self.index.find(&arrival.id).is_none();
        if is_free {
            self.load(now, arrival);
        }
        is_free
    }

    /// Builds the sorted sets. Must be called once, after all jobs were loaded.
    pub fn finish_loading(&mut self) {
        self.index.link_all();
    }

    /// Puts a job. If it keeps a finished job, the due time of that job is only on disk.
    pub fn put(
        &mut self,
        now: Now,
        serial: u64,
        mut job: NewJob,
        writes: &mut Vec<Write>,
    ) -> Reply<Placed> {
        let slot = self.index.find(&job.id);
        let living = slot.map(|slot| self.known(slot, &job.id));
        let edit = decide::put(living.as_ref(), now, &job)?;
        let place = edit.map(|edit| edit.place);
        let Some(Place::New { state, at: due_at }) = place else {
            let living = living.expect("without an edit, there is a job");
            return Ok(Placed::kept(&living, &job));
        };
        let placed = Placed::new(living.as_ref(), state, due_at);
        if let Some(slot) = slot {
            self.end(slot, writes);
        }
        job.policy.expire_from(due_at);
        self.index.insert(Arrival {
            id: job.id.clone(),
            topic: job.topic.clone(),
            serial,
            state,
            at: due_at,
            policy: Arc::new(job.policy.clone().decisive()),
            attempt: None,
            size: Size::from_bytes(job.body.len()),
        });
        writes.push(Write::Insert { serial, job, created_at: now.floor, due_at });
        Ok(placed)
    }

    /// Reserves the first ready job of a topic. Expired jobs before it die, which `popped` counts.
    pub fn pop(
        &mut self,
        now: Now,
        topic: &Topic,
        hold: Hold,
        popped: &mut Popped,
        writes: &mut Vec<Write>,
    ) -> Option<Taken> {
        for _ in 0..=MAX_EXPIRED_PER_POP {
            let slot = self.index.first(topic, State::Ready)?;
            if !self.index.has_expired_by(slot, now.believed) {
                return Some(self.reserve(slot, now, hold, writes));
            }
            popped.count_ended(&self.lapse(slot, now, writes).job);
        }
        None
    }

    pub fn ready(&self, topic: &Topic) -> u64 {
        self.index.count(topic, State::Ready)
    }

    fn reserve(&mut self, slot: Slot, now: Now, hold: Hold, writes: &mut Vec<Write>) -> Taken {
        let Hold { reservation, ttr, consumer } = hold;
        let id = self.index.id(slot);
        let entry = self.index.entry_mut(slot);
        let state = next(Some(entry.state), Event::Pop).ok().flatten().expect("it was ready");
        let ttr = ttr.unwrap_or(entry.kind.policy.ttr);
        let reserved_until = now.ceil.after(ttr);
        let earlier = entry.attempt.take();
        let attempt = Attempt {
            number: earlier.as_ref().map_or(0, |a| a.number) + 1,
            is_snoozed: earlier.as_ref().is_some_and(|a| a.is_snoozed),
            reservation: Some(reservation),
            was_kicked: earlier.as_ref().is_some_and(|a| a.number == 0 || a.was_kicked),
            ..Attempt::none(entry.at, ttr)
        };
        let taken = Taken {
            id,
            serial: entry.serial,
            attempt: attempt.number,
            due_at: entry.at,
            ttr,
            reservation,
            reserved_until,
        };
        entry.attempt = Some(Box::new(attempt));
        self.index.place(slot, state, reserved_until);
        let timed_out = earlier.as_ref().is_some_and(|a| a.timed_out);
        let history = HistoryChange {
            timed_out,
            step: consumer.map_or(HistoryStep::Stay, HistoryStep::Hold),
        };
        let error = match earlier.is_some_and(|a| a.job_expired) {
            true => ErrorText::Set(Some(JOB_EXPIRED.to_owned())),
            false => error_text(timed_out),
        };
        self.write_attempt(slot, error, history, writes);
        taken
    }

    pub fn get(&self, id: &JobId) -> Option<(&Entry, &Topic)> {
        let slot = self.index.find(id)?;
        Some((self.index.entry(slot), self.index.topic(slot)))
    }

    /// Finds a job of the caller's topics; other jobs do not exist for this caller.
    fn reach(&self, id: &JobId, topics: &Topics) -> Reply<Slot> {
        let slot = self.index.find(id).filter(|&slot| topics.allows(self.index.topic(slot)));
        slot.ok_or(Refusal::NotFound)
    }

    /// Finds a job on which this reservation may act. The reservation of a finished job is only on
    /// disk.
    fn held_slot(&self, held: &JobRef) -> Reply<Slot> {
        let slot = self.reach(&held.id, &held.topics)?;
        if self.index.entry(slot).state == State::Finished {
            return Err(Refusal::Finished);
        }
        let attempt = self.index.entry(slot).attempt.as_deref();
        let last = attempt.and_then(|a| a.reservation);
        let was_popped = attempt.is_some_and(Attempt::was_popped);
        Reservation::check(held.reservation, last, was_popped)?;
        Ok(slot)
    }

    fn attempt(&self, slot: Slot) -> &Attempt {
        self.index.entry(slot).attempt.as_deref().expect(POPPED)
    }

    fn attempt_mut(&mut self, slot: Slot) -> &mut Attempt {
        self.index.entry_mut(slot).attempt.as_deref_mut().expect(POPPED)
    }

    /// Ends the hold of an attempt; returns whether its TTR had ended.
    fn drop_hold(&mut self, slot: Slot) -> bool {
        let attempt = self.attempt_mut(slot);
        attempt.reservation = None;
        attempt.job_expired = false;
        mem::take(&mut attempt.timed_out)
    }

    /// Makes a job dead until the end of its retention.
    fn die(&mut self, slot: Slot, died_at: UnixMillis) {
        self.attempt_mut(slot).died_at = died_at;
        let kept = self.index.entry(slot).kind.policy.dead_retention;
        self.index.place(slot, State::Dead, died_at.after(kept));
    }

    /// Changes the due time of a job that is not reserved.
    fn schedule(&mut self, slot: Slot, state: State, due_at: UnixMillis, writes: &mut Vec<Write>) {
        self.index.place(slot, state, due_at);
        let entry = self.index.entry_mut(slot);
        match &mut entry.attempt {
            Some(attempt) => {
                (attempt.due_at, attempt.was_kicked) = (due_at, true);
                let history =
                    HistoryChange { timed_out: attempt.timed_out, ..HistoryChange::default() };
                self.write_attempt(slot, ErrorText::Keep, history, writes);
            }
            None => writes.push(Write::Due { serial: entry.serial, due_at }),
        }
    }

    /// Forgets the only attempt of a job. Afterwards only its record has its due time.
    fn forget_attempt(&mut self, slot: Slot, writes: &mut Vec<Write>) {
        let entry = self.index.entry_mut(slot);
        entry.attempt = None;
        writes.push(Write::NoAttempt { serial: entry.serial });
    }

    fn write_attempt(
        &self,
        slot: Slot,
        error: ErrorText,
        history: HistoryChange,
        writes: &mut Vec<Write>,
    ) {
        let entry = self.index.entry(slot);
        let attempt = self.attempt(slot);
        let error = match error {
            ErrorText::Keep if attempt.job_expired => ErrorText::Set(Some(JOB_EXPIRED.to_owned())),
            ErrorText::Keep => error_text(attempt.timed_out),
            given => given,
        };
        writes.push(Write::Attempt {
            serial: entry.serial,
            state: entry.state,
            at: entry.at,
            attempt: attempt.clone(),
            error,
            history,
        });
    }

    /// Deletes a job from memory and disk.
    fn end(&mut self, slot: Slot, writes: &mut Vec<Write>) {
        writes.push(Write::Delete { serial: self.index.entry(slot).serial });
        self.index.remove(slot);
    }
}

/// Returns the change of the error text for a transition that has no error of its own. Before the
/// transition, the deadline on disk shows that the TTR has ended. The transition overwrites this
/// deadline, so the text must be written.
fn error_text(timed_out: bool) -> ErrorText {
    if timed_out { ErrorText::Set(Some(TTR_ENDED.to_owned())) } else { ErrorText::Keep }
}

/// Maximum number of expired jobs that one pop makes dead. The pop then returns no job, and its
/// caller pops again.
const MAX_EXPIRED_PER_POP: usize = 100;

const POPPED: &str = "a held job has been popped";

/// Returns the due time of a job. For a finished job it returns the deadline, since only the disk
/// has the due time.
pub fn due_at_of(entry: &Entry) -> UnixMillis {
    match (&entry.attempt, entry.state) {
        (Some(attempt), State::Reserved | State::Dead) => attempt.due_at,
        _ => entry.at,
    }
}
