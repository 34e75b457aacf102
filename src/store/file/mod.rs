//! Jobs in one directory of this machine: embedded, durable, nothing to install.
//!
//! Two plain parts: the machine, which has every transition in memory, and the records, which
//! have every job on disk. One thread owns both.

mod ballast;
mod commit;
mod directory;
mod doctor;
mod health;
mod index;
mod loading;
mod location;
mod lock;
mod machine;
mod pages;
mod pending;
mod pop;
mod reads;
mod records;
mod repair;
mod restore;
mod salvage;
mod vacuum;
mod wal;
mod writer;

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use futures::future::join_all;
use rusqlite::ErrorCode;

pub use self::{
    location::Directory,
    repair::{Repaired, Salvaged, repair, salvage_into},
};

use self::{
    health::Need,
    lock::Lock,
    machine::{Machine, Write},
    pending::has_token,
    pop::Pop,
    reads::{list, read_job, reschedule},
    records::Records,
    writer::{Writer, WriterState},
};
use super::{
    Bury, Claim, ClaimPage, Condition, JobPage, JobRange, MAX_BATCH, Now, OpenError, Options,
    Parts, Peek, Placed, PopRequest, Popped, Promoted, Release, Reply, SharedStore, Steps, Store,
    StoreError, StoreResult, StoreResults, StoredTokens, Target, TokenChange, TopicPage, TopicPeek,
    Touch, Transitioned, steady::ClockWatch,
};
use crate::job::{
    Bucket, Buckets, Change, Job, JobId, NewJob, Nonce, SettingsNews, State, Topic, TopicDefaults,
    TopicSettings, UnixMillis,
};

/// Jobs that one call counts by their due time: a millisecond or so.
const COUNTED_PER_CALL: usize = 20_000;

/// The store in a directory.
pub struct FileStore {
    writer: Writer,
    buckets: Buckets,
    watch: Arc<ClockWatch>,
    /// From 1, so that what is on disk is read at first.
    settings_version: Arc<AtomicU64>,
    tokens_version: Arc<AtomicU64>,
    /// Rows and pages that do not tell their jobs.
    unreadable: u64,
}

impl FileStore {
    /// Opens the store in `dir`, making it if it is not there, and reads every job's index.
    ///
    /// # Errors
    /// Another process has it, it was made with another layout, or the disk refuses.
    pub fn open(dir: &Path, options: Options) -> Result<Self, OpenError> {
        let engine = |cause: &dyn std::fmt::Display| OpenError::Engine {
            what: dir.display().to_string(),
            cause: cause.to_string(),
        };
        directory::make(dir).map_err(|cause| engine(&cause))?;
        let lock = Lock::take(dir)?;
        repair::check(dir)?;
        let (records, buckets) = Records::open(&dir.join("jobs.db"), options.buckets)?;
        let parts = (dir, lock, records);
        let damaged = |cause: &dyn std::fmt::Display| OpenError::Damaged {
            dir: dir.to_owned(),
            cause: cause.to_string(),
        };
        let mut writer = match WriterState::open(parts, buckets, options.clock) {
            Err(cause) if is_corrupt(&*cause) => return Err(damaged(&cause)),
            writer => writer.map_err(|cause| engine(&cause))?,
        };
        let unreadable = writer.unreadable;
        if unreadable > 0 {
            // Perhaps the page where new jobs would go is one of those.
            writer.try_insert().map_err(|cause| damaged(&cause))?;
            tracing::error!(unreadable, "rows or pages with jobs cannot be read: see `doctor`");
        }
        directory::sync(dir).map_err(|cause| engine(&cause))?;
        let watch = Arc::clone(&writer.watch);
        let writer = Writer::start(writer).map_err(|cause| engine(&cause))?;
        Ok(Self {
            writer,
            buckets,
            watch,
            settings_version: Arc::new(AtomicU64::new(1)),
            tokens_version: Arc::new(AtomicU64::new(1)),
            unreadable,
        })
    }

