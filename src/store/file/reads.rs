//! Reads of jobs, with the fields that are only on disk. A damaged job is refused or reported with
//! the reason and does not affect other jobs.

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::join_all;

use super::{
    FileStore,
    index::Entry,
    machine::{EXPIRED, Machine, due_at_of},
    records::{Past, ReadError, StoredEnding, StoredFields},
    writer_state::WriterState,
};
use crate::{
    job::{Bucket, Change, Ending, Job, JobId, Refusal, State, Topic, UnixMillis},
    store::{
        Damaged, JobPage, JobPosition, JobRange, JobReads, Parts, Peek, Reply, ReservedPage, Steps,
        StoreError, StoreResult, StoreResults, Target, TopicPage, TopicPeek, Usage,
    },
};

/// Maximum number of jobs in one part of a count by due time; a part takes about a millisecond.
const COUNTED_PER_CALL: usize = 20_000;

#[async_trait]
impl JobReads for FileStore {
    async fn held(
        &self,
        bucket: Bucket,
        topic: Topic,
        cursor: Option<String>,
    ) -> StoreResult<ReservedPage> {
        self.writer
            .call(move |writer| {
                Ok(writer.machines[bucket.index()].held_page(&topic, cursor.as_deref()))
            })
            .await
    }

    async fn peek(&self, parts: Parts<Vec<Topic>>, _deadlines: bool) -> StoreResults<Peek> {
        let work = |(bucket, topics): (Bucket, Vec<Topic>)| {
            self.writer
                .read(move |writer| Ok(writer.machines[bucket.index()].peek(writer.now(), &topics)))
        };
        join_all(parts.into_iter().map(work)).await
    }

    async fn get(&self, bucket: Bucket, target: Target) -> StoreResult<Option<Job>> {
        let _turn = self.gets.acquire().await;
        self.writer.read(move |writer| read_job(writer, bucket, &target)).await
    }

    async fn states(&self, parts: Parts<Vec<JobId>>) -> StoreResults<Vec<Option<State>>> {
        let work = |(bucket, ids): (Bucket, Vec<JobId>)| {
            self.writer.read(move |writer| {
                let machine = &writer.machines[bucket.index()];
                Ok(ids.iter().map(|id| machine.state(id)).collect())
            })
        };
        join_all(parts.into_iter().map(work)).await
    }

    async fn topics(
        &self,
        bucket: Bucket,
        page: TopicPage,
    ) -> StoreResult<Vec<(Topic, TopicPeek)>> {
        self.writer
            .read(move |writer| Ok(writer.machines[bucket.index()].topics(writer.now(), &page)))
            .await
    }

    async fn topic(&self, bucket: Bucket, topic: Topic) -> StoreResult<TopicPeek> {
        self.writer
            .read(move |writer| Ok(writer.machines[bucket.index()].topic(writer.now(), &topic)))
            .await
    }

    async fn topic_usage(&self, topic: Topic) -> StoreResult<Usage> {
        self.writer
            .read(move |writer| {
                let each = writer.machines.iter().map(|machine| machine.topic_usage(&topic));
                Ok(each.fold(Usage::default(), Usage::plus))
            })
            .await
    }

    async fn usage(&self) -> StoreResult<Usage> {
        self.writer
            .read(|writer| {
                let jobs = writer.machines.iter().map(Machine::jobs).sum();
                let bytes = writer.records.bytes().map_err(StoreError::unavailable)?;
                Ok(Usage { jobs, bytes })
            })
            .await
    }

