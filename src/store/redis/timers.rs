//! What timers ask, and whether the servers are fit.

use std::time::Instant;

use futures::future::join_all;
use redis::{Cmd, Pipeline, Value};

use super::{RedisStore, keys, reply::Values};
use crate::{
    job::{Bucket, State, Topic, UnixMillis},
    store::{
        Layout, Next, Peek, PromoteCounts, Promoted, StoreError, StoreResult, StoreResults,
        steady::Believed,
    },
};

impl RedisStore {
    pub(super) async fn promote_due(
        &self,
        buckets: Vec<Bucket>,
        limit: usize,
    ) -> StoreResults<Promoted> {
        let believed = |bucket| (bucket, self.believed(bucket));
        let parts: Vec<(Bucket, String)> = buckets.into_iter().map(believed).collect();
        let fill = |cmd: &mut Cmd, believed: &String| {
            cmd.arg(limit).arg(believed);
        };
        let asked = Instant::now();
        let replies =
            self.each(&self.scripts.promote, &parts, fill, |reply, _| promoted(reply)).await;
        let read = parts.iter().zip(replies).map(|(&(bucket, _), reply)| {
            let (promoted, clock) = reply?;
            self.saw_clock(bucket, clock, asked);
            Ok(promoted)
        });
        read.collect()
    }

    pub(super) async fn peek_at(
        &self,
        parts: &[(Bucket, Vec<Topic>)],
        deadlines: bool,
    ) -> StoreResults<Peek> {
        let at_once = if self.nodes.is_one() { parts.len().max(1) } else { 1 };
        let peeks = parts.chunks(at_once).map(async |parts| {
            match self.peek_together(parts, deadlines).await {
                Ok(peeks) => peeks.into_iter().map(Ok).collect(),
                Err(error) => parts.iter().map(|_| Err(error.clone())).collect::<Vec<_>>(),
            }
        });
        join_all(peeks).await.into_iter().flatten().collect()
    }

    /// Peeks at buckets whose keys may go in one command. An idle store has no deadlines: one command
    /// finds that out, instead of one per bucket.
    async fn peek_together(
        &self,
        parts: &[(Bucket, Vec<Topic>)],
        deadlines: bool,
    ) -> StoreResult<Vec<Peek>> {
        let keys = || parts.iter().map(|(bucket, _)| &self.keys[bucket.index()]);
        let mut pipeline = Pipeline::new();
        pipeline.cmd("MGET").arg(keys().map(|keys| &keys.incarnation).collect::<Vec<_>>());
        if deadlines {
            pipeline.cmd("EXISTS").arg(keys().map(|keys| &keys.bucket).collect::<Vec<_>>());
        }
        for (keys, (_, topics)) in keys().zip(parts) {
            for topic in topics {
                pipeline.cmd("ZCARD").arg(keys.topic(State::Ready, topic));
            }
        }
        let (mut answers, mut micros) = self.ask_with_time(parts, pipeline).await?;
        let mut incarnations = answers.inner()?;
        let mut nexts = Vec::new();
        if deadlines && answers.number()? > 0 {
            let mut pipeline = Pipeline::new();
            for keys in keys() {
                pipeline.cmd("ZRANGE").arg(&keys.bucket).arg(0).arg(0).arg("WITHSCORES");
            }
            let (mut answers, later) = self.ask_with_time(parts, pipeline).await?;
            micros = later;
            for _ in parts {
                let mut next = answers.inner()?;
                let has_one = next.left() == 2;
                nexts.push(if has_one { next.text().and(next.text())? } else { String::new() });
            }
        }
        nexts.resize(parts.len(), String::new());
        let mut peeks = Vec::with_capacity(parts.len());
        for ((bucket, topics), next) in parts.iter().zip(nexts) {
            self.compare_incarnation(*bucket, incarnations.maybe_text()?).await;
            let ready = topics.iter().map(|_| answers.number()).collect::<Result<_, _>>()?;
            peeks.push(Peek { next: deadline(&next, micros)?, ready });
        }
        Ok(peeks)
    }

    /// The answers of the server that has these buckets, and its time in microseconds.
    async fn ask_with_time(
        &self,
        parts: &[(Bucket, Vec<Topic>)],
        mut pipeline: Pipeline,
    ) -> StoreResult<(Values, u64)> {
        let given = self.clock.given();
        if given.is_none() {
            pipeline.cmd("TIME");
        }
        let asked = Instant::now();
        let slot = parts.first().map_or(0, |(first, _)| self.keys[first.index()].slot);
        let mut answers = self.nodes.pipeline(slot, &pipeline).await?;
        let micros = match given {
            Some(time) => time.get().saturating_mul(1_000),
            None => {
                let mut time = Values::new(answers.pop().unwrap_or(Value::Nil))?;
                let (seconds, micros): (u64, u64) = (time.parsed()?, time.parsed()?);
                seconds.saturating_mul(1_000_000).saturating_add(micros)
            }
        };
        parts.iter().for_each(|(bucket, _)| self.saw_clock(*bucket, micros, asked));
        Ok((Values::new(Value::Array(answers))?, micros))
    }

