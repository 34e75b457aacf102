//! Transitions of one job by its id, requested by its consumer or an operator.

use delay_queue_core::decide;

use super::{ErrorText, HistoryChange, HistoryStep, Machine, Write, due_at_of};
use crate::{
    job::{Change, Due, Event, Refusal, State, UnixMillis, next},
    store::{
        Bury, JobRef, Now, Readied, Release, Reply, Target, Touch, Transitioned,
        file::index::{Size, Slot},
    },
};

impl Machine {
    pub fn unpop(&mut self, _: Now, held: JobRef, writes: &mut Vec<Write>) -> Reply<Readied> {
        let slot = match self.held(&held) {
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
        let slot = self.held(&touch.held)?;
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
        mut change: Change,
        writes: &mut Vec<Write>,
    ) -> Reply<()> {
        let slot = self.reach(&job.id, &job.topics)?;
        let (was, at) = (self.index.entry(slot).state, self.index.entry(slot).at);
        next(Some(was), Event::Reschedule(Due::Now))?;
        // Without a new time, the job keeps its state and place, even if the clock has moved.
        let stays = (at, if was == State::Ready { Due::Now } else { Due::Later });
        let (due_at, due) = change.schedule.map_or(Ok(stays), |schedule| now.due(schedule))?;
        let state =
            next(Some(was), Event::Reschedule(due))?.expect("a reschedule never ends a job");
        // A consumer whose TTR has expired does not know the new time or the new contents.
        if let Some(attempt) = &mut self.index.entry_mut(slot).attempt {
            attempt.reservation = None;
        }
        self.schedule(slot, state, due_at, writes);
        let (serial, mut policy) = (self.index.entry(slot).serial, self.index.policy(slot));
        policy.set(change.policy.clone());
        if change.schedule.is_some() || change.policy.expires_after.is_some() {
            policy.expire_from(due_at);
            change.policy.expires_at = policy.expires_at;
        }
        self.index.set_policy(slot, policy.decisive());
        if let Some(body) = &change.body {
            self.index.resize(slot, Size::of(body.len()));
        }
        writes.push(Write::Change { serial, change });
        Ok(())
    }

    fn readied(&self, slot: Slot) -> Readied {
        let expires_at = self.index.expires_at(slot);
        let (topic, priority) = (self.index.topic(slot).clone(), self.priority(slot));
        Readied { topic, priority, expires_at }
    }
}
