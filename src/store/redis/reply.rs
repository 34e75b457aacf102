//! Parsed replies of scripts.

use bytes::Bytes;
use redis::Value;

use super::codec::{Attempt, FinishedFields, PoolRecord, parse_history, with_sound_error};
use crate::{
    job::{
        Ending, Job, JobId, Living, Millis, PoppedJob, Priority, Refusal, Reservation, State,
        UnixMillis,
    },
    store::{
        Counts, Damaged, JobPosition, Placed, PutOutcome, Readied, Reply, StoreError, Transitioned,
    },
};

/// Values of one reply, read one after another.
pub struct Values(std::vec::IntoIter<Value>);

impl Values {
    pub fn new(reply: Value) -> Result<Self, StoreError> {
        match reply {
            Value::Array(values) => Ok(Self(values.into_iter())),
            other => Err(unexpected(&other)),
        }
    }

    /// Wraps a single value.
    pub fn one(reply: Value) -> Self {
        Self(vec![reply].into_iter())
    }

    /// Returns the number of values that are left.
    pub fn left(&self) -> usize {
        self.0.len()
    }

    fn next(&mut self) -> Result<Value, StoreError> {
        self.0.next().ok_or_else(|| StoreError::unreadable("a reply with too few values"))
    }

    pub fn int(&mut self) -> Result<i64, StoreError> {
        match self.next()? {
            Value::Int(number) => Ok(number),
            other => Err(unexpected(&other)),
        }
    }

    /// Reads a number, and the values behind it if it is the first of a list.
    pub fn number_and_more(&mut self) -> Result<(u64, Option<Self>), StoreError> {
        match self.next()? {
            list @ Value::Array(_) => {
                let mut values = Self::new(list)?;
                Ok((values.number()?, Some(values)))
            }
            number => Ok((Self::one(number).number()?, None)),
        }
    }

    pub fn number(&mut self) -> Result<u64, StoreError> {
        let number = self.int()?;
        u64::try_from(number).map_err(|_| unexpected(&Value::Int(number)))
    }

    pub fn millis(&mut self) -> Result<UnixMillis, StoreError> {
        self.number().map(UnixMillis::new)
    }

    fn small(&mut self) -> Result<u32, StoreError> {
        let number = self.int()?;
        u32::try_from(number).map_err(|_| unexpected(&Value::Int(number)))
    }

    fn bytes(&mut self) -> Result<Vec<u8>, StoreError> {
        match self.next()? {
            Value::BulkString(bytes) => Ok(bytes),
            other => Err(unexpected(&other)),
        }
    }

    pub fn text(&mut self) -> Result<String, StoreError> {
        String::from_utf8(self.bytes()?).map_err(StoreError::unreadable)
    }

    /// Reads a text; returns `None` if it is nil.
    pub fn maybe_text(&mut self) -> Result<Option<String>, StoreError> {
        match self.next()? {
            Value::Nil => Ok(None),
            Value::BulkString(bytes) => {
                String::from_utf8(bytes).map(Some).map_err(StoreError::unreadable)
            }
            other => Err(unexpected(&other)),
        }
    }

    pub fn parsed<T: std::str::FromStr>(&mut self) -> Result<T, StoreError> {
        let text = self.text()?;
        text.parse().map_err(|_| StoreError::unreadable(format!("reply {text:?}")))
    }

    pub fn inner(&mut self) -> Result<Self, StoreError> {
        Self::new(self.next()?)
    }

