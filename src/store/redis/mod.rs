//! Jobs on Redis: each transition is one script on the keys of one bucket.
//!
//! The scripts hold all that matters; here are only their calls. A bucket's keys lie in one slot,
//! so it is the same on one Redis, under Sentinel, and on a cluster: only the way to the server
//! that has the bucket differs (`topology/`).

mod calls;
mod codec;
mod doctor;
mod health;
mod hints;
mod keys;
mod leases;
mod location;
mod loss;
mod options;
mod pop;
mod preflight;
mod ready;
mod reply;
mod reschedule;
mod restore;
mod scripts;
mod settings;
mod shared;
mod timers;
mod tokens;
mod topics;
mod topology;
mod transport;
mod url;
mod usage;

use std::{collections::HashMap, sync::Arc};

use async_trait::async_trait;
use futures::future::join_all;
use redis::Cmd;

use self::{
    codec::{error_text, long_body, schedule_text},
    health::Health,
    hints::Hints,
    keys::Keys,
    leases::Leases,
    preflight::{Preflight, incarnation::Incarnations},
    reply::Values,
    scripts::{Scripts, held, millis_text, targets},
    topology::{Nodes, Opened},
};
use super::{
    Bury, Claim, ClaimPage, Clock, Condition, JobPage, JobRange, OpenError, Options, Parts, Peek,
    Placed, PopRequest, Popped, Promoted, Release, Reply, SharedStore, Steps, Store, StoreError,
    StoreResult, StoreResults, StoredTokens, Target, TokenChange, TokenChanged, TopicPage,
    TopicPeek, Touch, Transitioned, Usage, steady::ClockWatch,
};
use crate::job::{
    Bucket, Buckets, Change, Job, Millis, NewJob, Nonce, OnConflict, Pause, PolicyFields,
    ReservationKey, Schedule, SettingsNews, State, Topic, Topics, UnixMillis,
};

#[cfg(any(test, fuzzing))]
pub use codec::redis_records;
pub use codec::{Record, record, record_rest};
pub use options::{Ack, Login, RedisOptions, TlsFiles};
pub use url::{Host, Kind, RedisUrl, Secret};

/// Jobs of one script. While it runs Redis does nothing else, and 250 take it about 3 ms.
const BATCH: usize = 250;

/// The store on Redis.
pub struct RedisStore {
    nodes: Arc<Nodes>,
    keys: Vec<Keys>,
    by_slot: HashMap<u16, Bucket>,
    scripts: Scripts,
    buckets: Buckets,
    clock: Clock,
    preflight: Preflight,
    incarnations: Incarnations,
    health: Health,
    hints: Hints,
    leases: Arc<Leases>,
    watch: ClockWatch,
    prefix: String,
    /// A loss of jobs needs no operator.
    accept_data_loss: bool,
}

impl RedisStore {
    /// Connects, judges the servers, and records or compares the layout.
    ///
    /// # Errors
    /// Out of reach, unfit to keep jobs, or made with another layout.
    pub async fn open(redis: RedisOptions, options: Options) -> Result<Self, OpenError> {
        let opened = Nodes::open(&redis, &options).await?;
        let Opened { nodes, keys, buckets, incarnations, preflight } = opened;
        let nodes = Arc::new(nodes);
        let leases = Leases::new(&nodes, &redis.prefix);
        Ok(Self {
            hints: Hints::new(&nodes, &keys, &leases),
            leases,
            nodes,
            by_slot: keys.iter().map(|keys| keys.slot).zip(buckets.all()).collect(),
            keys,
            scripts: Scripts::new(),
            buckets,
            clock: options.clock,
            preflight,
            incarnations,
            health: Health::default(),
            watch: ClockWatch::new(buckets.get().into()),
            prefix: redis.prefix,
            accept_data_loss: redis.accept_data_loss,
        })
    }
}

#[async_trait]
impl Store for RedisStore {
    fn buckets(&self) -> Buckets {
        self.buckets
    }