    /// What is wrong with the file, after reading all of it; nothing if it is sound.
    ///
    /// # Errors
    /// The engine's.
    pub async fn examine(&self) -> StoreResult<Vec<String>> {
        let unreadable = self.unreadable;
        let examine = move |writer: &mut WriterState| {
            let mut wrong = writer.records.examine().map_err(StoreError::away)?;
            if unreadable > 0 {
                wrong.push(format!("{unreadable} rows or pages with jobs cannot be read"));
            }
            Ok(wrong)
        };
        self.writer.read(examine).await
    }

    /// Changes a topic's settings. No other process can: the version need not be on disk.
    async fn set(&self, change: Write) -> StoreResult<()> {
        let version = Arc::clone(&self.settings_version);
        let write = move |writer: &mut WriterState| {
            writer.writes.push(change);
            version.fetch_add(1, Ordering::SeqCst);
            Ok(())
        };
        self.writer.call(write).await
    }

    /// A transition: `each` does one job of a batch. What goes to several buckets is as many pieces
    /// of work; the writer commits together what has arrived together.
    async fn transition<J: Send + 'static, T: Send + 'static>(
        &self,
        parts: Parts<Vec<J>>,
        each: impl Fn(&mut Machine, Now, J, &mut Vec<Write>) -> Reply<T> + Copy + Send + 'static,
    ) -> StoreResults<Vec<Reply<T>>> {
        let work = |(bucket, jobs): (Bucket, Vec<J>)| {
            self.writer.call(move |writer| {
                let now = writer.now();
                let machine = &mut writer.machines[bucket.index()];
                let writes = &mut writer.writes;
                Ok(jobs.into_iter().map(|job| each(machine, now, job, writes)).collect())
            })
        };
        join_all(parts.into_iter().map(work)).await
    }

    async fn reschedule_part(
        &self,
        bucket: Bucket,
        jobs: Vec<(Target, Change)>,
    ) -> StoreResult<Vec<Reply<Job>>> {
        let grows = jobs.iter().any(|(_, change)| change.body.is_some());
        let need = if grows { Need::Room } else { Need::Writing };
        let change = move |writer: &mut WriterState| {
            jobs.into_iter().map(|(job, change)| reschedule(writer, bucket, &job, change)).collect()
        };
        self.writer.call_with(need, |writer| writer.all_or_nothing(change)).await
    }
}

#[async_trait]
impl Store for FileStore {
    fn buckets(&self) -> Buckets {
        self.buckets
    }

    fn batch_limit(&self) -> usize {
        MAX_BATCH
    }

    async fn put(&self, parts: Parts<Vec<NewJob>>) -> StoreResults<Vec<Reply<Placed>>> {
        let work = |(bucket, jobs): (Bucket, Vec<NewJob>)| {
            self.writer.call_with(Need::Room, move |writer| {
                let now = writer.now();
                let mut replies = Vec::with_capacity(jobs.len());
                for job in jobs {
                    let serial = writer.next_serial();
                    let machine = &mut writer.machines[bucket.index()];
                    replies.push(machine.put(now, serial, job, &mut writer.writes));
                }
                Ok(replies)
            })
        };
        join_all(parts.into_iter().map(work)).await
    }

    async fn restore(&self, bucket: Bucket, jobs: Vec<Job>) -> StoreResult<Vec<Reply<()>>> {
        self.writer
            .call_with(Need::Room, move |writer| Ok(restore::batch(writer, bucket, jobs)))
            .await
    }

    async fn pop(&self, parts: Parts<(Nonce, Vec<PopRequest>)>) -> StoreResults<Vec<Popped>> {
        let work = |(bucket, (nonce, wants)): (Bucket, (Nonce, Vec<PopRequest>))| {
            let reserve = move |writer: &mut WriterState| {
                let mut pop = Pop::new(writer.now(), nonce);
                wants.into_iter().map(|want| pop.take(writer, bucket, &want)).collect()
            };
            self.writer.call(|writer| writer.all_or_nothing(reserve))
        };
        join_all(parts.into_iter().map(work)).await
    }

