//! A simple model of a delay queue: a map of jobs, and the effect of each call. Tests compare
//! stores with it. It shares only the types of calls and answers with them.

use std::cmp::Reverse;

use delay_queue::job;
use delay_queue::{
    job::{Consumer, Job},
    store::Reply,
};

use crate::store::prelude::*;

/// Number of the pop that returned the reservation of a call.
type Hold = Option<u64>;

#[derive(Debug, Clone)]
pub struct Model {
    pub now: UnixMillis,
    jobs: BTreeMap<JobId, Living>,
    reservations: u64,
}

#[derive(Debug, Clone)]
struct Living {
    job: Job,
    reservation: Hold,
}

impl Living {
    /// Returns the time that determines the order among jobs of the same state.
    fn at(&self) -> UnixMillis {
        match self.job.state {
            State::Delayed | State::Ready => self.job.due_at,
            State::Reserved => self.job.reserved_until.expect("reserved until some time"),
            State::Dead => {
                self.job.died_at.expect("died at some time").after(self.job.policy.dead_retention)
            }
            State::Finished => {
                let ending = self.job.ending.as_ref().expect("finished at some time");
                ending.at.after(self.job.policy.finished_retention)
            }
        }
    }

    /// Returns the job in a form that can be compared with a store's. Every reservation has the
    /// same value, since each store chooses its own.
    fn shown(&self) -> Job {
        let reservation = self.reservation.map(|_| Reservation::NONE);
        Job { reservation, ..self.job.clone() }
    }

    fn has_expired_by(&self, time: UnixMillis) -> bool {
        self.job.policy.expires_at.is_some_and(|at| at <= time)
    }

    fn expire_from(&mut self, due_at: UnixMillis) {
        let policy = &mut self.job.policy;
        policy.expires_at = policy.expires_after.map(|after| due_at.after(after));
    }

    /// Ends a delayed or ready job at its expiry. Returns whether it moves.
    fn expire(&mut self, now: UnixMillis) -> bool {
        let at = self.job.policy.expires_at.expect("the job has an expiry");
        self.job.error = Some("expired".to_owned());
        self.become_dead(at, now).is_some()
    }

    fn is_spent(&self) -> bool {
        self.job.policy.max_attempts > 0 && self.job.attempt >= self.job.policy.max_attempts
    }

    /// Returns the wait after attempt number `attempt`; zero for attempt 0.
    fn backoff(&self, attempt: u32) -> Millis {
        match &self.job.policy.backoff {
            _ if attempt == 0 => Millis::ZERO,
            None => Millis::ZERO,
            Some(Backoff::List(values)) => {
                let nth = values.get(attempt as usize - 1);
                *nth.or(values.last()).expect("a list has values")
            }
            Some(Backoff::Exponential { initial, factor, max, .. }) => {
                let grown = (1..attempt).fold(initial.get() as f64, |wait, _| wait * factor);
                Millis::new((grown as u64).min(max.get()))
            }
        }
    }

    /// Sets state and due time of a job whose reservation has ended.
    fn settle(&mut self, state: State, due_at: UnixMillis) {
        self.job.state = state;
        self.job.due_at = due_at;
        self.job.ttr = self.job.policy.ttr;
        self.job.reserved_until = None;
        self.job.died_at = None;
        (self.job.consumer, self.job.started_at) = (None, None);
    }

    /// Records how the last attempt ended. Replaces the entry of its ended TTR, since an attempt
    /// has only one entry.
    fn end_attempt(&mut self, outcome: AttemptOutcome, at: UnixMillis, error: Option<&str>) {
        let attempt = self.job.attempt;
        let (started_at, consumer) = if self.job.state == State::Reserved {
            (self.job.running_since().expect("the attempt is running"), self.job.consumer.clone())
        } else {
            let has_expired = |last: &mut PastAttempt| {
                (last.attempt, last.outcome) == (attempt, AttemptOutcome::TimedOut)
            };
            let Some(last) = self.job.history.pop_if(has_expired) else { return };
            (last.started_at, last.consumer)
        };
        let (ended_at, error) = (at.max(started_at), error.map(str::to_owned));
        let is_uncounted = |past: &PastAttempt| past.outcome == AttemptOutcome::ReleasedUncounted;
        if outcome == AttemptOutcome::ReleasedUncounted {
            self.job.history.pop_if(|last| is_uncounted(last));
        }
        self.job.history.push(PastAttempt {
            attempt,
            started_at,
            ended_at,
            outcome,
            error,
            consumer,
        });
        if self.job.history.len() > 10 {
            self.job.history.remove(0);
        }
    }

