//! Reads of jobs, with the fields that are only on disk. A damaged job is refused or reported with
//! the reason and does not affect other jobs.

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::join_all;

use super::{
    FileStore,
    index::{Entry, IndexKey},
    machine::{JOB_EXPIRED, Machine, TTR_ENDED, due_at_of},
    matching,
    records::{ErrorAndHistory, ReadError, StoredEnding, StoredFields},
    writer_state::WriterState,
};
use crate::{
    job::{Bucket, Change, Ending, Job, JobId, Refusal, State, Topic, UnixMillis},
    store::{
        Damaged, JobPage, JobRange, JobReads, Matched, Parts, Peek, Reply, ReservedPage, Selection,
        Steps, StoreError, StoreResult, StoreResults, Target, TopicPage, TopicPeek, Usage,
    },
};

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
        self.writer
            .read(move |writer| Ok(writer.machines[bucket.index()].count_due(&topic, &steps)))
            .await
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

    async fn count_matching(
        &self,
        bucket: Bucket,
        selection: Selection,
    ) -> StoreResult<Matched<u64>> {
        self.writer.read(move |writer| matching::count(writer, bucket, &selection)).await
    }
}

/// Reschedules all jobs or none.
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
    match machine.reschedule(now, target, &change, &mut writer.writes) {
        Ok(_) => Ok(read_job(writer, bucket, target)?.ok_or(Refusal::NotFound)),
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
    let found = Found::new(target.id.clone(), entry, topic);
    read_rest(writer, found).map(Some)
}

/// Bytes of bodies after which a page ends, because reading delays the commit of other calls.
const MAX_PAGE_BYTES: u64 = 512 << 10;

/// Returns a page of jobs of one topic and state. It has fewer than `range.limit` jobs if their
/// bodies are large. Damaged jobs are reported with the reason.
pub fn list(
    writer: &mut WriterState,
    bucket: Bucket,
    (topic, state): (&Topic, State),
    range: &JobRange,
) -> StoreResult<JobPage> {
    let JobRange { filter, after, limit } = range;
    let found = matching::find(writer, bucket, (topic, state), filter, (after.as_ref(), *limit))?;
    let matching::Found { mut keys, examined, mut next } = found;
    let machine = &writer.machines[bucket.index()];
    let (all, mut bytes) = (keys.len(), 0);
    let fits = |key: &&IndexKey| {
        let fits = bytes <= MAX_PAGE_BYTES;
        bytes += machine.entry(key.slot).body_bytes();
        fits
    };
    let enough = keys.iter().take_while(fits).count();
    keys.truncate(enough);
    if enough < all {
        next = keys.last().map(IndexKey::position);
    }
    let found = |key: &IndexKey| Found::new(machine.id(key.slot), machine.entry(key.slot), topic);
    let found: Vec<Found> = keys.iter().map(found).collect();
    let mut page = JobPage { examined, next, ..JobPage::default() };
    for found in found {
        let id = found.job.id.clone();
        match read_rest(writer, found) {
            Ok(job) => page.jobs.push(job),
            Err(StoreError::Damaged { cause }) => {
                page.damaged.push(Damaged { id, reason: cause.to_string() });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(page)
}

/// The data of a job that is in memory.
struct Found {
    serial: u64,
    job: Job,
    /// Whether the TTR of the last attempt has ended, which the disk does not record.
    timed_out: bool,
}

fn read_rest(writer: &mut WriterState, found: Found) -> StoreResult<Job> {
    let Found { serial, job, timed_out } = found;
    let refused = |error| match error {
        ReadError::Damaged(damage) => StoreError::damaged(damage),
        ReadError::Engine(cause) => StoreError::unavailable(cause),
    };
    if job.state == State::Finished {
        let ending = writer.read_ending(serial).map_err(refused)?;
        // A finished job has no error text, so only its history can be damaged. It is left out.
        let past = match writer.read_error_and_history(serial) {
            Err(ReadError::Damaged(_)) => ErrorAndHistory::default(),
            read => read.map_err(refused)?,
        };
        return Ok(past.history.into_job(ended(job, ending)));
    }
    let StoredFields { body, created_at, policy } = writer.read(serial).map_err(refused)?;
    let mut past = writer.read_error_and_history(serial).map_err(refused)?;
    if timed_out {
        past.time_out();
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

impl Found {
    fn new(id: JobId, entry: &Entry, topic: &Topic) -> Self {
        let attempt = entry.attempt.as_deref();
        let timed_out = attempt.is_some_and(|a| a.timed_out);
        Self { serial: entry.serial, job: without_record(id, entry, topic), timed_out }
    }
}

/// Returns the last error of a job if it follows from a deadline; the disk does not have it then.
pub fn error_in_memory(entry: &Entry) -> Option<&'static str> {
    entry.attempt.as_deref().and_then(|a| match (a.job_expired, a.timed_out) {
        (true, _) => Some(JOB_EXPIRED),
        (false, true) => Some(TTR_ENDED),
        (false, false) => None,
    })
}

fn without_record(id: JobId, entry: &Entry, topic: &Topic) -> Job {
    let attempt = entry.attempt.as_deref();
    let reserved = attempt.filter(|_| entry.state == State::Reserved);
    let dead = attempt.filter(|_| entry.state == State::Dead);
    Job {
        id,
        topic: topic.clone(),
        body: Bytes::new(),
        ending: None,
        state: entry.state,
        attempt: attempt.map_or(0, |a| a.number),
        is_snoozed: attempt.is_some_and(|a| a.is_snoozed),
        due_at: due_at_of(entry),
        created_at: UnixMillis::new(0),
        ttr: reserved.map_or(entry.kind.policy.ttr, |a| a.ttr),
        policy: entry.kind.policy.clone(),
        reservation: attempt.and_then(|a| a.reservation),
        reserved_until: reserved.map(|_| entry.at),
        died_at: dead.map(|a| a.died_at),
        error: error_in_memory(entry).map(str::to_owned),
        consumer: None,
        started_at: None,
        history: Vec::new(),
    }
}