    async fn unpop(&self, parts: Parts<Vec<Claim>>) -> StoreResults<Vec<Reply<Topic>>> {
        self.transition(parts, |machine, _, job, writes| machine.unpop(&job, writes)).await
    }

    async fn held(
        &self,
        bucket: Bucket,
        topic: Topic,
        cursor: Option<String>,
    ) -> StoreResult<ClaimPage> {
        self.writer
            .call(move |writer| {
                Ok(writer.machines[bucket.index()].held_page(&topic, cursor.as_deref()))
            })
            .await
    }

    async fn finish(&self, parts: Parts<Vec<Claim>>) -> StoreResults<Vec<Reply<Topic>>> {
        self.transition(parts, |machine, _, job, writes| machine.finish(&job, writes)).await
    }

    async fn release(&self, parts: Parts<Vec<Release>>) -> StoreResults<Vec<Reply<Transitioned>>> {
        self.transition(parts, Machine::release).await
    }

    async fn touch(&self, parts: Parts<Vec<Touch>>) -> StoreResults<Vec<Reply<UnixMillis>>> {
        self.transition(parts, |machine, now, job, writes| machine.touch(now, &job, writes)).await
    }

    async fn bury(&self, parts: Parts<Vec<Bury>>) -> StoreResults<Vec<Reply<Transitioned>>> {
        self.transition(parts, Machine::bury).await
    }

    async fn kick(&self, parts: Parts<Vec<Target>>) -> StoreResults<Vec<Reply<Topic>>> {
        self.transition(parts, |machine, now, job, writes| machine.kick(now, &job, writes)).await
    }

    async fn delete(&self, parts: Parts<Vec<Target>>) -> StoreResults<Vec<Reply<State>>> {
        self.transition(parts, |machine, _, job, writes| machine.delete(&job, writes)).await
    }

    async fn reschedule(
        &self,
        parts: Parts<Vec<(Target, Change)>>,
    ) -> StoreResults<Vec<Reply<Job>>> {
        let work = |(bucket, jobs)| self.reschedule_part(bucket, jobs);
        join_all(parts.into_iter().map(work)).await
    }