    /// Ends a job. If it moves, returns the topic that it leaves: it is ready in another one now.
    fn become_dead(&mut self, at: UnixMillis, now: UnixMillis) -> Option<Topic> {
        let due_at = self.job.due_at;
        match self.job.policy.dead_to.clone().filter(|target| *target != self.job.topic) {
            None => {
                self.settle(State::Dead, due_at);
                self.job.died_at = Some(at);
                None
            }
            Some(target) => {
                let left = std::mem::replace(&mut self.job.topic, target);
                self.settle(State::Ready, now);
                (self.job.attempt, self.job.is_snoozed, self.reservation) = (0, false, None);
                let policy = &mut self.job.policy;
                (policy.dead_to, policy.dead_from) = (None, Some(left.clone()));
                (policy.expires_after, policy.expires_at) = (None, None);
                Some(left)
            }
        }
    }

    /// Makes the job a finished one, without its body.
    fn end(&mut self, at: UnixMillis, outcome: Outcome, result: Option<Bytes>) {
        let due_at = self.job.due_at;
        self.settle(State::Finished, due_at);
        self.job.body = Bytes::new();
        self.job.is_snoozed = false;
        self.job.error = None;
        self.job.ending = Some(Ending { at, outcome, result });
    }

    fn is_finished(&self) -> bool {
        self.job.state == State::Finished
    }

    fn moved(&self, died: bool, dead_from: Option<Topic>) -> Transitioned {
        let Job { topic, state, due_at, .. } = &self.job;
        let Policy { priority, expires_at, .. } = self.job.policy;
        let (topic, state, due_at) = (topic.clone(), *state, *due_at);
        Transitioned { topic, state, due_at, died, priority, expires_at, dead_from }
    }

    fn readied(&self) -> Readied {
        let Policy { priority, expires_at, .. } = self.job.policy;
        Readied { topic: self.job.topic.clone(), priority, expires_at }
    }
}

/// Judges a job by what a get shows of it.
pub fn matches(job: &Job, filter: &JobFilter) -> bool {
    let JobFilter { error_contains, id_contains, died, due } = filter;
    let is_within = |period: &Period, at: UnixMillis| {
        period.from.is_none_or(|from| from <= at) && period.before.is_none_or(|end| at < end)
    };
    let has = |part: &Option<String>, text: &str| part.as_ref().is_none_or(|p| text.contains(p));
    has(error_contains, job.error.as_deref().unwrap_or_default())
        && has(id_contains, job.id.as_str())
        && job.died_at.is_none_or(|at| is_within(died, at))
        && (job.state == State::Dead || is_within(due, job.due_at))
}

impl Model {
    pub fn new(now: UnixMillis) -> Self {
        Self { now, jobs: BTreeMap::new(), reservations: 0 }
    }

    fn due(&self, schedule: Schedule) -> UnixMillis {
        match schedule {
            Schedule::In(delay) => self.now.after(delay),
            Schedule::At(time) => time.max(self.now),
        }
    }

    pub fn put(&mut self, new: NewJob) -> Reply<Placed> {
        let due_at = self.due(new.schedule);
        let how = match (self.jobs.get(&new.id), new.on_conflict) {
            (None, _) => PutOutcome::Created,
            (Some(Living { job, .. }), how)
                if how == OnConflict::Reject
                    || job.topic != new.topic
                        && (how == OnConflict::Replace
                            || job.policy.dead_from.as_ref() != Some(&new.topic)) =>
            {
                let living = job::Living { state: job.state, topic: job.topic.clone() };
                return Err(Refusal::Exists(Some(living)));
            }
            (Some(Living { job, .. }), OnConflict::Keep) => {
                let moved_to = Some(job.topic.clone()).filter(|topic| *topic != new.topic);
                let (how, state, due_at) = (PutOutcome::Kept, job.state, job.due_at);
                return Ok(Placed { how, state, due_at, moved_to });
            }
            (Some(living), OnConflict::Replace) if living.job.state == State::Reserved => {
                return Err(Refusal::Reserved);
            }
            (Some(living), _) if living.is_finished() => PutOutcome::Created,
            (Some(_), _) => PutOutcome::Replaced,
        };
        let mut living = Living { job: created(new, self.now, due_at), reservation: None };
        living.expire_from(due_at);
        let state = living.job.state;
        self.jobs.insert(living.job.id.clone(), living);
        Ok(Placed { how, state, due_at, moved_to: None })
    }

