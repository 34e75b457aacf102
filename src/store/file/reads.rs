//! Jobs with what only the disk knows of them. One that cannot be read is set aside or refused, and
//! the others go on.

use bytes::Bytes;

use super::{
    index::Entry,
    machine::{EXPIRED, Taken, Write, due_at_of},
    records::ReadError,
    writer::Desk,
};
use crate::{
    job::{Bucket, Change, Job, JobId, PoppedJob, Refusal, State, Topic, UnixMillis},
    store::{Bury, Held, Now, Outcome, Reply, StoreError},
};

/// What a pop took, with what only the disk knows. A job that cannot be read is set aside.
pub(super) fn read_taken(
    desk: &mut Desk,
    bucket: Bucket,
    now: Now,
    topic: &Topic,
    taken: Vec<Taken>,
) -> Outcome<Vec<PoppedJob>> {
    let mut jobs = Vec::with_capacity(taken.len());
    for job in taken {
        match desk.read(job.serial) {
            Ok(record) => jobs.push(PoppedJob {
                id: job.id,
                topic: topic.clone(),
                body: record.body,
                attempt: job.attempt,
                max_attempts: job.max_attempts,
                due_at: job.due_at,
                created_at: record.created_at,
                ttr: job.ttr,
                reservation: job.reservation,
                reserved_until: job.reserved_until,
            }),
            Err(ReadError::Engine(cause)) => return Err(StoreError::away(cause)),
            Err(ReadError::Damaged(damage)) => {
                tracing::error!(id = %job.id, damage, "set a damaged job aside as dead");
                let (serial, gone) = (job.serial, false);
                let held = Held { id: job.id, reservation: Some(job.reservation) };
                let bury = Bury { held, error: Some(damage) };
                let machine = &mut desk.machines[bucket.index()];
                if let Err(refusal) = machine.bury(now, bury, &mut desk.writes) {
                    tracing::error!(?refusal, "failed to set a damaged job aside");
                }
                // Its pages may lead to those of other jobs: they must not be freed with it.
                desk.writes.push(Write::Aside { serial, gone });
            }
        }
    }
    Ok(jobs)
}

/// Reads before it changes: a job that cannot be read is refused, and the others go on.
pub(super) fn reschedule(
    desk: &mut Desk,
    bucket: Bucket,
    id: &JobId,
    change: Change,
) -> Outcome<Reply<Job>> {
    match read_job(desk, bucket, id) {
        Err(StoreError::Damaged { .. }) => return Ok(Err(Refusal::Damaged)),
        read => read?,
    };
    let now = desk.now();
    let machine = &mut desk.machines[bucket.index()];
    match machine.reschedule(now, id, change, &mut desk.writes) {
        Ok(()) => Ok(read_job(desk, bucket, id)?.ok_or(Refusal::NotFound)),
        Err(refusal) => Ok(Err(refusal)),
    }
}

pub(super) fn read_job(desk: &mut Desk, bucket: Bucket, id: &JobId) -> Outcome<Option<Job>> {
    let Some((entry, topic)) = desk.machines[bucket.index()].get(id) else { return Ok(None) };
    let (serial, job) = (entry.serial, without_record(entry, topic));
    read_rest(desk, serial, job).map(Some)
}

/// Adds what only the disk knows.
pub(super) fn read_rest(desk: &mut Desk, serial: u64, job: Job) -> Outcome<Job> {
    let record = desk.read(serial).map_err(|error| match error {
        ReadError::Damaged(damage) => StoreError::damaged(damage),
        ReadError::Engine(cause) => StoreError::away(cause),
    })?;
    let error = job.error.or(record.error);
    Ok(Job { body: record.body, created_at: record.created_at, error, ..job })
}

/// A job as the machine has it.
pub(super) fn without_record(entry: &Entry, topic: &Topic) -> Job {
    let attempt = entry.attempt.as_deref();
    let reserved = attempt.filter(|_| entry.state == State::Reserved);
    let dead = attempt.filter(|_| entry.state == State::Dead);
    let expired = attempt.is_some_and(|a| a.expired);
    Job {
        id: entry.id(),
        topic: topic.clone(),
        body: Bytes::new(),
        state: entry.state,
        attempt: attempt.map_or(0, |a| a.number),
        max_attempts: entry.rules.max_attempts,
        due_at: due_at_of(entry),
        created_at: UnixMillis::new(0),
        ttr: reserved.map_or(entry.rules.ttr, |a| a.ttr),
        own_ttr: entry.rules.ttr,
        backoff: entry.rules.backoff.clone(),
        dead_retention: entry.rules.dead_retention,
        reservation: attempt.and_then(|a| a.reservation),
        reserved_until: reserved.map(|_| entry.at),
        died_at: dead.map(|a| a.died_at),
        error: expired.then(|| EXPIRED.to_owned()),
    }
}
