//! Steps through the jobs of a topic and state that match a filter: for lists, kicks and purges.
//!
//! A step is one piece of work for the writer, so a job that matches is changed before any other
//! call sees it. Last errors are only on disk: a step reads few of them, and other work waits for
//! at most one step.

use super::{
    index::{IndexKey, Slot},
    machine::{Machine, due_at_of},
    reads::error_in_memory,
    records::ReadError,
    writer_state::WriterState,
};
use crate::{
    job::{Bucket, State, Topic},
    store::{
        JobFilter, JobPosition, MAX_EXAMINED, Matched, ReadyJobs, Selection, StoreError,
        StoreResult,
    },
};

/// Maximum number of jobs that a step reads from disk.
const MAX_READ: usize = 250;

/// Jobs of one step.
pub struct Found {
    pub keys: Vec<IndexKey>,
    /// Number of jobs that were compared with the filter.
    pub examined: usize,
    /// Position of the last one; `None` if no more jobs follow.
    pub next: Option<JobPosition>,
}

/// Returns the next jobs of a topic and state that match, up to `limit`.
pub fn find(
    writer: &mut WriterState,
    bucket: Bucket,
    (topic, state): (&Topic, State),
    filter: &JobFilter,
    (after, limit): (Option<&JobPosition>, usize),
) -> StoreResult<Found> {
    let is_filtered = filter.examines(state);
    let reads_disk = filter.error_contains.is_some() || state == State::Finished;
    let most = match (is_filtered, reads_disk) {
        (false, _) => limit,
        (true, false) => MAX_EXAMINED,
        (true, true) => MAX_READ,
    };
    let keys = writer.machines[bucket.index()].keys(topic, state, filter.range_in(state), after);
    let keys: Vec<IndexKey> = keys.take(most).collect();
    let mut found = Found { keys: Vec::new(), examined: 0, next: None };
    for key in &keys {
        found.examined += 1;
        if !is_filtered || matches(writer, bucket, key.slot, filter)? {
            found.keys.push(*key);
        }
        if found.keys.len() == limit {
            break;
        }
    }
    let is_whole = found.examined == keys.len() && keys.len() < most;
    let last = found.examined.checked_sub(1).filter(|_| !is_whole);
    found.next = last.map(|last| keys[last].position());
    Ok(found)
}

/// Returns whether a job matches. One whose rows are damaged does not, if they must be read.
fn matches(
    writer: &mut WriterState,
    bucket: Bucket,
    slot: Slot,
    filter: &JobFilter,
) -> StoreResult<bool> {
    let machine = &writer.machines[bucket.index()];
    let entry = machine.entry(slot);
    let (state, serial, attempt) = (entry.state, entry.serial, entry.attempt.as_deref());
    if let Some(part) = &filter.id_contains
        && !machine.id(slot).as_str().contains(part)
    {
        return Ok(false);
    }
    if state == State::Dead && !attempt.is_some_and(|attempt| filter.died.has(attempt.died_at)) {
        return Ok(false);
    }
    if state == State::Reserved && !filter.due.has(due_at_of(entry)) {
        return Ok(false);
    }
    if state == State::Finished && !filter.due.is_always() {
        let due_at = readable(writer.read_attempt(serial))?.map(|attempt| attempt.due_at);
        if !due_at.is_some_and(|due_at| filter.due.has(due_at)) {
            return Ok(false);
        }
    }
    let Some(part) = &filter.error_contains else { return Ok(true) };
    let entry = writer.machines[bucket.index()].entry(slot);
    match (entry.attempt.as_deref(), error_in_memory(entry)) {
        (_, Some(error)) => Ok(error.contains(part)),
        (Some(attempt), None) if attempt.has_row() && state != State::Finished => {
            Ok(readable(writer.error_contains(serial, part))?.unwrap_or(false))
        }
        _ => Ok(false),
    }
}

/// Returns what was read, or none if it is damaged.
fn readable<T>(read: Result<T, ReadError>) -> StoreResult<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(ReadError::Damaged(_)) => Ok(None),
        Err(ReadError::Engine(cause)) => Err(StoreError::unavailable(cause)),
    }
}

fn found_by(writer: &mut WriterState, bucket: Bucket, step: &Selection) -> StoreResult<Found> {
    let Selection { topic, state, filter, after, limit } = step;
    find(writer, bucket, (topic, *state), filter, (after.as_ref(), *limit))
}

pub fn count(
    writer: &mut WriterState,
    bucket: Bucket,
    step: &Selection,
) -> StoreResult<Matched<u64>> {
    let Selection { topic, state, filter, after, limit } = step;
    if !filter.examines(*state) {
        let machine = &writer.machines[bucket.index()];
        let range = filter.range_in(*state);
        let (done, next) = machine.count_keys(topic, *state, range, (after.as_ref(), *limit));
        return Ok(Matched { done, next });
    }
    let Found { keys, next, .. } = found_by(writer, bucket, step)?;
    Ok(Matched { done: keys.len() as u64, next })
}

pub fn kick(
    writer: &mut WriterState,
    bucket: Bucket,
    step: Selection,
) -> StoreResult<Matched<ReadyJobs>> {
    let now = writer.now();
    writer.in_bulk(step.limit, |writer, limit| {
        let Found { keys, next, .. } = found_by(writer, bucket, &Selection { limit, ..step })?;
        let machine = &mut writer.machines[bucket.index()];
        let ready = keys.iter().map(|key| machine.kick_at(key.slot, now, &mut writer.writes));
        Ok(Matched { done: ready.fold(ReadyJobs::NONE, ReadyJobs::plus), next })
    })
}

pub fn purge(
    writer: &mut WriterState,
    bucket: Bucket,
    step: Selection,
) -> StoreResult<Matched<u64>> {
    writer.in_bulk(step.limit, |writer, limit| {
        let Found { keys, next, .. } = found_by(writer, bucket, &Selection { limit, ..step })?;
        let machine: &mut Machine = &mut writer.machines[bucket.index()];
        keys.iter().for_each(|key| machine.purge_one(key.slot, &mut writer.writes));
        Ok(Matched { done: keys.len() as u64, next })
    })
}