    /// What is believed of the bucket's clock, as scripts take it: the latest time that is no jump, and the time that
    /// holds after a jump. Empty until it was read.
    pub fn believed(&self, bucket: Bucket) -> String {
        let text = |Believed { latest, expected }| format!("{} {}", latest.get(), expected.get());
        self.watch.believed(bucket.index()).map_or_else(String::new, text)
    }

    /// Compares the clock of the bucket's server with this process's own, unless a test sets it.
    fn saw_clock(&self, bucket: Bucket, micros: u64, asked: Instant) {
        if self.clock.given().is_none() {
            self.watch.saw(bucket.index(), micros, asked);
        }
    }

    /// Notices a loss. A bucket without an incarnation gets one, so that the next loss is noticed too;
    /// if that fails, the next poll tries again.
    async fn compare_incarnation(&self, bucket: Bucket, found: Option<String>) {
        if !self.incarnations.compare(bucket, found) {
            return;
        }
        let keys = &self.keys[bucket.index()];
        let mut set = redis::cmd("SET");
        set.arg(&keys.incarnation).arg(self.incarnations.made()).arg("NX").arg("GET");
        match self.nodes.command(keys.slot, &set).await {
            Ok(other) => {
                let other: Option<String> = redis::from_redis_value(other).unwrap_or_default();
                let incarnation = other.unwrap_or_else(|| self.incarnations.made().to_owned());
                self.incarnations.remember(bucket.index(), incarnation);
                self.write_layout().await;
            }
            Err(error) => tracing::warn!(%error, "failed to write the incarnation of a bucket"),
        }
    }

    /// An emptied Redis has lost the layout as well: without it, a server with another number of
    /// buckets could begin beside this one.
    async fn write_layout(&self) {
        let (key, own) = (keys::layout(&self.prefix), Layout::new(self.buckets).text());
        let mut set = redis::cmd("SET");
        set.arg(&key).arg(&own).arg("NX").arg("GET");
        match self.nodes.command(keys::slot(&key), &set).await.map(redis::from_redis_value) {
            Ok(Ok(None::<String>)) => {}
            Ok(Ok(Some(found))) if found == own => {}
            Ok(found) => tracing::error!(?found, own, "the store has another layout now: restart"),
            Err(error) => tracing::warn!(%error, "failed to write the layout again"),
        }
    }

    /// Whether a server, at least, is there and fit: where there are several, the others' buckets
    /// refuse for themselves.
    pub async fn check_servers(&self) -> StoreResult<()> {
        let mut last = StoreError::away("the store has no server");
        for master in self.nodes.all() {
            match master.node.command(&redis::cmd("INFO")).await {
                Ok(info) => {
                    let info: String =
                        redis::from_redis_value(info).map_err(StoreError::unreadable)?;
                    match self.preflight.fitness(&info) {
                        Ok(_) => return Ok(()),
                        Err(why) => last = StoreError::away(why),
                    }
                }
                Err(failure) => last = failure.error,
            }
        }
        Err(last)
    }
}

/// What a promote has done in one bucket, and the clock of its server in microseconds.
fn promoted(reply: &mut Values) -> StoreResult<(Promoted, u64)> {
    let next = reply.text()?;
    let (micros, clock) = (reply.number()?, reply.number()?);
    let mut topics = Vec::with_capacity(reply.left() / 5);
    while reply.left() > 0 {
        let topic = reply.parsed()?;
        let (ready, expired) = (reply.number()?, reply.number()?);
        let moves = PromoteCounts { ready, expired, dead: reply.number()?, gone: reply.number()? };
        topics.push((topic, moves));
    }
    Ok((Promoted { topics, next: deadline(&next, micros)? }, clock))
}

/// The deadline that a script or command names; empty if there is none.
fn deadline(text: &str, micros: u64) -> Result<Option<Next>, StoreError> {
    if text.is_empty() {
        return Ok(None);
    }
    let at = text.parse().map(UnixMillis::new).map_err(StoreError::unreadable)?;
    Ok(Some(Next::seen(at, micros)))
}
