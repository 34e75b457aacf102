//! Transitions of one job by its id, requested by its consumer or an operator.

use super::{
    ErrorText, HistoryChange, HistoryStep, JOB_EXPIRED, Machine, Write, due_at_of,
    promote::is_spent,
};
use crate::{
    job::{
        AttemptOutcome, Change, Due, Event, Millis, Refusal, Schedule, State, Topic, UnixMillis,
        next,
    },
    store::{
        Bury, JobRef, Now, Readied, ReadyJobs, Release, Reply, Target, Touch, Transitioned,
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
        let slot = self.held(&release.held)?;
        let entry = self.index.entry(slot);
        if release.held.reservation.is_none() && entry.state != State::Reserved {
            return Err(Refusal::NotReserved);
        }
        // An attempt that does not count waits as long as after the previous attempt.
        let number = self.attempt(slot).number.saturating_sub(u32::from(release.is_uncounted));
        let backoff = || match number {
            0 => Millis::ZERO,
            number => self.backoff_delay(slot, number),
        };
        let (due_at, due) = now.due(Schedule::In(release.delay.unwrap_or_else(backoff)))?;
        let counted = if release.is_uncounted { 0 } else { number };
        let after = self.after(slot, counted, (due_at, due));
        let is_spent = is_spent(entry, counted);
        let expires_before = self.index.has_expired_by(slot, due_at);
        let (was, serial) = (entry.state, entry.serial);
        let state = next(Some(was), Event::Release(after))?.expect("a release never ends a job");
        match was {
            State::Dead => {}
            _ if after.dies() => self.bury_at(slot, now),
            _ => {
                self.attempt_mut(slot).due_at = due_at;
                self.index.place(slot, state, due_at);
            }
        }
        let expired = self.drop_hold(slot);
        let mut outcome = AttemptOutcome::Released;
        if release.is_uncounted {
            outcome = AttemptOutcome::ReleasedUncounted;
            let attempt = self.attempt_mut(slot);
            (attempt.number, attempt.is_snoozed) = (number, attempt.is_snoozed || number == 0);
        }
        let history = HistoryChange::end(expired, outcome, now.floor);
        self.write_attempt(slot, ErrorText::Set(release.error), history, writes);
        if was != State::Dead && expires_before && !is_spent {
            // The history keeps the consumer's error.
            let error = ErrorText::Set(Some(JOB_EXPIRED.to_owned()));
            self.write_attempt(slot, error, HistoryChange::default(), writes);
        }
        if let Some(body) = release.body {
            self.index.resize(slot, Size::of(body.len()));
            let change = Change { body: Some(body), ..Change::default() };
            writes.push(Write::Change { serial, change });
        }
        let dead_from = self.move_if_died(slot, was, now, writes);
        debug_assert_eq!(self.index.entry(slot).state, state);
        Ok(self.moved(slot, was, dead_from))
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
        let (slot, was) = self.bury_in_place(now, bury, writes)?;
        let dead_from = self.move_if_died(slot, was, now, writes);
        Ok(self.moved(slot, was, dead_from))
    }

    /// Buries a job that does not move to another topic; returns its slot and the state before.
    pub fn bury_in_place(
        &mut self,
        now: Now,
        bury: Bury,
        writes: &mut Vec<Write>,
    ) -> Reply<(Slot, State)> {
        let slot = self.held(&bury.held)?;
        let was = self.index.entry(slot).state;
        next(Some(was), Event::Bury { moves: false })?;
        if was != State::Dead {
            self.bury_at(slot, now);
        }
        let expired = self.drop_hold(slot);
        let history = HistoryChange::end(expired, AttemptOutcome::Buried, now.floor);
        self.write_attempt(slot, ErrorText::Set(bury.error), history, writes);
        Ok((slot, was))
    }

    /// Moves a job that died by a transition from `was`; returns the topic that it left.
    fn move_if_died(
        &mut self,
        slot: Slot,
        was: State,
        now: Now,
        writes: &mut Vec<Write>,
    ) -> Option<Topic> {
        let died = was != State::Dead && self.index.entry(slot).state == State::Dead;
        died.then(|| self.move_dead(slot, now, writes)).flatten()
    }

    pub fn kick(&mut self, now: Now, job: Target, writes: &mut Vec<Write>) -> Reply<Readied> {
        let slot = self.reach(&job.id, &job.topics)?;
        next(Some(self.index.entry(slot).state), Event::Kick)?;
        self.kick_one(now, slot, writes);
        Ok(self.readied(slot))
    }

    /// Kicks a job that is neither reserved nor finished.
    pub fn kick_one(&mut self, now: Now, slot: Slot, writes: &mut Vec<Write>) -> ReadyJobs {
        match self.index.entry(slot).state {
            State::Ready => {}
            State::Dead => self.revive(slot, now, writes),
            _ => self.schedule(slot, State::Ready, now.floor, writes),
        }
        ReadyJobs::one(self.priority(slot))
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

    /// Buries a job in any state and keeps its due time.
    fn bury_at(&mut self, slot: Slot, now: Now) {
        let due_at = due_at_of(self.index.entry(slot));
        self.attempt_mut(slot).due_at = due_at;
        self.die(slot, now.floor);
    }

    fn readied(&self, slot: Slot) -> Readied {
        let expires_at = self.index.expires_at(slot);
        let (topic, priority) = (self.index.topic(slot).clone(), self.priority(slot));
        Readied { topic, priority, expires_at }
    }

    /// Returns the state of a job after a transition from `was`.
    fn moved(&self, slot: Slot, was: State, dead_from: Option<Topic>) -> Transitioned {
        let entry = self.index.entry(slot);
        Transitioned {
            topic: self.index.topic(slot).clone(),
            state: entry.state,
            due_at: due_at_of(entry),
            died: was != State::Dead && entry.state == State::Dead,
            priority: entry.kind.policy.priority,
            dead_from,
        }
    }
}
