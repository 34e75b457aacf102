//! Transitions of one job by its id, requested by its consumer or an operator.

use delay_queue_core::decide;

use super::{ErrorText, HistoryChange, HistoryStep, Machine, Write, due_at_of};
use crate::{
    job::{Change, Event, Refusal, State, UnixMillis, next},
    store::{
        Bury, JobRef, Now, Readied, Release, Reply, Target, Touch, Transitioned, file::index::Slot,
    },
};

impl Machine {
    pub fn unpop(&mut self, _: Now, held: JobRef, writes: &mut Vec<Write>) -> Reply<Readied> {
        let slot = match self.held_slot(&held) {
            Err(Refusal::Finished) => return Err(Refusal::ReservationLost),
            found => found?,
        };
        let entry = self.index.entry(slot);
        next(Some(entry.state), Event::Unpop)?;
        let due_at = due_at_of(entry);
        let attempt = self.attempt_mut(slot);
        attempt.number -= 1;
        attempt.reservation = None;
        let unpopped = !attempt.has_row();
        self.index.place(slot, State::Ready, due_at);
        if unpopped {
            self.forget_attempt(slot, writes);
        } else {
            self.write_attempt(slot, ErrorText::Keep, HistoryChange::default(), writes);
        }
        Ok(self.readied(slot))
    }

    pub fn release(
        &mut self,
        now: Now,
        release: Release,
        writes: &mut Vec<Write>,
    ) -> Reply<Transitioned> {
        let id = &release.held.id;
        self.decide(id, now, writes, |job| decide::release(job, now, &release))
    }

    pub fn touch(&mut self, now: Now, touch: Touch, writes: &mut Vec<Write>) -> Reply<UnixMillis> {
        let slot = self.held_slot(&touch.held)?;
        let entry = self.index.entry(slot);
        next(Some(entry.state), Event::Touch)?;
        if entry.at <= now.floor {
            return Err(Refusal::ReservationLost);
        }
        let attempt = self.attempt_mut(slot);
        attempt.ttr = touch.ttr.unwrap_or(attempt.ttr);
        let reserved_until = now.ceil.after(attempt.ttr);
        self.index.place(slot, State::Reserved, reserved_until);
        let history = HistoryChange::step(HistoryStep::Touch);
        self.write_attempt(slot, ErrorText::Keep, history, writes);
        Ok(reserved_until)
    }

    pub fn bury(&mut self, now: Now, bury: Bury, writes: &mut Vec<Write>) -> Reply<Transitioned> {
        self.decide(&bury.held.id, now, writes, |job| decide::bury(job, now, &bury))
    }

    /// Buries a job whose record is damaged.
    pub fn bury_damaged(
        &mut self,
        now: Now,
        bury: &Bury,
        writes: &mut Vec<Write>,
    ) -> Reply<Transitioned> {
        self.decide(&bury.held.id, now, writes, |job| decide::bury_damaged(job, now, bury))
    }

    pub fn kick(&mut self, now: Now, job: Target, writes: &mut Vec<Write>) -> Reply<Readied> {
        let kicked = self.decide(&job.id, now, writes, |known| decide::kick(known, now, &job))?;
        Ok(kicked.into())
    }

    pub fn reschedule(
        &mut self,
        now: Now,
        job: &Target,
        change: &Change,
        writes: &mut Vec<Write>,
    ) -> Reply<Transitioned> {
        self.decide(&job.id, now, writes, |known| decide::change(known, now, job, change))
    }

    fn readied(&self, slot: Slot) -> Readied {
        let expires_at = self.index.expires_at(slot);
        let (topic, priority) = (self.index.topic(slot).clone(), self.priority(slot));
        Readied { topic, priority, expires_at }
    }
}