    async fn promote(&self, buckets: Vec<Bucket>, limit: usize) -> StoreResults<Promoted> {
        let count = buckets.len();
        let promote = move |writer: &mut WriterState| {
            let (now, mut rest) = (writer.believed_now(), limit);
            let each = buckets.into_iter().map(|bucket| {
                writer.machines[bucket.index()].promote(now, &mut rest, &mut writer.writes)
            });
            Ok(each.collect::<Vec<_>>())
        };
        match self.writer.call(promote).await {
            Ok(promoted) => promoted.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error); count],
        }
    }

    async fn peek(&self, parts: Parts<Vec<Topic>>, _deadlines: bool) -> StoreResults<Peek> {
        let work = |(bucket, topics): (Bucket, Vec<Topic>)| {
            self.writer
                .read(move |writer| Ok(writer.machines[bucket.index()].peek(writer.now(), &topics)))
        };
        join_all(parts.into_iter().map(work)).await
    }

    async fn get(&self, bucket: Bucket, id: JobId) -> StoreResult<Option<Job>> {
        self.writer.read(move |writer| read_job(writer, bucket, &id)).await
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

    async fn list(
        &self,
        bucket: Bucket,
        topic: Topic,
        state: State,
        range: JobRange,
    ) -> StoreResult<JobPage> {
        self.writer.read(move |writer| list(writer, bucket, (&topic, state), &range)).await
    }

    async fn due_counts(
        &self,
        bucket: Bucket,
        topic: Topic,
        steps: Steps,
    ) -> StoreResult<Vec<u64>> {
        let (mut counts, mut after) = (vec![0; steps.count], None);
        // A set of the file's index does not know ranks, so its members are counted one by one: a part
        // in each call, so that others get their turn.
        loop {
            let topic = topic.clone();
            let part = self.writer.read(move |writer| {
                let machine = &writer.machines[bucket.index()];
                let limit = COUNTED_PER_CALL;
                let next = machine.count_due(&topic, &steps, after.as_ref(), limit, &mut counts);
                Ok((counts, next))
            });
            (counts, after) = part.await?;
            if after.is_none() {
                return Ok(counts);
            }
        }
    }

    async fn purge(
        &self,
        bucket: Bucket,
        topic: Topic,
        state: State,
        limit: usize,
    ) -> StoreResult<u64> {
        self.writer
            .call(move |writer| {
                let machine = &mut writer.machines[bucket.index()];
                Ok(machine.purge(&topic, state, limit, &mut writer.writes))
            })
            .await
    }

    async fn kick_dead(&self, bucket: Bucket, topic: Topic, limit: usize) -> StoreResult<u64> {
        self.writer
            .call(move |writer| {
                let now = writer.now();
                let machine = &mut writer.machines[bucket.index()];
                Ok(machine.kick_dead(now, &topic, limit, &mut writer.writes))
            })
            .await
    }

    async fn set_paused(&self, topic: Topic, paused: bool) -> StoreResult<()> {
        self.set(Write::Paused { topic, paused }).await
    }

    async fn set_defaults(&self, topic: Topic, defaults: Option<TopicDefaults>) -> StoreResult<()> {
        let text = defaults.map(|defaults| serde_json::to_string(&defaults));
        let text = text.transpose().map_err(StoreError::away)?;
        self.set(Write::Defaults { topic, text }).await
    }

    async fn settings(&self, known: u64) -> StoreResult<Option<SettingsNews>> {
        let current = Arc::clone(&self.settings_version);
        let read = move |writer: &mut WriterState| {
            let version = current.load(Ordering::SeqCst);
            if version == known {
                return Ok(None);
            }
            let settings = writer.settings().map_err(StoreError::away)?;
            // Everything: only this process reads it, and only after a change of its own.
            Ok(Some(SettingsNews::All(TopicSettings { version, ..settings })))
        };
        self.writer.read(read).await
    }

    async fn tokens(&self, known: Option<u64>) -> StoreResult<Option<StoredTokens>> {
        let version = self.tokens_version.load(Ordering::SeqCst);
        if known == Some(version) {
            return Ok(None);
        }
        // What changes meanwhile has another version, and is read again.
        let read = |writer: &mut WriterState| writer.records.tokens().map_err(StoreError::away);
        Ok(Some(StoredTokens { version, tokens: self.writer.read(read).await? }))
    }

    async fn change_token(&self, change: TokenChange) -> StoreResult<bool> {
        let is_use = matches!(change, TokenChange::Used { .. });
        let change_one = move |writer: &mut WriterState| {
            let there = writer.records.tokens().map_err(StoreError::away)?;
            let (name, may_be_there) = match &change {
                TokenChange::Create { name, .. } => (name, false),
                TokenChange::Revoke { name } | TokenChange::Used { name, .. } => (name, true),
            };
            if has_token(&writer.writes, &there, name) != may_be_there {
                return Ok(false);
            }
            writer.writes.push(Write::Token(change));
            Ok(true)
        };
        let changed = self.writer.call(change_one).await?;
        // Not before the commit: a server that has read the version has read the change.
        if changed && !is_use {
            self.tokens_version.fetch_add(1, Ordering::SeqCst);
        }
        Ok(changed)
    }

    async fn check(&self) -> StoreResult<()> {
        self.writer.health.refusal(Need::Writing).map_or(Ok(()), Err)
    }

    fn condition(&self) -> Condition {
        let health = &self.writer.health;
        Condition {
            is_full: health.is_full(),
            // All buckets lay in the same file.
            data_losses: if health.is_replaced() { self.buckets.get().into() } else { 0 },
            clock_jumps: self.watch.jumps(),
            unreadable: self.unreadable,
        }
    }

    fn shared(&self) -> Option<&dyn SharedStore> {
        None
    }

    async fn close(&self) {
        self.writer.close();
    }
}

fn is_corrupt(cause: &(dyn std::error::Error + 'static)) -> bool {
    let code = cause.downcast_ref().and_then(rusqlite::Error::sqlite_error_code);
    code == Some(ErrorCode::DatabaseCorrupt)
}
