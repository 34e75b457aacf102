//! Transitions that need fields of a finished job that are only on disk: puts that keep the
//! existing job, repeated finishes, and deletes that remember the id.
//!
//! These transitions read before the batch is committed. If SQLite fails to read, no part of the
//! call is applied.

use super::{
    index::Attempt,
    machine::remembered,
    records::{ReadError, StoredEnding},
    writer_state::WriterState,
};
use crate::{
    job::{Bucket, JobId, NewJob, OnConflict, Outcome, Refusal, State, Topic},
    store::{Delete, Finish, JobRef, Placed, Reply, StoreError, StoreResult},
};

pub fn put(
    writer: &mut WriterState,
    bucket: Bucket,
    jobs: Vec<NewJob>,
) -> StoreResult<Vec<Reply<Placed>>> {
    let reads = jobs.iter().any(|job| job.on_conflict == OnConflict::Keep);
    let each = |writer: &mut WriterState| {
        jobs.into_iter().map(|job| put_one(writer, bucket, job)).collect()
    };
    if reads { writer.all_or_nothing(each) } else { each(writer) }
}

fn put_one(writer: &mut WriterState, bucket: Bucket, job: NewJob) -> StoreResult<Reply<Placed>> {
    let kept = (job.on_conflict == OnConflict::Keep).then(|| job.id.clone());
    let (now, serial) = (writer.now(), writer.next_serial());
    let machine = &mut writer.machines[bucket.index()];
    match (machine.put(now, serial, job, &mut writer.writes), kept) {
        (Ok(placed), Some(id)) if placed.state == State::Finished => {
            let read = ending(writer, bucket, &id)?;
            let due_at = read.map(|ending| ending.attempt.due_at);
            Ok(due_at.map(|due_at| Placed { due_at, ..placed }))
        }
        (reply, _) => Ok(reply),
    }
}

pub fn finish(
    writer: &mut WriterState,
    bucket: Bucket,
    jobs: Vec<Finish>,
) -> StoreResult<Vec<Reply<Topic>>> {
    writer.all_or_nothing(|writer| {
        let each = jobs.into_iter();
        each.map(|job| {
            let now = writer.now();
            let machine = &mut writer.machines[bucket.index()];
            match machine.finish(now, &job, &mut writer.writes) {
                Err(Refusal::Finished) => finish_again(writer, bucket, &job.held),
                reply => Ok(reply),
            }
        })
        .collect()
    })
}

/// Accepts another finish with the reservation that has finished the job. A client repeats the
/// finish if the answer was lost.
fn finish_again(
    writer: &mut WriterState,
    bucket: Bucket,
    held: &JobRef,
) -> StoreResult<Reply<Topic>> {
    let Some(reservation) = held.reservation else { return Ok(Err(Refusal::Finished)) };
    let topic = writer.machines[bucket.index()].get(&held.id).map(|(_, topic)| topic.clone());
    let own = ending(writer, bucket, &held.id)?.ok().filter(|ending| {
        ending.attempt.reservation == Some(reservation) && ending.outcome != Outcome::Deleted
    });
    Ok(topic.filter(|_| own.is_some()).ok_or(Refusal::Finished))
}

pub fn delete(
    writer: &mut WriterState,
    bucket: Bucket,
    jobs: Vec<Delete>,
) -> StoreResult<Vec<Reply<State>>> {
    let reads = jobs.iter().any(|job| remembered(job).is_some());
    let each = |writer: &mut WriterState| {
        jobs.into_iter().map(|job| delete_one(writer, bucket, &job)).collect()
    };
    if reads { writer.all_or_nothing(each) } else { each(writer) }
}

fn delete_one(writer: &mut WriterState, bucket: Bucket, job: &Delete) -> StoreResult<Reply<State>> {
    let last = match remembered(job) {
        Some(_) => to_remember(writer, bucket, job)?,
        None => Ok(None),
    };
    let now = writer.now();
    let machine = &mut writer.machines[bucket.index()];
    Ok(last.and_then(|last| machine.delete(now, (job, last), &mut writer.writes)))
}

/// Checks that a job whose id is to be remembered can be rewritten. A damaged job is refused and
/// stays unchanged. Returns the last attempt if the job is finished.
fn to_remember(
    writer: &mut WriterState,
    bucket: Bucket,
    job: &Delete,
) -> StoreResult<Reply<Option<Attempt>>> {
    let found = writer.machines[bucket.index()].get(&job.job.id);
    let meant = found.filter(|(entry, topic)| {
        job.job.topics.allows(topic) && job.states.is_none_or(|states| states.has(entry.state))
    });
    let Some((entry, _)) = meant else { return Ok(Ok(None)) }; // refused by the machine
    let (serial, state) = (entry.serial, entry.state);
    if state == State::Finished {
        return Ok(ending(writer, bucket, &job.job.id)?.map(|ending| Some(ending.attempt)));
    }
    reply_of(writer.check_rewritable(serial)).map(|reply| reply.map(|()| None))
}

/// Reads the ending of a finished job.
fn ending(
    writer: &mut WriterState,
    bucket: Bucket,
    id: &JobId,
) -> StoreResult<Reply<StoredEnding>> {
    let serial = writer.machines[bucket.index()].get(id).map(|(entry, _)| entry.serial);
    let Some(serial) = serial else { return Ok(Err(Refusal::NotFound)) };
    reply_of(writer.read_ending(serial))
}

fn reply_of<T>(read: Result<T, ReadError>) -> StoreResult<Reply<T>> {
    match read {
        Ok(read) => Ok(Ok(read)),
        Err(ReadError::Damaged(_)) => Ok(Err(Refusal::Damaged)),
        Err(ReadError::Engine(cause)) => Err(StoreError::unavailable(cause)),
    }
}

#[cfg(test)]
mod tests;