    /// Reads a text, or a refusal instead of it.
    pub fn reply_text(&mut self) -> Result<Reply<String>, StoreError> {
        match self.next()? {
            Value::Int(code) => refusal(code).map(Err),
            Value::BulkString(bytes) => {
                String::from_utf8(bytes).map(Ok).map_err(StoreError::unreadable)
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Reads a number, or a refusal instead of it.
    pub fn reply_number(&mut self) -> Result<Reply<u64>, StoreError> {
        let code = self.int()?;
        u64::try_from(code).map_or_else(|_| refusal(code).map(Err), |number| Ok(Ok(number)))
    }

    /// Reads the outcome of one job of `put.lua`.
    pub fn placed(&mut self) -> Result<Reply<Placed>, StoreError> {
        match self.next()? {
            Value::Int(code @ ..0) => refusal(code).map(Err),
            Value::Int(created) => Ok(Ok(Placed {
                how: PutOutcome::Created,
                state: if created % 2 == 1 { State::Ready } else { State::Delayed },
                due_at: UnixMillis::new(created.unsigned_abs() / 2),
            })),
            of_living => Self::new(of_living)?.placed_on_living(),
        }
    }

    fn placed_on_living(&mut self) -> Result<Reply<Placed>, StoreError> {
        let (how, state) = (self.int()?, state_of(self.int()?)?);
        let how = match how {
            1 => PutOutcome::Kept,
            2 => PutOutcome::Replaced,
            3 => PutOutcome::Created,
            -2 => return Ok(Err(Refusal::Exists(Some(Living { state, topic: self.parsed()? })))),
            other => return Err(StoreError::unreadable(format!("put reply {other}"))),
        };
        Ok(Ok(Placed { how, state, due_at: self.millis()? }))
    }

    /// Reads one job of `pop.lua`, with this reservation, popped at `now`. The inner error means
    /// that the record is damaged.
    pub fn popped(
        &mut self,
        reservation: Reservation,
        now: UnixMillis,
    ) -> Result<Result<PoppedJob, (JobId, StoreError)>, StoreError> {
        let id: JobId = self.parsed()?;
        let record = PoolRecord::parse(&id, self.bytes()?);
        let (attempt, due_at, ttr) = (self.small()?, self.millis()?, Millis::new(self.number()?));
        let record = match record {
            Ok(record) if record.finished.is_some() => {
                return Ok(Err((id, StoreError::damaged("a finished job was in the ready set"))));
            }
            Ok(record) => record,
            Err(damage) => return Ok(Err((id, damage))),
        };
        Ok(Ok(PoppedJob {
            id,
            topic: record.topic,
            body: record.body,
            attempt,
            due_at,
            created_at: record.created_at,
            ttr,
            reservation,
            reserved_until: now.after(ttr),
            policy: record.policy,
        }))
    }

    /// Reads a position of `shared/matching.lua`. If the score differs from the time, the position
    /// contains the score after a slash, which no id contains.
    pub fn position(&mut self) -> Result<Option<JobPosition>, StoreError> {
        let (id, at, score) = (self.text()?, self.int()?, self.text()?);
        let at = UnixMillis::new(u64::try_from(at).unwrap_or(0));
        let tie = if score.is_empty() { id } else { format!("{id}/{score}") };
        Ok((!tie.is_empty()).then_some(JobPosition { at, tie }))
    }

    /// Reads one job of `list.lua`, or the reason why it is unreadable.
    pub fn listed(&mut self) -> Result<Result<Job, Damaged>, StoreError> {
        let id: JobId = self.parsed()?;
        let mut job = Self(self.0.by_ref().take(5).collect::<Vec<_>>().into_iter());
        let damaged = |reason| Ok(Err(Damaged { id: id.clone(), reason }));
        match job.job(id.clone()) {
            Ok(Some(job)) => Ok(Ok(job)),
            Ok(None) => damaged("it has no record".to_owned()),
            Err(StoreError::Damaged { cause } | StoreError::Unreadable { cause }) => {
                damaged(cause.to_string())
            }
            Err(error) => Err(error),
        }
    }

    pub fn counts(&mut self) -> Result<Counts, StoreError> {
        let mut counts = Counts::default();
        for state in State::ALL {
            *counts.of_mut(state) = self.number()?;
        }
        Ok(counts)
    }

    /// Reads a time; returns `None` for 0.
    pub fn maybe_millis(&mut self) -> Result<Option<UnixMillis>, StoreError> {
        Ok(Some(self.millis()?).filter(|at| at.get() > 0))
    }

    /// Reads the outcome of one job of `reschedule.lua`.
    pub fn rescheduled(&mut self, id: JobId) -> Result<Reply<Job>, StoreError> {
        match self.next()? {
            Value::Int(code) => refusal(code).map(Err),
            // A job can be shown without its last error.
            job => match Self::new(job)?.job_by(id.clone(), with_sound_error) {
                Ok(job) => Ok(job.ok_or(Refusal::NotFound)),
                // The script does not compute the checksum that shows this damage.
                Err(StoreError::Damaged { cause }) => {
                    tracing::error!(%id, %cause, "rescheduled a damaged job");
                    Ok(Err(Refusal::ChangedDamaged))
                }
                Err(error) => Err(error),
            },
        }
    }

    /// Reads the state in which a job was deleted.
    pub fn deleted(&mut self) -> Result<Reply<State>, StoreError> {
        match self.reply_number()? {
            Ok(code) => state_of(i64::try_from(code).unwrap_or(0)).map(Ok),
            Err(refusal) => Ok(Err(refusal)),
        }
    }

    /// Reads a job that became ready: its topic and, each after a blank, its priority and the time
    /// at which it expires, if `readied.lua` adds them.
    pub fn readied(&mut self) -> Result<Reply<Readied>, StoreError> {
        let text = match self.reply_text()? {
            Ok(text) => text,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let mut words = text.split(' ');
        let topic = words.next().unwrap_or_default().parse().map_err(StoreError::unreadable)?;
        let priority = words.next().map_or(Ok(Priority::STANDARD), str::parse);
        let expires_at = words.next().map(|text| text.parse().map(UnixMillis::new)).transpose();
        Ok(Ok(Readied {
            topic,
            priority: priority.map_err(StoreError::unreadable)?,
            expires_at: expires_at.map_err(StoreError::unreadable)?,
        }))
    }

    /// Reads a number from 0 to 9.
    pub fn priority(&mut self) -> Result<Priority, StoreError> {
        let number = self.int()?;
        let priority = u8::try_from(number).ok().and_then(Priority::new);
        priority.ok_or_else(|| unexpected(&Value::Int(number)))
    }

    /// Reads the outcome of one job of `release.lua` or `bury.lua`.
    pub fn moved(&mut self) -> Result<Reply<Transitioned>, StoreError> {
        let (state, text, due_at) = (self.reply_number()?, self.text()?, self.millis()?);
        let (died, priority) = (self.int()? == 1, self.priority()?);
        let state = match state {
            Ok(code) => state_of(i64::try_from(code).unwrap_or(0))?,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let (topic, left) = match text.split_once(' ') {
            Some((topic, left)) => (topic, Some(left)),
            None => (text.as_str(), None),
        };
        let topic = topic.parse().map_err(StoreError::unreadable)?;
        let dead_from = left.map(str::parse).transpose().map_err(StoreError::unreadable)?;
        Ok(Ok(Transitioned { topic, state, due_at, died, priority, dead_from }))
    }

    /// Reads the job of `get.lua`.
    ///
    /// # Errors
    /// `Damaged` if the record of this job is unreadable.
    pub fn job(&mut self, id: JobId) -> Result<Option<Job>, StoreError> {
        self.job_by(id, |attempt| attempt)
    }

    /// Reads a job, with its attempt record as repaired by `sound`.
    fn job_by(&mut self, id: JobId, sound: fn(&str) -> &str) -> Result<Option<Job>, StoreError> {
        if self.left() == 0 {
            return Ok(None);
        }
        let record = PoolRecord::parse(&id, self.bytes()?)?;
        let attempt = self.bytes()?;
        let attempt = Attempt::parse(&id, sound(&String::from_utf8_lossy(&attempt)))?;
        let history = parse_history(&id, &self.bytes()?);
        let state = match self.int()? {
            0 => return Err(StoreError::damaged("the job is in no set of a topic")),
            code => state_of(code)?,
        };
        let score = self.millis()?;
        let held_or_dead = matches!(state, State::Reserved | State::Dead);
        let due_at = attempt.as_ref().filter(|_| held_or_dead).map_or(score, |a| a.due_at);
        let ttr = attempt
            .as_ref()
            .filter(|_| state == State::Reserved)
            .map_or(record.policy.ttr, |a| a.ttr);
        if let Some(fields) = record.finished {
            if state != State::Finished {
                return Err(StoreError::damaged("the job is finished, but not in its set"));
            }
            let kept = record.policy.finished_retention.get();
            let at = UnixMillis::new(score.get().saturating_sub(kept));
            let history = fields.history(at).unwrap_or(history);
            let FinishedFields { attempt, due_at, reservation, outcome, .. } = fields;
            let result = Some(record.body).filter(|result| !result.is_empty());
            let job = Job {
                id,
                topic: record.topic,
                body: Bytes::new(),
                state,
                attempt,
                is_snoozed: false,
                due_at,
                created_at: record.created_at,
                ttr: record.policy.ttr,
                policy: record.policy,
                reservation,
                reserved_until: None,
                died_at: None,
                error: None,
                ending: Some(Ending { at, outcome, result }),
                consumer: None,
                started_at: None,
                history: Vec::new(),
            };
            return Ok(Some(history.into_job(job)));
        }
        let job = Job {
            id,
            topic: record.topic,
            body: record.body,
            state,
            attempt: attempt.as_ref().map_or(0, |a| a.attempt),
            is_snoozed: attempt.as_ref().is_some_and(|a| a.is_snoozed),
            due_at,
            created_at: record.created_at,
            ttr,
            policy: record.policy,
            reservation: attempt.as_ref().and_then(|a| a.reservation),
            reserved_until: (state == State::Reserved).then_some(score),
            died_at: attempt.as_ref().filter(|_| state == State::Dead).map(|a| a.died_at),
            error: attempt.and_then(|a| a.error),
            ending: None,
            consumer: None,
            started_at: None,
            history: Vec::new(),
        };
        Ok(Some(history.into_job(job)))
    }
}

/// Returns the state of a code of `shared/prelude.lua`.
pub fn state_of(code: i64) -> Result<State, StoreError> {
    let state = State::ALL.into_iter().find(|state| i64::from(state_code(*state)) == code);
    let unknown = || StoreError::unreadable(format!("state {code}: the job is in no set"));
    state.ok_or_else(unknown)
}

/// Returns the code of a state in `shared/prelude.lua`.
pub fn state_code(state: State) -> u8 {
    state as u8 + 1
}

/// Returns the refusal of a code of `shared/prelude.lua`.
fn refusal(code: i64) -> Result<Refusal, StoreError> {
    match code {
        -1 => Ok(Refusal::NotFound),
        -2 => Ok(Refusal::Exists(None)),
        -3 => Ok(Refusal::ReservationLost),
        -4 => Ok(Refusal::NeverPopped),
        -5 => Ok(Refusal::Reserved),
        -6 => Ok(Refusal::Dead),
        -7 => Ok(Refusal::DueTooFar),
        -8 => Ok(Refusal::NotReserved),
        -9 => Ok(Refusal::Damaged),
        -10 => Ok(Refusal::Finished),
        -11 => Ok(Refusal::ResultNotKept),
        -12 => Ok(Refusal::NoRoom),
        ..-20 => state_of(-20 - code).map(Refusal::WrongState),
        other => Err(StoreError::unreadable(format!("refusal {other}"))),
    }
}

fn unexpected(value: &Value) -> StoreError {
    let mut text = format!("{value:?}");
    text.truncate(text.char_indices().nth(200).map_or(text.len(), |(end, _)| end));
    StoreError::unreadable(format!("an unexpected reply: {text}"))
}
