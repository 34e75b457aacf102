//! Jobs on Redis: each transition is one script on the keys of one bucket.
//!
//! The scripts hold all that matters; here are only their calls. A bucket's keys lie in one slot,
//! so it is the same on one Redis, under Sentinel, and on a cluster: only the way to the server
//! that has the bucket differs (`servers/`).

mod codec;
mod doctor;
mod epoch;
mod hints;
mod keys;
mod options;
mod pop;
mod reply;
mod reschedule;
mod restore;
mod scripts;
mod servers;
mod settings;
mod timers;
mod topics;
mod url;

use std::sync::Arc;

use async_trait::async_trait;
use redis::Cmd;

use self::{
    codec::{error_text, long_body, schedule_text},
    epoch::Epochs,
    hints::Hints,
    keys::Keys,
    reply::Values,
    scripts::{Scripts, Transition, held, ids, millis_text},
    servers::{Nodes, Opened, opening::Opening},
};
use super::{
    Applied, Bury, Clock, ClockJumps, Counts, Heard, Held, HeldPage, Hint, JobPage, Look, Moved,
    OpenError, Options, Outcome, Place, Placed, Popped, Promoted, Release, Reply, Store,
    StoreError, TopicLook, TopicPage, Touch, Want, steady::ClockWatch,
};
use crate::job::{
    Bucket, Buckets, Change, Job, JobId, NewJob, Nonce, OnConflict, SettingsNews, State, Topic,
    TopicDefaults, UnixMillis,
};

pub use codec::{Record, record, record_rest};
pub use doctor::{Examined, Server, examine, spread};
pub use options::{Ack, Login, RedisOptions, TlsFiles};
pub use url::{Host, Kind, RedisUrl, Secret};

/// Jobs of one script. While it runs Redis does nothing else, and 250 take it about 3 ms.
const BATCH: usize = 250;

/// The store on Redis.
pub struct RedisStore {
    nodes: Arc<Nodes>,
    keys: Vec<Keys>,
    scripts: Scripts,
    buckets: Buckets,
    clock: Clock,
    opening: Opening,
    epochs: Epochs,
    hints: Hints,
    watch: ClockWatch,
    prefix: String,
}

impl RedisStore {
    /// Connects, judges the servers, and records or compares the layout.
    ///
    /// # Errors
    /// Out of reach, unfit to keep jobs, or made with another layout.
    pub async fn open(redis: RedisOptions, options: Options) -> Result<Self, OpenError> {
        let opened = Nodes::open(&redis, options.buckets).await?;
        let Opened { nodes, keys, buckets, epochs, opening } = opened;
        let nodes = Arc::new(nodes);
        Ok(Self {
            hints: Hints::new(&nodes, &keys),
            nodes,
            keys,
            scripts: Scripts::new(),
            buckets,
            clock: options.clock,
            opening,
            epochs,
            watch: ClockWatch::new(buckets.get().into()),
            prefix: redis.prefix,
        })
    }

    /// Runs a script on a bucket; `fill` adds its arguments.
    async fn run(
        &self,
        transition: &Transition,
        bucket: Bucket,
        fill: impl Fn(&mut Cmd) + Send,
    ) -> Result<Values, StoreError> {
        self.run_as(transition, transition.is_confirmed(), bucket, fill).await
    }

    /// The same, its answer confirmed or not.
    async fn run_as(
        &self,
        transition: &Transition,
        is_confirmed: bool,
        bucket: Bucket,
        fill: impl Fn(&mut Cmd) + Send,
    ) -> Result<Values, StoreError> {
        let keys = &self.keys[bucket.index()];
        let now = self.now();
        let make = move |as_text| {
            let mut cmd = transition.call(keys, &now, as_text);
            fill(&mut cmd);
            cmd
        };
        let confirm = is_confirmed.then_some(keys.confirm.as_str());
        Values::new(self.nodes.script(keys.slot, confirm, make).await?)
    }

    /// The time as scripts take it: empty for the clock of Redis.
    fn now(&self) -> String {
        self.clock.given().map_or_else(String::new, |time| time.get().to_string())
    }
}

#[async_trait]
impl Store for RedisStore {
    fn buckets(&self) -> Buckets {
        self.buckets
    }

    fn batch_limit(&self) -> usize {
        BATCH
    }

    async fn put(&self, bucket: Bucket, jobs: Vec<NewJob>) -> Outcome<Vec<Reply<Placed>>> {
        let fill = |cmd: &mut Cmd| {
            for job in &jobs {
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
                cmd.arg(schedule_text(job.schedule)).arg(codec::record_rest(job)).arg(on_conflict);
                if let Some(body) = long {
                    cmd.arg(&body[..]);
                }
            }
        };
        let mut reply = self.run(&self.scripts.put, bucket, fill).await?;
        jobs.iter().map(|_| reply.placed()).collect()
    }