    /// Restores a job from another store. The model has no number for its reservation.
    pub fn restore(&mut self, job: Job) -> Reply<()> {
        if self.jobs.contains_key(&job.id) {
            return Err(Refusal::Exists(None));
        }
        let reservation = job.reservation.map(|_| u64::MAX);
        self.jobs.insert(job.id.clone(), Living { job, reservation });
        Ok(())
    }

    /// Reserves the first ready job. Returns it with the number of its reservation.
    pub fn pop(
        &mut self,
        topic: &Topic,
        ttr: Option<Millis>,
        consumer: Option<Consumer>,
    ) -> Option<(PoppedJob, u64)> {
        let now = self.now;
        let id = self.in_order(topic, State::Ready).into_iter().find(|id| {
            let living = self.jobs.get_mut(id).expect("the job is ready");
            let has_expired = living.has_expired_by(now);
            if has_expired {
                living.expire(now);
            }
            !has_expired
        })?;
        self.reservations += 1;
        let (now, reservation) = (self.now, self.reservations);
        let living = self.jobs.get_mut(&id)?;
        living.reservation = Some(reservation);
        let job = &mut living.job;
        job.attempt += 1;
        job.state = State::Reserved;
        job.consumer = consumer;
        job.ttr = ttr.unwrap_or(job.policy.ttr);
        let reserved_until = now.after(job.ttr);
        job.reserved_until = Some(reserved_until);
        let popped = PoppedJob {
            id,
            topic: job.topic.clone(),
            body: job.body.clone(),
            attempt: job.attempt,
            due_at: job.due_at,
            created_at: job.created_at,
            ttr: job.ttr,
            reservation: Reservation::NONE,
            reserved_until,
            policy: job.policy.clone(),
        };
        Some((popped, reservation))
    }

    fn held(&mut self, id: &JobId, hold: Hold) -> Reply<&mut Living> {
        let living = self.jobs.get_mut(id).ok_or(Refusal::NotFound)?;
        match hold {
            _ if living.is_finished() => Err(Refusal::Finished),
            None if !living.job.was_popped() => Err(Refusal::NeverPopped),
            Some(_) if hold != living.reservation => Err(Refusal::ReservationLost),
            _ => Ok(living),
        }
    }

    pub fn unpop(&mut self, id: &JobId, hold: Hold) -> Reply<Readied> {
        let lost = |why| if why == Refusal::Finished { Refusal::ReservationLost } else { why };
        let living = self.held(id, hold.or(Some(0))).map_err(lost)?;
        if living.job.state != State::Reserved {
            return Err(Refusal::ReservationLost);
        }
        let due_at = living.job.due_at;
        living.settle(State::Ready, due_at);
        living.reservation = None;
        living.job.attempt -= 1;
        Ok(living.readied())
    }

    pub fn finish(&mut self, id: &JobId, hold: Hold, result: Option<Bytes>) -> Reply<()> {
        let now = self.now;
        if let Some(Living { job: Job { ending: Some(ending), .. }, reservation: last }) =
            self.jobs.get(id)
            && ending.outcome != Outcome::Deleted
            && hold.is_some()
            && hold == *last
        {
            return Ok(());
        }
        let living = self.held(id, hold)?;
        if living.job.policy.finished_retention > Millis::ZERO {
            living.end_attempt(AttemptOutcome::Finished, now, None);
            living.end(now, Outcome::Finished, result);
        } else if result.is_some() {
            return Err(Refusal::ResultNotKept);
        } else {
            self.jobs.remove(id);
        }
        Ok(())
    }

    pub fn release(&mut self, id: &JobId, hold: Hold, release: Release) -> Reply<Transitioned> {
        let now = self.now;
        let living = self.held(id, hold)?;
        if hold.is_none() && living.job.state != State::Reserved {
            return Err(Refusal::NotReserved);
        }
        living.reservation = None;
        living.job.error = Some("released".to_owned());
        let outcome = match release.is_uncounted {
            true => AttemptOutcome::ReleasedUncounted,
            false => AttemptOutcome::Released,
        };
        living.end_attempt(outcome, now, Some("released"));
        let is_spent = living.is_spent() && !release.is_uncounted;
        if release.is_uncounted {
            living.job.attempt -= 1;
            living.job.is_snoozed |= living.job.attempt == 0;
        }
        living.job.body = release.body.unwrap_or_else(|| living.job.body.clone());
        let (mut died, mut dead_from) = (false, None);
        if living.job.state != State::Dead {
            let delay = release.delay.unwrap_or_else(|| living.backoff(living.job.attempt));
            if is_spent || living.has_expired_by(now.after(delay)) {
                if !is_spent {
                    living.job.error = Some("expired".to_owned());
                }
                dead_from = living.become_dead(now, now);
                died = dead_from.is_none();
            } else {
                let state = if delay == Millis::ZERO { State::Ready } else { State::Delayed };
                living.settle(state, now.after(delay));
            }
        }
        Ok(living.moved(died, dead_from))
    }