    async fn due_counts(
        &self,
        bucket: Bucket,
        topic: Topic,
        steps: Steps,
    ) -> StoreResult<Vec<u64>> {
        // The index's sets have no ranks, so jobs are counted one by one, in parts. All counts
        // together add at most one part to a batch, so other work waits for at most one part.
        let (mut counts, mut after) = (vec![0; steps.count], None);
        loop {
            let _turn = self.counts.acquire().await;
            let topic = topic.clone();
            let part = self.writer.read(move |state| {
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

    async fn list(
        &self,
        bucket: Bucket,
        topic: Topic,
        state: State,
        range: JobRange,
    ) -> StoreResult<JobPage> {
        self.writer.read(move |writer| list(writer, bucket, (&topic, state), &range)).await
    }
}

/// Reschedules all or nothing.
pub fn reschedule(
    writer: &mut WriterState,
    bucket: Bucket,
    jobs: Vec<(Target, Change)>,
) -> StoreResult<Vec<Reply<Job>>> {
    writer.all_or_nothing(|writer| {
        let each = jobs.into_iter();
        each.map(|(job, change)| reschedule_one(writer, bucket, &job, change)).collect()
    })
}

/// Reads the job first, so that a damaged job is refused before it is changed.
fn reschedule_one(
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

/// Reads a job of the caller's topics. Other jobs are not read: neither an error nor the duration
/// reveals that they exist.
pub fn read_job(
    writer: &mut WriterState,
    bucket: Bucket,
    target: &Target,
) -> StoreResult<Option<Job>> {
    let found = writer.machines[bucket.index()].get(&target.id);
    let Some((entry, topic)) = found.filter(|(_, topic)| target.topics.allows(topic)) else {
        return Ok(None);
    };
    let (serial, job) = (entry.serial, without_record(target.id.clone(), entry, topic));
    read_rest(writer, serial, job).map(Some)
}

/// Bytes of bodies after which a page ends: reading delays the commit of other calls.
const MAX_PAGE_BYTES: u64 = 512 << 10;

/// Returns a page of jobs of one topic and state, fewer than `range.limit` if they are large, and
/// damaged ones with the reason.
pub fn list(
    writer: &mut WriterState,
    bucket: Bucket,
    (topic, state): (&Topic, State),
    range: &JobRange,
) -> StoreResult<JobPage> {
    let mut found = writer.machines[bucket.index()].list(topic, state, range);
    let is_whole = found.len() < range.limit;
    let (all, mut bytes) = (found.len(), 0);
    let fits = |(_, entry, _): &&(JobId, &Entry, JobPosition)| {
        let fits = bytes <= MAX_PAGE_BYTES;
        bytes += entry.body_bytes();
        fits
    };
    let enough = found.iter().take_while(fits).count();
    found.truncate(enough);
    let last = found.last().map(|(_, _, position)| position.clone());
    let next = last.filter(|_| !is_whole || enough < all);
    let found: Vec<(u64, Job)> = found
        .into_iter()
        .map(|(id, entry, _)| (entry.serial, without_record(id, entry, topic)))
        .collect();
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

fn read_rest(writer: &mut WriterState, serial: u64, job: Job) -> StoreResult<Job> {
    let refused = |error| match error {
        ReadError::Damaged(damage) => StoreError::damaged(damage),
        ReadError::Engine(cause) => StoreError::unavailable(cause),
    };
    if job.state == State::Finished {
        let ending = writer.read_ending(serial).map_err(refused)?;
        // A finished job has no error text, so only its history can be damaged: leave it out.
        let past = match writer.read_past(serial) {
            Err(ReadError::Damaged(_)) => Past::default(),
            read => read.map_err(refused)?,
        };
        return Ok(past.history.into_job(ended(job, ending)));
    }
    let StoredFields { body, created_at, policy } = writer.read(serial).map_err(refused)?;
    let expired = job.error.is_some();
    let mut past = writer.read_past(serial).map_err(refused)?;
    if expired {
        past.expire();
    }
    let error = job.error.or(past.error);
    Ok(past.history.into_job(Job { body, created_at, policy, error, ..job }))
}

/// Adds the fields of a finished job that are only on disk.
fn ended(job: Job, ending: StoredEnding) -> Job {
    let StoredEnding { created_at, policy, attempt, outcome, result } = ending;
    Job {
        attempt: attempt.number,
        due_at: attempt.due_at,
        created_at,
        ttr: policy.ttr,
        policy,
        reservation: attempt.reservation,
        ending: Some(Ending { at: attempt.died_at, outcome, result }),
        ..job
    }
}

fn without_record(id: JobId, entry: &Entry, topic: &Topic) -> Job {
    let attempt = entry.attempt.as_deref();
    let reserved = attempt.filter(|_| entry.state == State::Reserved);
    let dead = attempt.filter(|_| entry.state == State::Dead);
    let expired = attempt.is_some_and(|a| a.expired);
    Job {
        id,
        topic: topic.clone(),
        body: Bytes::new(),
        ending: None,
        state: entry.state,
        attempt: attempt.map_or(0, |a| a.number),
        due_at: due_at_of(entry),
        created_at: UnixMillis::new(0),
        ttr: reserved.map_or(entry.kind.policy.ttr, |a| a.ttr),
        policy: entry.kind.policy.clone(),
        reservation: attempt.and_then(|a| a.reservation),
        reserved_until: reserved.map(|_| entry.at),
        died_at: dead.map(|a| a.died_at),
        error: expired.then(|| EXPIRED.to_owned()),
        consumer: None,
        started_at: None,
        history: Vec::new(),
    }
}