    async fn restore(&self, bucket: Bucket, jobs: Vec<Job>) -> Outcome<Vec<Reply<()>>> {
        self.restore_batch(bucket, jobs).await
    }

    async fn pop(&self, bucket: Bucket, nonce: Nonce, wants: Vec<Want>) -> Outcome<Vec<Popped>> {
        self.pop_batch(bucket, nonce, &wants).await
    }

    async fn give_back(&self, bucket: Bucket, jobs: Vec<Held>) -> Outcome<Vec<Reply<Topic>>> {
        let fill = |cmd: &mut Cmd| jobs.iter().for_each(|h| held(cmd, h));
        let mut reply = match self.run(&self.scripts.give_back, bucket, fill).await {
            // Nothing was written, perhaps because nothing confirms what was written before.
            Err(StoreError::Unavailable { applied: Applied::No, .. }) => {
                self.run_as(&self.scripts.give_back, false, bucket, fill).await?
            }
            outcome => outcome?,
        };
        jobs.iter().map(|_| topic(reply.reply_text()?)).collect()
    }

    async fn held(
        &self,
        bucket: Bucket,
        topic: Topic,
        cursor: Option<String>,
    ) -> Outcome<HeldPage> {
        let fill = |cmd: &mut Cmd| {
            cmd.arg(topic.as_str()).arg(cursor.as_deref().unwrap_or("0"));
        };
        let mut reply = self.run(&self.scripts.held, bucket, fill).await?;
        let mut page = HeldPage {
            next: Some(reply.text()?).filter(|next| next != "0"),
            ..HeldPage::default()
        };
        while reply.left() > 0 {
            let id = reply.parsed()?;
            let reservation = reply.text()?.parse().ok();
            page.held.push(Held { id, reservation });
        }
        Ok(page)
    }

    async fn finish(&self, bucket: Bucket, jobs: Vec<Held>) -> Outcome<Vec<Reply<Topic>>> {
        let mut reply = self
            .run(&self.scripts.finish, bucket, |cmd| jobs.iter().for_each(|h| held(cmd, h)))
            .await?;
        jobs.iter().map(|_| topic(reply.reply_text()?)).collect()
    }

    async fn release(&self, bucket: Bucket, jobs: Vec<Release>) -> Outcome<Vec<Reply<Moved>>> {
        let fill = |cmd: &mut Cmd| {
            for job in &jobs {
                held(cmd, &job.held);
                cmd.arg(millis_text(job.delay)).arg(error_text(job.error.as_deref()));
            }
        };
        let mut reply = self.run(&self.scripts.release, bucket, fill).await?;
        jobs.iter().map(|_| moved(&mut reply)).collect()
    }

    async fn touch(&self, bucket: Bucket, jobs: Vec<Touch>) -> Outcome<Vec<Reply<UnixMillis>>> {
        let believed = self.believed(bucket);
        let fill = |cmd: &mut Cmd| {
            for job in &jobs {
                held(cmd, &job.held);
                cmd.arg(millis_text(job.ttr)).arg(&believed);
            }
        };
        let mut reply = self.run(&self.scripts.touch, bucket, fill).await?;
        jobs.iter().map(|_| Ok(reply.reply_number()?.map(UnixMillis::new))).collect()
    }

    async fn bury(&self, bucket: Bucket, jobs: Vec<Bury>) -> Outcome<Vec<Reply<Moved>>> {
        let fill = |cmd: &mut Cmd| {
            for job in &jobs {
                held(cmd, &job.held);
                cmd.arg(error_text(job.error.as_deref()));
            }
        };
        let mut reply = self.run(&self.scripts.bury, bucket, fill).await?;
        jobs.iter().map(|_| moved(&mut reply)).collect()
    }

    async fn kick(&self, bucket: Bucket, jobs: Vec<JobId>) -> Outcome<Vec<Reply<Topic>>> {
        let mut reply = self.run(&self.scripts.kick, bucket, |cmd| ids(cmd, &jobs)).await?;
        jobs.iter().map(|_| topic(reply.reply_text()?)).collect()
    }