    pub fn touch(&mut self, id: &JobId, hold: Hold, ttr: Option<Millis>) -> Reply<UnixMillis> {
        let now = self.now;
        let job = &mut self.held(id, hold)?.job;
        match job.reserved_until {
            Some(until) if until > now => {
                job.started_at = job.running_since().filter(|start| *start != now);
                job.ttr = ttr.unwrap_or(job.ttr);
                job.reserved_until = Some(now.after(job.ttr));
                Ok(now.after(job.ttr))
            }
            _ => Err(Refusal::ReservationLost),
        }
    }

    pub fn bury(&mut self, id: &JobId, hold: Hold) -> Reply<()> {
        let now = self.now;
        let living = self.held(id, hold)?;
        living.reservation = None;
        living.job.error = Some("buried".to_owned());
        living.end_attempt(AttemptOutcome::Buried, now, Some("buried"));
        if living.job.state != State::Dead {
            living.become_dead(now, now);
        }
        Ok(())
    }

    pub fn kick(&mut self, id: &JobId) -> Reply<Readied> {
        let now = self.now;
        let living = self.jobs.get_mut(id).ok_or(Refusal::NotFound)?;
        match living.job.state {
            State::Reserved => return Err(Refusal::Reserved),
            State::Finished => return Err(Refusal::Finished),
            State::Ready => {}
            State::Delayed => living.settle(State::Ready, now),
            State::Dead => {
                living.settle(State::Ready, now);
                (living.job.attempt, living.job.error, living.reservation) = (0, None, None);
                living.job.is_snoozed = false;
                living.expire_from(now);
            }
        }
        Ok(living.readied())
    }

    pub fn delete(
        &mut self,
        id: &JobId,
        only: Option<States>,
        remember: Option<Millis>,
    ) -> Reply<State> {
        let now = self.now;
        let living = self.jobs.get_mut(id).ok_or(Refusal::NotFound)?;
        let state = living.job.state;
        if only.is_some_and(|only| !only.has(state)) {
            return Err(Refusal::WrongState(state));
        }
        match remember {
            Some(retention) => {
                living.job.policy.finished_retention = retention;
                living.end(now, Outcome::Deleted, None);
            }
            None => drop(self.jobs.remove(id)),
        }
        Ok(state)
    }

    pub fn reschedule(&mut self, id: &JobId, change: Change) -> Reply<Job> {
        let due_at = change.schedule.map(|schedule| self.due(schedule));
        let now = self.now;
        let living = self.jobs.get_mut(id).ok_or(Refusal::NotFound)?;
        match living.job.state {
            State::Reserved => return Err(Refusal::Reserved),
            State::Dead => return Err(Refusal::Dead),
            State::Finished => return Err(Refusal::Finished),
            State::Delayed | State::Ready => {}
        }
        living.job.body = change.body.unwrap_or_else(|| living.job.body.clone());
        let policy = &mut living.job.policy;
        policy.ttr = change.policy.ttr.unwrap_or(policy.ttr);
        if let (Some(Backoff::List(old)), Some(Some(Backoff::List(new)))) =
            (&policy.backoff, &change.policy.backoff)
            && policy.max_attempts as usize == old.len() + 1
        {
            policy.max_attempts = u32::try_from(new.len() + 1).expect("a short list");
        }
        policy.max_attempts = change.policy.max_attempts.unwrap_or(policy.max_attempts);
        policy.backoff = change.policy.backoff.unwrap_or(policy.backoff.take());
        policy.priority = change.policy.priority.unwrap_or(policy.priority);
        policy.expires_after = change.policy.expires_after.unwrap_or(policy.expires_after);
        let expires_anew = due_at.is_some() || change.policy.expires_after.is_some();
        // Without a new time, the job keeps its state and due time.
        let (state, due_at) = match due_at {
            None => (living.job.state, living.job.due_at),
            Some(due_at) if due_at <= now => (State::Ready, due_at),
            Some(due_at) => (State::Delayed, due_at),
        };
        living.settle(state, due_at);
        if expires_anew {
            living.expire_from(due_at);
        }
        living.reservation = None;
        Ok(living.shown())
    }

