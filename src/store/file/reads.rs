//! Jobs with what only the disk knows of them. One that cannot be read is refused or told with the
//! reason, and the others go on.

use bytes::Bytes;
use tokio::sync::Semaphore;

use super::{
    index::Entry,
    machine::{EXPIRED, due_at_of},
    records::{ReadError, Record},
    writer::{Writer, WriterState},
};
use crate::{
    job::{Bucket, Change, Job, Policy, Refusal, State, Topic, UnixMillis},
    store::{Damaged, JobPage, JobRange, Place, Reply, Steps, StoreError, StoreResult, Target},
};

/// Reads before it changes: a job that cannot be read is refused, and the others go on.
pub fn reschedule(
    writer: &mut WriterState,
    bucket: Bucket,
    target: &Target,
    change: Change,
) -> StoreResult<Reply<Job>> {
    match read_job(writer, bucket, target) {
        Ok(None) => return Ok(Err(Refusal::NotFound)),
        Err(StoreError::Damaged { .. }) => return Ok(Err(Refusal::Damaged)),
        read => read?,
    };
    let now = writer.now();
    let machine = &mut writer.machines[bucket.index()];
    match machine.reschedule(now, target, change, &mut writer.writes) {
        Ok(()) => Ok(read_job(writer, bucket, target)?.ok_or(Refusal::NotFound)),
        Err(refusal) => Ok(Err(refusal)),
    }
}

/// One that its caller may not reach is not looked at: neither damage nor the time it takes tells of it.
pub fn read_job(
    writer: &mut WriterState,
    bucket: Bucket,
    target: &Target,
) -> StoreResult<Option<Job>> {
    let found = writer.machines[bucket.index()].get(&target.id);
    let Some((entry, topic)) = found.filter(|(_, topic)| target.topics.allows(topic)) else {
        return Ok(None);
    };
    let (serial, job) = (entry.serial, without_record(entry, topic));
    read_rest(writer, serial, job).map(Some)
}

/// So many bytes of bodies are enough for one page: reading holds up the commit that others wait for.
const ENOUGH: u64 = 512 << 10;

/// A page of jobs of one topic and state, fewer than asked for if they are large. One that cannot be
/// read is told with the reason.
pub fn list(
    writer: &mut WriterState,
    bucket: Bucket,
    (topic, state): (&Topic, State),
    range: &JobRange,
) -> StoreResult<JobPage> {
    let mut found = writer.machines[bucket.index()].list(topic, state, range);
    let is_whole = found.len() < range.limit;
    let (all, mut bytes) = (found.len(), 0);
    let fits = |(entry, _): &&(&Entry, Place)| {
        let fits = bytes <= ENOUGH;
        bytes += entry.body_bytes();
        fits
    };
    let enough = found.iter().take_while(fits).count();
    found.truncate(enough);
    let last = found.last().map(|(_, place)| place.clone());
    let next = last.filter(|_| !is_whole || enough < all);
    let found: Vec<(u64, Job)> =
        found.into_iter().map(|(entry, _)| (entry.serial, without_record(entry, topic))).collect();
    let mut page = JobPage { next, ..JobPage::default() };
    for (serial, job) in found {
        let id = job.id.clone();
        match read_rest(writer, serial, job) {
            Ok(job) => page.jobs.push(job),
            Err(StoreError::Damaged { cause }) => {
                page.damaged.push(Damaged { id, reason: cause.to_string() });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(page)
}

/// Jobs that one call counts by their due time: a millisecond or so.
const COUNTED_PER_CALL: usize = 20_000;

/// Delayed jobs by the step in which they fall due. A set of the index does not know ranks, so its
/// members are counted one by one: a part in each call, and of all counts one part in each batch, so
/// that other work waits for one part at most.
pub async fn count_due(
    (writer, turns): (&Writer, &Semaphore),
    bucket: Bucket,
    topic: &Topic,
    steps: Steps,
) -> StoreResult<Vec<u64>> {
    let (mut counts, mut after) = (vec![0; steps.count], None);
    loop {
        let _turn = turns.acquire().await;
        let topic = topic.clone();
        let part = writer.read(move |state| {
            let machine = &state.machines[bucket.index()];
            let limit = COUNTED_PER_CALL;
            let next = machine.count_due(&topic, &steps, after, limit, &mut counts);
            Ok((counts, next))
        });
        (counts, after) = part.await?;
        if after.is_none() {
            return Ok(counts);
        }
    }
}

/// Adds what only the disk knows.
fn read_rest(writer: &mut WriterState, serial: u64, job: Job) -> StoreResult<Job> {
    let refused = |error| match error {
        ReadError::Damaged(damage) => StoreError::damaged(damage),
        ReadError::Engine(cause) => StoreError::away(cause),
    };
    let record = writer.read(serial).map_err(refused)?;
    let error = match job.error {
        None => writer.read_error(serial).map_err(refused)?,
        known => known,
    };
    let Record { body, created_at, policy } = record;
    Ok(Job { body, created_at, policy, error, ..job })
}

/// A job as the machine has it.
fn without_record(entry: &Entry, topic: &Topic) -> Job {
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
        due_at: due_at_of(entry),
        created_at: UnixMillis::new(0),
        ttr: reserved.map_or(entry.policy.ttr, |a| a.ttr),
        policy: Policy::clone(&entry.policy),
        reservation: attempt.and_then(|a| a.reservation),
        reserved_until: reserved.map(|_| entry.at),
        died_at: dead.map(|a| a.died_at),
        error: expired.then(|| EXPIRED.to_owned()),
    }
}
