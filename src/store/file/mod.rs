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
mod opening;
mod pending;
mod pop;
mod reads;
mod records;
mod repair;
mod restore;
mod room;
mod salvage;
mod settings;
mod tokens;
mod vacuum;
mod writer;

use std::{
    path::PathBuf,
    sync::{Arc, atomic::AtomicU64},
};

use async_trait::async_trait;
use futures::future::join_all;
use tokio::sync::Semaphore;

pub use self::{
    location::Directory,
    repair::{Repaired, Salvaged, repair, salvage_into},
};

#[cfg(any(test, fuzzing))]
pub use self::{records::file_records, salvage::fuzzing::file_pages};

use self::{
    health::Need,
    machine::{Machine, Write},
    pop::Pop,
    reads::{count_due, list, read_job, reschedule},
    writer::{Writer, WriterState},
};
use super::{
    Applied, Bury, Claim, ClaimPage, Condition, DiskRoom, JobPage, JobRange, MAX_BATCH, Now,
    Options, Parts, Peek, Placed, PopRequest, Popped, Promoted, Release, Reply, SharedStore, Steps,
    Store, StoreError, StoreResult, StoreResults, StoredTokens, Target, TokenChange, TokenChanged,
    TopicPage, TopicPeek, Touch, Transitioned, Usage, steady::ClockWatch,
};
use crate::job::{
    Bucket, Buckets, Change, Job, Millis, NewJob, Nonce, Pause, PolicyFields, ReservationKey,
    Schedule, SettingsNews, State, Topic, UnixMillis,
};

/// Most gets that the writer has before it at once.
const GETS: usize = 4;

/// The store in a directory.
pub struct FileStore {
    dir: PathBuf,
    writer: Writer,
    buckets: Buckets,
    reservation_key: Arc<ReservationKey>,
    /// Gets at a time: what writes waits for no more of them, however large their bodies are.
    gets: Semaphore,
    /// Counts of delayed jobs at a time.
    counts: Semaphore,
    watch: Arc<ClockWatch>,
    tokens_version: Arc<AtomicU64>,
    /// Rows and pages that do not tell their jobs.
    unreadable: u64,
}

impl FileStore {
    /// A transition: `each` does one job of a batch. What goes to several buckets is as many pieces
    /// of work; the writer commits together what has arrived together.
    async fn transition<J: Send + 'static, T: Send + 'static>(
        &self,
        need: Need,
        parts: Parts<Vec<J>>,
        each: impl Fn(&mut Machine, Now, J, &mut Vec<Write>) -> Reply<T> + Copy + Send + 'static,
    ) -> StoreResults<Vec<Reply<T>>> {
        let work = |(bucket, jobs): (Bucket, Vec<J>)| {
            self.writer.call_with(need, move |writer| {
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
        let need = if grows { Need::Room } else { Need::Growing };
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

    fn reservation_key(&self) -> Arc<ReservationKey> {
        Arc::clone(&self.reservation_key)
    }

    fn batch_limit(&self) -> usize {
        if self.writer.health.is_full() { room::JOBS_PER_CALL } else { MAX_BATCH }
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
            self.writer.call_with(Need::Growing, |writer| writer.all_or_nothing(reserve))
        };
        join_all(parts.into_iter().map(work)).await
    }

    async fn unpop(&self, parts: Parts<Vec<Claim>>) -> StoreResults<Vec<Reply<Topic>>> {
        self.transition(Need::Writing, parts, |machine, _, job, writes| machine.unpop(&job, writes))
            .await
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
        self.transition(Need::Writing, parts, |machine, _, job, writes| {
            machine.finish(&job, writes)
        })
        .await
    }

    async fn release(&self, parts: Parts<Vec<Release>>) -> StoreResults<Vec<Reply<Transitioned>>> {
        self.transition(Need::Writing, parts, Machine::release).await
    }

    async fn touch(&self, parts: Parts<Vec<Touch>>) -> StoreResults<Vec<Reply<UnixMillis>>> {
        self.transition(Need::Growing, parts, |machine, now, job, writes| {
            machine.touch(now, &job, writes)
        })
        .await
    }

    async fn bury(&self, parts: Parts<Vec<Bury>>) -> StoreResults<Vec<Reply<Transitioned>>> {
        self.transition(Need::Writing, parts, Machine::bury).await
    }

    async fn kick(&self, parts: Parts<Vec<Target>>) -> StoreResults<Vec<Reply<Topic>>> {
        self.transition(Need::Writing, parts, |machine, now, job, writes| {
            machine.kick(now, &job, writes)
        })
        .await
    }

    async fn delete(&self, parts: Parts<Vec<Target>>) -> StoreResults<Vec<Reply<State>>> {
        self.transition(Need::Writing, parts, |machine, _, job, writes| {
            machine.delete(&job, writes)
        })
        .await
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

    async fn get(&self, bucket: Bucket, target: Target) -> StoreResult<Option<Job>> {
        let _turn = self.gets.acquire().await;
        self.writer.read(move |writer| read_job(writer, bucket, &target)).await
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

    async fn weigh(&self, topic: Topic) -> StoreResult<Usage> {
        self.writer
            .read(move |writer| {
                let each = writer.machines.iter().map(|machine| machine.weigh(&topic));
                Ok(each.fold(Usage::default(), Usage::plus))
            })
            .await
    }

    async fn usage(&self) -> StoreResult<Usage> {
        self.writer
            .read(|writer| {
                let jobs = writer.machines.iter().map(Machine::jobs).sum();
                let bytes = writer.records.bytes().map_err(StoreError::away)?;
                Ok(Usage { jobs, bytes })
            })
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
        count_due((&self.writer, &self.counts), bucket, &topic, steps).await
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
        self.write_pause(topic, paused.then_some(Pause::OPEN)).await
    }

    async fn pause_until(&self, topic: Topic, end: Schedule) -> StoreResult<UnixMillis> {
        self.begin_pause(topic, end).await
    }

    async fn end_pause(&self, topic: Topic, until: UnixMillis) -> StoreResult<Millis> {
        self.end_of_pause(topic, until).await
    }

    async fn set_defaults(&self, topic: Topic, defaults: Option<PolicyFields>) -> StoreResult<()> {
        self.write_defaults(topic, defaults).await
    }

    async fn settings(&self, known: u64) -> StoreResult<Option<SettingsNews>> {
        self.read_settings(known).await
    }

    async fn tokens(&self, known: Option<u64>) -> StoreResult<Option<StoredTokens>> {
        self.read_tokens(known).await
    }

    async fn change_token(&self, change: TokenChange) -> StoreResult<TokenChanged> {
        self.change_one_token(change).await
    }

    async fn note_token_uses(&self, uses: Vec<(String, UnixMillis)>) -> StoreResult<()> {
        self.note_token_uses(uses).await
    }

    async fn accept_loss(&self) -> StoreResult<u64> {
        match self.writer.health.is_replaced() {
            true => Err(StoreError::Replaced { applied: Applied::No }),
            false => Ok(0),
        }
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
            ..Condition::default()
        }
    }

    fn disk_room(&self) -> Option<DiskRoom> {
        directory::room(&self.dir).ok()
    }

    fn shared(&self) -> Option<&dyn SharedStore> {
        None
    }

    async fn close(&self) {
        self.writer.close();
    }
}