    /// Promotes all due jobs. Returns the numbers of jobs that became ready, expired and died, of
    /// dead jobs that were removed, and of jobs that moved.
    pub fn promote(&mut self) -> (u64, u64, u64, u64, u64) {
        let now = self.now;
        let mut sum = (0, 0, 0, 0, 0);
        for living in self.jobs.values_mut().filter(|living| living.at() <= now) {
            match living.job.state {
                State::Ready | State::Dead | State::Finished => {}
                State::Delayed => {
                    living.job.state = State::Ready;
                    sum.0 += 1;
                }
                State::Reserved => {
                    let end = living.at();
                    sum.1 += 1;
                    living.job.error = Some("ttr ended".to_owned());
                    living.end_attempt(AttemptOutcome::TimedOut, end, None);
                    let due_at = end.after(living.backoff(living.job.attempt));
                    if living.is_spent() || living.has_expired_by(due_at) {
                        if living.has_expired_by(due_at) {
                            living.job.error = Some("expired".to_owned());
                        }
                        let moves = u64::from(living.become_dead(end, now).is_some());
                        sum = (sum.0 + moves, sum.1, sum.2 + 1 - moves, sum.3, sum.4 + moves);
                    } else {
                        let state = if due_at <= now { State::Ready } else { State::Delayed };
                        living.settle(state, due_at);
                        sum.0 += u64::from(state == State::Ready);
                    }
                }
            }
        }
        for living in self.jobs.values_mut().filter(|living| living.has_expired_by(now)) {
            if matches!(living.job.state, State::Delayed | State::Ready) {
                let moves = u64::from(living.expire(now));
                sum = (sum.0 + moves, sum.1, sum.2 + 1 - moves, sum.3, sum.4 + moves);
            }
        }
        self.jobs.retain(|_, living| {
            let is_over = living.at() <= now;
            sum.3 += u64::from(is_over && living.job.state == State::Dead);
            !is_over || !matches!(living.job.state, State::Dead | State::Finished)
        });
        sum
    }

    pub fn kick_matching(
        &mut self,
        topic: &Topic,
        state: State,
        filter: &JobFilter,
        limit: usize,
    ) -> ReadyJobs {
        let ids = self.matching(topic, state, filter).into_iter().take(limit);
        let kicked = ids.map(|id| ReadyJobs::one(self.kick(&id).expect("kicked").priority));
        kicked.fold(ReadyJobs::NONE, ReadyJobs::plus)
    }

    pub fn purge_matching(&mut self, topic: &Topic, state: State, filter: &JobFilter) -> u64 {
        let ids = self.matching(topic, state, filter);
        ids.iter().for_each(|id| drop(self.jobs.remove(id)));
        ids.len() as u64
    }

    fn matching(&self, topic: &Topic, state: State, filter: &JobFilter) -> Vec<JobId> {
        let all = self.in_order(topic, state).into_iter();
        all.filter(|id| matches(&self.jobs[id].job, filter)).collect()
    }

    fn in_order(&self, topic: &Topic, state: State) -> Vec<JobId> {
        let mine = |living: &&Living| living.job.topic == *topic && living.job.state == state;
        let mut found: Vec<&Living> = self.jobs.values().filter(mine).collect();
        let rank = |living: &Living| match state {
            State::Ready => Reverse(living.job.policy.priority),
            _ => Reverse(Priority::STANDARD),
        };
        found.sort_by_key(|living| (rank(living), living.at()));
        found.into_iter().map(|living| living.job.id.clone()).collect()
    }

    pub fn get(&self, id: &JobId) -> Option<Job> {
        self.jobs.get(id).map(Living::shown)
    }

    /// Returns every job with its reservation.
    pub fn all(&self) -> impl Iterator<Item = (Job, Option<u64>)> {
        self.jobs.values().map(|living| (living.shown(), living.reservation))
    }

    pub fn topics(&self) -> Vec<(Topic, Counts)> {
        let mut topics: BTreeMap<Topic, Counts> = BTreeMap::new();
        for Living { job, .. } in self.jobs.values() {
            let counts = topics.entry(job.topic.clone()).or_default();
            *counts.of_mut(job.state) += 1;
        }
        topics.into_iter().collect()
    }
}
