//! A delay queue in its plainest form: a map of jobs, and the meaning of each call. Stores are
//! compared with it; it shares with them only the types of calls and answers.

use std::collections::BTreeMap;

use bytes::Bytes;
use delay_queue::{
    job::{
        self, AttemptOutcome, Backoff, Change, Consumer, Ending, Job, JobId, Millis, NewJob,
        OnConflict, Outcome, PastAttempt, PoppedJob, Refusal, Reservation, Schedule, State, States,
        Topic, UnixMillis,
    },
    store::{Counts, Placed, PutOutcome, Reply, Transitioned},
};

#[derive(Debug, Clone)]
pub struct Model {
    pub now: UnixMillis,
    jobs: BTreeMap<JobId, Living>,
    reservations: u64,
}

#[derive(Debug, Clone)]
struct Living {
    job: Job,
    reservation: Option<u64>,
}

impl Living {
    /// Returns the time by which jobs of its state are ordered.
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

    /// Returns the job as any store shows it: whether it has a reservation counts, its value is the
    /// store's own.
    fn shown(&self) -> Job {
        let reservation = self.reservation.map(|_| Reservation::NONE);
        Job { reservation, ..self.job.clone() }
    }

    fn is_spent(&self) -> bool {
        self.job.policy.max_attempts > 0 && self.job.attempt >= self.job.policy.max_attempts
    }

    fn backoff(&self) -> Millis {
        match &self.job.policy.backoff {
            None => Millis::ZERO,
            Some(Backoff::List(values)) => {
                let nth = values.get(self.job.attempt as usize - 1);
                *nth.or(values.last()).expect("a list has values")
            }
            Some(Backoff::Exponential { initial, factor, max, .. }) => {
                let grown =
                    (1..self.job.attempt).fold(initial.get() as f64, |wait, _| wait * factor);
                Millis::new((grown as u64).min(max.get()))
            }
        }
    }

    /// Moves a job that no consumer holds any more.
    fn settle(&mut self, state: State, due_at: UnixMillis) {
        self.job.state = state;
        self.job.due_at = due_at;
        self.job.ttr = self.job.policy.ttr;
        self.job.reserved_until = None;
        self.job.died_at = None;
        (self.job.consumer, self.job.started_at) = (None, None);
    }

