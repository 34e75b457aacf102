//! Replies with whole jobs.

use bytes::Bytes;

use super::{Values, state_of};
use crate::{
    job::{Ending, History, Job, JobId, Millis, PoppedJob, Reservation, State, UnixMillis},
    store::{
        Damaged, StoreError,
        redis::codec::{Attempt, FinishedFields, PoolRecord, parse_history},
    },
};

impl Values {
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

    /// Reads the job of `get.lua`.
    ///
    /// # Errors
    /// `Damaged` if the record of this job is unreadable.
    pub fn job(&mut self, id: JobId) -> Result<Option<Job>, StoreError> {
        if self.left() == 0 {
            return Ok(None);
        }
        let record = PoolRecord::parse(&id, self.bytes()?)?;
        let attempt = self.bytes()?;
        let attempt = Attempt::parse(&id, &String::from_utf8_lossy(&attempt))?;
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
            let record = PoolRecord { finished: None, ..record };
            return Ok(Some(finished(id, record, fields, score, history)));
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

/// Returns a finished job, which is kept until `until`.
fn finished(
    id: JobId,
    record: PoolRecord,
    fields: FinishedFields,
    until: UnixMillis,
    history: History,
) -> Job {
    let kept = record.policy.finished_retention.get();
    let at = UnixMillis::new(until.get().saturating_sub(kept));
    let history = fields.history(at).unwrap_or(history);
    let FinishedFields { attempt, due_at, reservation, outcome, .. } = fields;
    let result = Some(record.body).filter(|result| !result.is_empty());
    history.into_job(Job {
        id,
        topic: record.topic,
        body: Bytes::new(),
        state: State::Finished,
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
    })
}