    fn reservation_key(&self) -> Arc<ReservationKey> {
        self.preflight.reservation_key()
    }

    fn batch_limit(&self) -> usize {
        BATCH
    }

    async fn put(&self, parts: Parts<Vec<NewJob>>) -> StoreResults<Vec<Reply<Placed>>> {
        let believed = |(bucket, jobs)| (bucket, (self.believed(bucket), jobs));
        let parts: Parts<(String, Vec<NewJob>)> = parts.into_iter().map(believed).collect();
        let fill = |cmd: &mut Cmd, (believed, jobs): &(String, Vec<NewJob>)| {
            let all_new = jobs.iter().all(|job| job.on_conflict == OnConflict::Reject);
            cmd.arg(if all_new { "new" } else { "" });
            for job in jobs {
                let long = long_body(&job.body);
                let on_conflict = match (job.on_conflict, long) {
                    (OnConflict::Reject, None) => "reject",
                    (OnConflict::Reject, Some(_)) => "reject+",
                    (OnConflict::Keep, None) => "keep",
                    (OnConflict::Keep, Some(_)) => "keep+",
                    (OnConflict::Replace, None) => "replace",
                    (OnConflict::Replace, Some(_)) => "replace+",
                };
                cmd.arg(job.id.as_str()).arg(job.topic.as_str());
                cmd.arg(schedule_text(job.schedule, believed));
                cmd.arg(codec::record_rest(job)).arg(on_conflict);
                if let Some(body) = long {
                    cmd.arg(&body[..]);
                }
            }
        };
        let read = |reply: &mut Values, (_, jobs): &(String, Vec<NewJob>)| {
            jobs.iter().map(|_| reply.placed()).collect()
        };
        self.each(&self.scripts.put, &parts, fill, read).await
    }

    async fn restore(&self, bucket: Bucket, jobs: Vec<Job>) -> StoreResult<Vec<Reply<()>>> {
        self.restore_batch(bucket, jobs).await
    }

    async fn pop(&self, parts: Parts<(Nonce, Vec<PopRequest>)>) -> StoreResults<Vec<Popped>> {
        self.pop_parts(&parts).await
    }

    async fn unpop(&self, parts: Parts<Vec<Claim>>) -> StoreResults<Vec<Reply<Topic>>> {
        self.unpop_parts(&parts).await
    }

    async fn held(
        &self,
        bucket: Bucket,
        topic: Topic,
        cursor: Option<String>,
    ) -> StoreResult<ClaimPage> {
        let fill = |cmd: &mut Cmd| {
            cmd.arg(topic.as_str()).arg(cursor.as_deref().unwrap_or("0"));
        };
        let mut reply = self.run(&self.scripts.held, bucket, fill).await?;
        let mut page = ClaimPage {
            next: Some(reply.text()?).filter(|next| next != "0"),
            ..ClaimPage::default()
        };
        while reply.left() > 0 {
            let id = reply.parsed()?;
            let reservation = reply.text()?.parse().ok();
            page.held.push(Claim { id, reservation, topics: Topics::ALL });
        }
        Ok(page)
    }

    async fn finish(&self, parts: Parts<Vec<Claim>>) -> StoreResults<Vec<Reply<Topic>>> {
        self.each_guarded(
            &self.scripts.finish,
            &parts,
            |cmd, jobs| all_held(cmd, jobs),
            |reply, jobs| read_topics(reply, jobs),
        )
        .await
    }

    async fn release(&self, parts: Parts<Vec<Release>>) -> StoreResults<Vec<Reply<Transitioned>>> {
        let fill = |cmd: &mut Cmd, jobs: &Vec<Release>| {
            for job in jobs {
                held(cmd, &job.held);
                cmd.arg(millis_text(job.delay)).arg(error_text(job.error.as_deref()));
            }
        };
        self.each_guarded(&self.scripts.release, &parts, fill, |reply, jobs| {
            read_moved(reply, jobs)
        })
        .await
    }