    /// Notes how the last attempt ended, in place of its expired TTR; an attempt ends but once.
    fn end_attempt(&mut self, outcome: AttemptOutcome, at: UnixMillis, error: Option<&str>) {
        let attempt = self.job.attempt;
        let (started_at, consumer) = if self.job.state == State::Reserved {
            (self.job.running_since().expect("it runs"), self.job.consumer.clone())
        } else {
            let has_expired = |last: &mut PastAttempt| {
                (last.attempt, last.outcome) == (attempt, AttemptOutcome::Expired)
            };
            let Some(last) = self.job.history.pop_if(has_expired) else { return };
            (last.started_at, last.consumer)
        };
        let (ended_at, error) = (at.max(started_at), error.map(str::to_owned));
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

    fn die(&mut self, at: UnixMillis) {
        let due_at = self.job.due_at;
        self.settle(State::Dead, due_at);
        self.job.died_at = Some(at);
    }

    /// Keeps the job after its end, without its body.
    fn end(&mut self, at: UnixMillis, outcome: Outcome, result: Option<Bytes>) {
        let due_at = self.job.due_at;
        self.settle(State::Finished, due_at);
        self.job.body = Bytes::new();
        self.job.error = None;
        self.job.ending = Some(Ending { at, outcome, result });
    }

    fn is_finished(&self) -> bool {
        self.job.state == State::Finished
    }

    fn moved(&self, died: bool) -> Transitioned {
        let Job { topic, state, due_at, .. } = &self.job;
        Transitioned { topic: topic.clone(), state: *state, due_at: *due_at, died }
    }
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

    fn by_due(&self, due_at: UnixMillis) -> State {
        if due_at <= self.now { State::Ready } else { State::Delayed }
    }

    pub fn put(&mut self, new: NewJob) -> Reply<Placed> {
        let due_at = self.due(new.schedule);
        let state = self.by_due(due_at);
        let how = match (self.jobs.get(&new.id), new.on_conflict) {
            (None, _) => PutOutcome::Created,
            (Some(Living { job, .. }), how)
                if how == OnConflict::Reject || job.topic != new.topic =>
            {
                let living = job::Living { state: job.state, topic: job.topic.clone() };
                return Err(Refusal::Exists(Some(living)));
            }
            (Some(Living { job, .. }), OnConflict::Keep) => {
                return Ok(Placed { how: PutOutcome::Kept, state: job.state, due_at: job.due_at });
            }
            (Some(living), OnConflict::Replace) if living.job.state == State::Reserved => {
                return Err(Refusal::Reserved);
            }
            (Some(living), _) if living.is_finished() => PutOutcome::Created,
            (Some(_), _) => PutOutcome::Replaced,
        };
        let job = Job {
            id: new.id.clone(),
            topic: new.topic,
            body: new.body,
            state,
            attempt: 0,
            due_at,
            created_at: self.now,
            ttr: new.policy.ttr,
            policy: new.policy,
            reservation: None,
            reserved_until: None,
            died_at: None,
            error: None,
            ending: None,
            consumer: None,
            started_at: None,
            history: Vec::new(),
        };
        self.jobs.insert(new.id, Living { job, reservation: None });
        Ok(Placed { how, state, due_at })
    }

    /// Restores a job from another store; its reservation is none of the model's.
    pub fn restore(&mut self, job: Job) -> Reply<()> {
        if self.jobs.contains_key(&job.id) {
            return Err(Refusal::Exists(None));
        }
        let reservation = job.reservation.map(|_| u64::MAX);
        self.jobs.insert(job.id.clone(), Living { job, reservation });
        Ok(())
    }

    /// Reserves the first ready job, and returns it with its reservation.
    pub fn pop(
        &mut self,
        topic: &Topic,
        ttr: Option<Millis>,
        consumer: Option<Consumer>,
    ) -> Option<(PoppedJob, u64)> {
        let id = self.in_order(topic, State::Ready).into_iter().next()?;
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

    fn held(&mut self, id: &JobId, reservation: Option<u64>) -> Reply<&mut Living> {
        let living = self.jobs.get_mut(id).ok_or(Refusal::NotFound)?;
        match reservation {
            _ if living.is_finished() => Err(Refusal::Finished),
            None if living.job.attempt == 0 => Err(Refusal::NeverPopped),
            Some(_) if reservation != living.reservation => Err(Refusal::ReservationLost),
            _ => Ok(living),
        }
    }

    pub fn unpop(&mut self, id: &JobId, reservation: Option<u64>) -> Reply<Topic> {
        let lost = |why| if why == Refusal::Finished { Refusal::ReservationLost } else { why };
        let living = self.held(id, reservation.or(Some(0))).map_err(lost)?;
        if living.job.state != State::Reserved {
            return Err(Refusal::ReservationLost);
        }
        let due_at = living.job.due_at;
        living.settle(State::Ready, due_at);
        living.reservation = None;
        living.job.attempt -= 1;
        if living.job.attempt == 0 {
            living.job.error = None;
        }
        Ok(living.job.topic.clone())
    }

    pub fn finish(
        &mut self,
        id: &JobId,
        reservation: Option<u64>,
        result: Option<Bytes>,
    ) -> Reply<()> {
        let now = self.now;
        if let Some(Living { job: Job { ending: Some(ending), .. }, reservation: last }) =
            self.jobs.get(id)
            && ending.outcome != Outcome::Deleted
            && reservation.is_some()
            && reservation == *last
        {
            return Ok(());
        }
        let living = self.held(id, reservation)?;
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

    pub fn release(
        &mut self,
        id: &JobId,
        reservation: Option<u64>,
        delay: Option<Millis>,
    ) -> Reply<Transitioned> {
        let now = self.now;
        let living = self.held(id, reservation)?;
        if reservation.is_none() && living.job.state != State::Reserved {
            return Err(Refusal::NotReserved);
        }
        living.reservation = None;
        living.job.error = Some("released".to_owned());
        living.end_attempt(AttemptOutcome::Released, now, Some("released"));
        let mut died = false;
        if living.job.state != State::Dead {
            if living.is_spent() {
                living.die(now);
                died = true;
            } else {
                let delay = delay.unwrap_or_else(|| living.backoff());
                let state = if delay == Millis::ZERO { State::Ready } else { State::Delayed };
                living.settle(state, now.after(delay));
            }
        }
        Ok(living.moved(died))
    }

    pub fn touch(
        &mut self,
        id: &JobId,
        reservation: Option<u64>,
        ttr: Option<Millis>,
    ) -> Reply<UnixMillis> {
        let now = self.now;
        let job = &mut self.held(id, reservation)?.job;
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

    pub fn bury(&mut self, id: &JobId, reservation: Option<u64>) -> Reply<()> {
        let now = self.now;
        let living = self.held(id, reservation)?;
        living.reservation = None;
        living.job.error = Some("buried".to_owned());
        living.end_attempt(AttemptOutcome::Buried, now, Some("buried"));
        if living.job.state != State::Dead {
            living.die(now);
        }
        Ok(())
    }

    pub fn kick(&mut self, id: &JobId) -> Reply<Topic> {
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
            }
        }
        Ok(living.job.topic.clone())
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
        // Without a new time the job keeps its place.
        let (state, due_at) = match due_at {
            None => (living.job.state, living.job.due_at),
            Some(due_at) if due_at <= now => (State::Ready, due_at),
            Some(due_at) => (State::Delayed, due_at),
        };
        living.settle(state, due_at);
        living.reservation = None;
        Ok(living.shown())
    }

    /// Promotes everything due. Returns how many jobs became ready, expired and died, and how many
    /// dead jobs were removed.
    pub fn promote(&mut self) -> (u64, u64, u64, u64) {
        let now = self.now;
        let mut sum = (0, 0, 0, 0);
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
                    living.job.error = Some("ttr expired".to_owned());
                    living.end_attempt(AttemptOutcome::Expired, end, None);
                    if living.is_spent() {
                        living.die(end);
                        sum.2 += 1;
                    } else {
                        let due_at = end.after(living.backoff());
                        let state = if due_at <= now { State::Ready } else { State::Delayed };
                        living.settle(state, due_at);
                        sum.0 += u64::from(state == State::Ready);
                    }
                }
            }
        }
        self.jobs.retain(|_, living| {
            let is_over = living.at() <= now;
            sum.3 += u64::from(is_over && living.job.state == State::Dead);
            !is_over || !matches!(living.job.state, State::Dead | State::Finished)
        });
        sum
    }

    pub fn purge(&mut self, topic: &Topic, state: State, limit: usize) -> u64 {
        let ids: Vec<JobId> = self.in_order(topic, state).into_iter().take(limit).collect();
        ids.iter().for_each(|id| drop(self.jobs.remove(id)));
        ids.len() as u64
    }

    pub fn kick_dead(&mut self, topic: &Topic, limit: usize) -> u64 {
        let ids: Vec<JobId> = self.in_order(topic, State::Dead).into_iter().take(limit).collect();
        ids.iter().for_each(|id| drop(self.kick(id)));
        ids.len() as u64
    }

    fn in_order(&self, topic: &Topic, state: State) -> Vec<JobId> {
        let mine = |living: &&Living| living.job.topic == *topic && living.job.state == state;
        let mut found: Vec<&Living> = self.jobs.values().filter(mine).collect();
        found.sort_by_key(|living| living.at());
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
