//! Transitions of one job by its id, requested by its consumer or an operator.

use super::{ErrorText, HistoryChange, HistoryStep, Machine, Write, due_at_of, promote::after};
use crate::{
    job::{AttemptOutcome, Change, Due, Event, Refusal, Schedule, State, Topic, UnixMillis, next},
    store::{
        Bury, JobRef, Now, Release, Reply, Target, Touch, Transitioned,
        file::index::{Size, Slot},
    },
};

impl Machine {
    pub fn unpop(&mut self, _: Now, held: JobRef, writes: &mut Vec<Write>) -> Reply<Topic> {
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
        let unpopped = attempt.number == 0 && !attempt.was_kicked;
        self.index.place(slot, State::Ready, due_at);
        if unpopped {
            self.forget_attempt(slot, writes);
        } else {
            self.write_attempt(slot, ErrorText::Keep, HistoryChange::default(), writes);
        }
        Ok(self.index.topic(slot).clone())
    }

    pub fn release(
        &mut self,
        now: Now,
        release: Release,
        writes: &mut Vec<Write>,
    ) -> Reply<Transitioned> {
        let slot = self.held(&release.held)?;
        let entry = self.index.entry(slot);
        if release.held.reservation.is_none() && entry.state != State::Reserved {
            return Err(Refusal::NotReserved);
        }
        let number = self.attempt(slot).number;
        let delay = release.delay.unwrap_or_else(|| self.backoff_delay(slot, number));
        let (due_at, due) = now.due(Schedule::In(delay))?;
        let after = after(entry, number, due);
        let was = entry.state;
        let state = next(Some(was), Event::Release(after))?.expect("a release never ends a job");
        match (was, state) {
            (State::Dead, _) => {}
            (_, State::Dead) => self.bury_at(slot, now),
            _ => {
                self.attempt_mut(slot).due_at = due_at;
                self.index.place(slot, state, due_at);
            }
        }
        let expired = self.drop_hold(slot);
        let history = HistoryChange::end(expired, AttemptOutcome::Released, now.floor);
        self.write_attempt(slot, ErrorText::Set(release.error), history, writes);
        Ok(self.moved(slot, was))
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
        let slot = self.held(&bury.held)?;
        let entry = self.index.entry(slot);
        let was = entry.state;
        next(Some(was), Event::Bury)?;
        if was != State::Dead {
            self.bury_at(slot, now);
        }
        let expired = self.drop_hold(slot);
        let history = HistoryChange::end(expired, AttemptOutcome::Buried, now.floor);
        self.write_attempt(slot, ErrorText::Set(bury.error), history, writes);
        Ok(self.moved(slot, was))
    }

    pub fn kick(&mut self, now: Now, job: Target, writes: &mut Vec<Write>) -> Reply<Topic> {
        let slot = self.reach(&job.id, &job.topics)?;
        let was = self.index.entry(slot).state;
        next(Some(was), Event::Kick)?;
        match was {
            State::Ready => {}
            State::Dead => self.revive(slot, now, writes),
            _ => self.schedule(slot, State::Ready, now.floor, writes),
        }
        Ok(self.index.topic(slot).clone())
    }

    pub fn reschedule(
        &mut self,
        now: Now,
        job: &Target,
        change: Change,
        writes: &mut Vec<Write>,
    ) -> Reply<()> {
        let slot = self.reach(&job.id, &job.topics)?;
        let (was, at) = (self.index.entry(slot).state, self.index.entry(slot).at);
        next(Some(was), Event::Reschedule(Due::Now))?;
        // Without a new time the job keeps its state and place, whatever the clock shows.
        let stays = (at, if was == State::Ready { Due::Now } else { Due::Later });
        let (due_at, due) = change.schedule.map_or(Ok(stays), |schedule| now.due(schedule))?;
        let state =
            next(Some(was), Event::Reschedule(due))?.expect("a reschedule never ends a job");
        // A consumer whose TTR expired knows neither the new time nor the new contents.
        if let Some(attempt) = &mut self.index.entry_mut(slot).attempt {
            attempt.reservation = None;
        }
        self.schedule(slot, state, due_at, writes);
        let entry = self.index.entry_mut(slot);
        let mut policy = entry.kind.policy.clone();
        policy.set(change.policy.clone());
        entry.set_policy(policy.decisive());
        let serial = entry.serial;
        if let Some(body) = &change.body {
            self.index.resize(slot, Size::of(body.len()));
        }
        writes.push(Write::Change { serial, change });
        Ok(())
    }

    /// Buries a job in any state and keeps its due time.
    fn bury_at(&mut self, slot: Slot, now: Now) {
        let due_at = due_at_of(self.index.entry(slot));
        self.attempt_mut(slot).due_at = due_at;
        self.die(slot, now.floor);
    }

    /// Returns the state of a job after a transition from `was`.
    fn moved(&self, slot: Slot, was: State) -> Transitioned {
        let entry = self.index.entry(slot);
        Transitioned {
            topic: self.index.topic(slot).clone(),
            state: entry.state,
            due_at: due_at_of(entry),
            died: was != State::Dead && entry.state == State::Dead,
        }
    }
}