    async fn touch(&self, parts: Parts<Vec<Touch>>) -> StoreResults<Vec<Reply<UnixMillis>>> {
        let believed = |(bucket, jobs)| (bucket, (self.believed(bucket), jobs));
        let parts: Parts<(String, Vec<Touch>)> = parts.into_iter().map(believed).collect();
        let fill = |cmd: &mut Cmd, (believed, jobs): &(String, Vec<Touch>)| {
            for job in jobs {
                held(cmd, &job.held);
                cmd.arg(millis_text(job.ttr)).arg(believed);
            }
        };
        let read = |reply: &mut Values, (_, jobs): &(String, Vec<Touch>)| {
            jobs.iter().map(|_| Ok(reply.reply_number()?.map(UnixMillis::new))).collect()
        };
        self.each_guarded(&self.scripts.touch, &parts, fill, read).await
    }

    async fn bury(&self, parts: Parts<Vec<Bury>>) -> StoreResults<Vec<Reply<Transitioned>>> {
        let fill = |cmd: &mut Cmd, jobs: &Vec<Bury>| {
            for job in jobs {
                held(cmd, &job.held);
                cmd.arg(error_text(job.error.as_deref()));
            }
        };
        self.each_guarded(&self.scripts.bury, &parts, fill, |reply, jobs| read_moved(reply, jobs))
            .await
    }

    async fn kick(&self, parts: Parts<Vec<Target>>) -> StoreResults<Vec<Reply<Topic>>> {
        self.each_guarded(
            &self.scripts.kick,
            &parts,
            |cmd, jobs| targets(cmd, jobs),
            |reply, jobs| read_topics(reply, jobs),
        )
        .await
    }

    async fn delete(&self, parts: Parts<Vec<Target>>) -> StoreResults<Vec<Reply<State>>> {
        let read =
            |reply: &mut Values, jobs: &Vec<Target>| jobs.iter().map(|_| reply.deleted()).collect();
        self.each_guarded(&self.scripts.delete, &parts, |cmd, jobs| targets(cmd, jobs), read).await
    }

    async fn reschedule(
        &self,
        parts: Parts<Vec<(Target, Change)>>,
    ) -> StoreResults<Vec<Reply<Job>>> {
        let each = |(bucket, jobs)| self.reschedule_part(bucket, jobs);
        join_all(parts.into_iter().map(each)).await
    }

    async fn promote(&self, buckets: Vec<Bucket>, limit: usize) -> StoreResults<Promoted> {
        self.promote_due(buckets, limit).await
    }

    async fn peek(&self, parts: Parts<Vec<Topic>>, deadlines: bool) -> StoreResults<Peek> {
        self.peek_at(&parts, deadlines).await
    }

    async fn get(&self, bucket: Bucket, target: Target) -> StoreResult<Option<Job>> {
        let (id, parts) = (target.id.clone(), [(bucket, vec![target])]);
        let read = |reply: &mut Values, _: &Vec<Target>| reply.job(id.clone());
        let script = &self.scripts.get;
        let found = self.each_guarded(script, &parts, |cmd, jobs| targets(cmd, jobs), read).await;
        found.into_iter().next().unwrap_or(Ok(None))
    }

    async fn topics(
        &self,
        bucket: Bucket,
        page: TopicPage,
    ) -> StoreResult<Vec<(Topic, TopicPeek)>> {
        self.topics_page(bucket, page).await
    }

    async fn topic(&self, bucket: Bucket, topic: Topic) -> StoreResult<TopicPeek> {
        self.topic_peek(bucket, topic).await
    }

    async fn weigh(&self, topic: Topic) -> StoreResult<Usage> {
        self.weigh_topic(&topic).await
    }

    async fn usage(&self) -> StoreResult<Usage> {
        self.read_usage().await
    }