    async fn delete(&self, bucket: Bucket, jobs: Vec<JobId>) -> Outcome<Vec<Reply<State>>> {
        let mut reply = self.run(&self.scripts.delete, bucket, |cmd| ids(cmd, &jobs)).await?;
        let state = |code: u64| reply::state_of(i64::try_from(code).unwrap_or(0));
        jobs.iter()
            .map(|_| reply.reply_number()?.map(state).map_or_else(|r| Ok(Err(r)), |s| s.map(Ok)))
            .collect()
    }

    async fn reschedule(
        &self,
        bucket: Bucket,
        jobs: Vec<(JobId, Change)>,
    ) -> Outcome<Vec<Reply<Job>>> {
        self.reschedule_parts(bucket, jobs).await
    }

    async fn promote(&self, bucket: Bucket, limit: usize) -> Outcome<Promoted> {
        self.promote_due(bucket, limit).await
    }

    async fn look(&self, bucket: Bucket, topics: Vec<Topic>) -> Outcome<Look> {
        self.look_at(bucket, topics).await
    }

    async fn get(&self, bucket: Bucket, id: JobId) -> Outcome<Option<Job>> {
        let mut reply =
            self.run(&self.scripts.get, bucket, |cmd| ids(cmd, std::slice::from_ref(&id))).await?;
        reply.job(id)
    }

    async fn topics(&self, bucket: Bucket, page: TopicPage) -> Outcome<Vec<(Topic, Counts)>> {
        self.topics_page(bucket, page).await
    }

    async fn topic(&self, bucket: Bucket, topic: Topic) -> Outcome<TopicLook> {
        self.topic_look(bucket, topic).await
    }

    async fn list(
        &self,
        bucket: Bucket,
        topic: Topic,
        state: State,
        after: Option<Place>,
        limit: usize,
    ) -> Outcome<JobPage> {
        self.list_page(bucket, topic, state, after, limit).await
    }

    async fn purge(
        &self,
        bucket: Bucket,
        topic: Topic,
        state: State,
        limit: usize,
    ) -> Outcome<u64> {
        let fill = |cmd: &mut Cmd| {
            cmd.arg(topic.as_str()).arg(state.name()).arg(limit);
        };
        self.run(&self.scripts.purge, bucket, fill).await?.number()
    }

    async fn kick_dead(&self, bucket: Bucket, topic: Topic, limit: usize) -> Outcome<u64> {
        let fill = |cmd: &mut Cmd| {
            cmd.arg(topic.as_str()).arg(limit);
        };
        self.run(&self.scripts.kick_dead, bucket, fill).await?.number()
    }

    async fn set_paused(&self, topic: Topic, paused: bool) -> Outcome<()> {
        self.set(keys::paused(&self.prefix), &topic, paused.then(|| "1".to_owned())).await
    }

    async fn set_defaults(&self, topic: Topic, defaults: Option<TopicDefaults>) -> Outcome<()> {
        let text = defaults.map(|defaults| serde_json::to_string(&defaults));
        let text = text.transpose().map_err(StoreError::away)?;
        self.set(keys::defaults(&self.prefix), &topic, text).await
    }

    async fn settings(&self, known: u64) -> Outcome<Option<SettingsNews>> {
        self.read_settings(known).await
    }

    async fn check(&self) -> Outcome<()> {
        self.epochs.check()?;
        self.check_servers().await
    }

    fn clock_jumps(&self) -> ClockJumps {
        self.watch.jumps()
    }

    fn losses(&self) -> u64 {
        self.epochs.losses()
    }

    fn hear(&self) -> Option<Heard> {
        self.hints.hear()
    }

    fn tell(&self, hint: Hint) {
        self.hints.tell(hint);
    }

    fn are_together(&self, one: Bucket, other: Bucket) -> bool {
        let slot = |bucket: Bucket| self.keys[bucket.index()].slot;
        self.nodes.are_together(slot(one), slot(other))
    }

    async fn servers(&self) -> Outcome<u64> {
        self.hints.listeners().await
    }

    async fn close(&self) {}
}

fn topic(reply: Reply<String>) -> Result<Reply<Topic>, StoreError> {
    match reply {
        Ok(text) => text.parse().map(Ok).map_err(StoreError::unreadable),
        Err(refusal) => Ok(Err(refusal)),
    }
}

fn moved(reply: &mut Values) -> Result<Reply<Moved>, StoreError> {
    let (state, text, due_at) = (reply.reply_number()?, reply.text()?, reply.millis()?);
    let died = reply.int()? == 1;
    let state = match state {
        Ok(code) => reply::state_of(i64::try_from(code).unwrap_or(0))?,
        Err(refusal) => return Ok(Err(refusal)),
    };
    Ok(Ok(Moved { topic: text.parse().map_err(StoreError::unreadable)?, state, due_at, died }))
}
