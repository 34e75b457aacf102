//! Transitions that need fields of a finished job that are only on disk: puts that keep the
//! existing job, repeated finishes, and deletes that remember the id.
//!
//! These transitions read before the batch is committed. If SQLite fails to read, no part of the
//! call is applied.

use super::{
    records::{ReadError, StoredEnding},
    writer_state::WriterState,
};
use crate::{
    job::{Bucket, JobId, NewJob, OnConflict, Refusal, State, Topic},
    store::{Delete, Finish, Placed, Reply, StoreError, StoreResult},
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
        jobs.into_iter().map(|job| finish_one(writer, bucket, &job)).collect()
    })
}

fn finish_one(writer: &mut WriterState, bucket: Bucket, job: &Finish) -> StoreResult<Reply<Topic>> {
    let now = writer.now();
    let machine = &mut writer.machines[bucket.index()];
    let reply = machine.finish(now, job, None, &mut writer.writes);
    if reply != Err(Refusal::Finished) || job.held.reservation.is_none() {
        return Ok(reply);
    }
    // A client repeats the finish if the answer was lost.
    let Ok(ending) = ending(writer, bucket, &job.held.id)? else { return Ok(reply) };
    let machine = &mut writer.machines[bucket.index()];
    Ok(machine.finish(now, job, Some(ending), &mut writer.writes))
}

pub fn delete(
    writer: &mut WriterState,
    bucket: Bucket,
    jobs: Vec<Delete>,
) -> StoreResult<Vec<Reply<State>>> {
    let reads = jobs.iter().any(|job| job.remembered().is_some());
    let each = |writer: &mut WriterState| {
        jobs.into_iter().map(|job| delete_one(writer, bucket, &job)).collect()
    };
    if reads { writer.all_or_nothing(each) } else { each(writer) }
}

fn delete_one(writer: &mut WriterState, bucket: Bucket, job: &Delete) -> StoreResult<Reply<State>> {
    let ending = match job.remembered() {
        Some(_) => to_remember(writer, bucket, job)?,
        None => Ok(None),
    };
    let now = writer.now();
    let machine = &mut writer.machines[bucket.index()];
    Ok(ending.and_then(|ending| machine.delete(now, (job, ending), &mut writer.writes)))
}

/// Checks that a job whose id is to be remembered can be rewritten. A damaged job is refused and
/// stays unchanged. Returns the ending if the job is finished.
fn to_remember(
    writer: &mut WriterState,
    bucket: Bucket,
    job: &Delete,
) -> StoreResult<Reply<Option<StoredEnding>>> {
    let found = writer.machines[bucket.index()].get(&job.job.id);
    let meant = found.filter(|(entry, topic)| {
        job.job.topics.allows(topic) && job.states.is_none_or(|states| states.has(entry.state))
    });
    let Some((entry, _)) = meant else { return Ok(Ok(None)) }; // refused by the machine
    let (serial, state) = (entry.serial, entry.state);
    if state == State::Finished {
        return Ok(ending(writer, bucket, &job.job.id)?.map(Some));
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