    async fn list(
        &self,
        bucket: Bucket,
        topic: Topic,
        state: State,
        range: JobRange,
    ) -> StoreResult<JobPage> {
        self.list_page(bucket, topic, state, range).await
    }

    async fn due_counts(
        &self,
        bucket: Bucket,
        topic: Topic,
        steps: Steps,
    ) -> StoreResult<Vec<u64>> {
        self.count_due(bucket, &topic, steps).await
    }

    async fn purge(
        &self,
        bucket: Bucket,
        topic: Topic,
        state: State,
        limit: usize,
    ) -> StoreResult<u64> {
        let fill = |cmd: &mut Cmd| {
            cmd.arg(topic.as_str()).arg(state.name()).arg(limit);
        };
        self.run(&self.scripts.purge, bucket, fill).await?.number()
    }

    async fn kick_dead(&self, bucket: Bucket, topic: Topic, limit: usize) -> StoreResult<u64> {
        let fill = |cmd: &mut Cmd| {
            cmd.arg(topic.as_str()).arg(limit);
        };
        self.run(&self.scripts.kick_dead, bucket, fill).await?.number()
    }

    async fn set_paused(&self, topic: Topic, paused: bool) -> StoreResult<()> {
        self.set_pause(&topic, paused.then_some(Pause::OPEN), None).await
    }

    async fn pause_until(&self, topic: Topic, end: Schedule) -> StoreResult<UnixMillis> {
        self.begin_pause(&topic, end).await
    }

    async fn end_pause(&self, topic: Topic, until: UnixMillis) -> StoreResult<Millis> {
        self.end_of_pause(&topic, until).await
    }

    async fn set_defaults(&self, topic: Topic, defaults: Option<PolicyFields>) -> StoreResult<()> {
        self.write_defaults(&topic, defaults).await
    }

    async fn settings(&self, known: u64) -> StoreResult<Option<SettingsNews>> {
        self.read_settings(known).await
    }

    async fn tokens(&self, known: Option<u64>) -> StoreResult<Option<StoredTokens>> {
        self.read_tokens(known).await
    }

    async fn change_token(&self, change: TokenChange) -> StoreResult<TokenChanged> {
        self.set_token(change).await
    }

    async fn note_token_uses(&self, uses: Vec<(String, UnixMillis)>) -> StoreResult<()> {
        self.note_uses(uses).await
    }

    async fn accept_loss(&self) -> StoreResult<u64> {
        self.accept_every_loss().await
    }

    async fn check(&self) -> StoreResult<()> {
        self.incarnations.check()?;
        self.check_servers().await
    }

    fn condition(&self) -> Condition {
        Condition {
            is_full: self.health.is_full(),
            refuses_writes: self.health.refuses_writes(),
            data_losses: self.incarnations.data_losses(),
            replaced: self.incarnations.lost(),
            clock_jumps: self.watch.jumps(),
            ..Condition::default()
        }
    }

    fn shared(&self) -> Option<&dyn SharedStore> {
        Some(self)
    }

    async fn close(&self) {
        self.leases.leave().await;
    }
}

fn all_held(cmd: &mut Cmd, jobs: &[Claim]) {
    jobs.iter().for_each(|job| held(cmd, job));
}

fn read_topics<T>(reply: &mut Values, jobs: &[T]) -> StoreResult<Vec<Reply<Topic>>> {
    jobs.iter().map(|_| topic(reply.reply_text()?)).collect()
}

fn read_moved<T>(reply: &mut Values, jobs: &[T]) -> StoreResult<Vec<Reply<Transitioned>>> {
    jobs.iter().map(|_| reply.moved()).collect()
}

fn topic(reply: Reply<String>) -> Result<Reply<Topic>, StoreError> {
    match reply {
        Ok(text) => text.parse().map(Ok).map_err(StoreError::unreadable),
        Err(refusal) => Ok(Err(refusal)),
    }
}
