//! Topic settings: pause, and defaults for new jobs.
//!
//! In addition to the hashes of pauses and defaults, a log has their last changes: a server that
//! knows a version reads only the topics that changed since. Reads go in pages, so that they do not
//! block Redis.

use std::collections::BTreeSet;

use async_trait::async_trait;
use redis::{Pipeline, Value};

use super::{RedisStore, StoreError, keys, reply::Values, scripts};
use crate::{
    job::{
        Millis, Pause, PolicyFields, Schedule, SettingsChanges, Topic, TopicChange, TopicSettings,
        UnixMillis,
    },
    store::{Now, StoreResult, TopicSettingsStore},
};

/// Changes that the log keeps. A server that missed more reads all settings.
const LOGGED: usize = 10_000;
/// Entries of the log, or of a hash, that one command reads.
const PAGE: usize = 500;

#[async_trait]
impl TopicSettingsStore for RedisStore {
    async fn set_paused(&self, topic: Topic, paused: bool) -> StoreResult<()> {
        self.set_pause(&topic, paused.then_some(Pause::OPEN), None).await
    }

    async fn pause_until(&self, topic: Topic, end: Schedule) -> StoreResult<UnixMillis> {
        let until = self.time_of_settings().await?.end(end);
        self.set_pause(&topic, Some(Pause { until: Some(until) }), None).await?;
        Ok(until)
    }

    async fn end_pause(&self, topic: Topic, until: UnixMillis) -> StoreResult<Millis> {
        let left = until.since(self.believed_now(self.time_of_settings().await?).floor);
        if left == Millis::ZERO {
            self.set_pause(&topic, None, Some(Pause { until: Some(until) })).await?;
        }
        Ok(left)
    }

    async fn set_defaults(&self, topic: Topic, defaults: Option<PolicyFields>) -> StoreResult<()> {
        let text = defaults.map(|defaults| serde_json::to_string(&defaults));
        let text = text.transpose().map_err(StoreError::unavailable)?;
        self.set(keys::defaults(&self.prefix), &topic, text, None).await
    }

    async fn settings(&self, known: u64) -> StoreResult<Option<SettingsChanges>> {
        let key = keys::version(&self.prefix);
        let version = self.nodes.command(keys::slot(&key), redis::cmd("GET").arg(&key)).await?;
        let version: Option<u64> =
            redis::from_redis_value(version).map_err(StoreError::unreadable)?;
        let version = version.unwrap_or_default();
        if version == known {
            return Ok(None);
        }
        match self.changes(known, version).await? {
            Some((version, topics)) => {
                let topics = self.changed(topics.into_iter().collect()).await?;
                Ok(Some(SettingsChanges::Changed { version, topics }))
            }
            // Changes during this read are in the log after this version, and are read next.
            None => Ok(Some(SettingsChanges::All(self.all_settings(version).await?))),
        }
    }
}

impl RedisStore {
    /// Reads the topics changed after version `known`, at least up to `version`, and the version of
    /// the last change. None if the log does not begin with `known`: it was trimmed since, or a
    /// failover has lost changes that this server knows.
    async fn changes(
        &self,
        known: u64,
        version: u64,
    ) -> StoreResult<Option<(u64, BTreeSet<Topic>)>> {
        if version < known {
            return Ok(None);
        }
        let key = keys::changes(&self.prefix);
        let (mut at, mut topics) = (known, BTreeSet::new());
        loop {
            let mut range = redis::cmd("ZRANGE");
            range.arg(&key).arg(at).arg("+inf").arg("BYSCORE").arg("LIMIT").arg(0).arg(PAGE);
            let mut page = Values::new(self.nodes.command(keys::slot(&key), &range).await?)?;
            let count = page.left();
            for index in 0..count {
                let Some((number, topic)) = change(&page.text()?) else { return Ok(None) };
                match index {
                    0 if number != at => return Ok(None),
                    0 => {}
                    _ => {
                        at = number;
                        topics.insert(topic);
                    }
                }
            }
            match count {
                0 => return Ok(None),
                PAGE => {}
                _ => return Ok(Some((at, topics)).filter(|_| at >= version)),
            }
        }
    }

    /// Reads the present settings of these topics.
    async fn changed(&self, topics: Vec<Topic>) -> StoreResult<Vec<TopicChange>> {
        let (paused, defaults) = (keys::paused(&self.prefix), keys::defaults(&self.prefix));
        let mut all = Vec::with_capacity(topics.len());
        for page in topics.chunks(PAGE) {
            let mut pipeline = Pipeline::with_capacity(2);
            for key in [&paused, &defaults] {
                pipeline.cmd("HMGET").arg(key);
                for topic in page {
                    pipeline.arg(topic.as_str());
                }
            }
            let answers = self.nodes.pipeline(keys::slot(&paused), &pipeline).await?;
            let mut words = answers.into_iter().map(|answer| {
                redis::from_redis_value::<Vec<Option<String>>>(answer?)
                    .map_err(StoreError::unreadable)
            });
            let mut next = || words.next().unwrap_or_else(|| Ok(Vec::new()));
            let (paused, defaults) = (next()?, next()?);
            for ((topic, paused), text) in page.iter().zip(paused).zip(defaults) {
                let defaults = text.and_then(|text| read(topic, &text));
                let topic = topic.clone();
                all.push(TopicChange { topic, pause: paused.map(|text| pause(&text)), defaults });
            }
        }
        Ok(all)
    }

    async fn all_settings(&self, version: u64) -> StoreResult<TopicSettings> {
        let mut settings = TopicSettings { version, ..TopicSettings::default() };
        for (topic, text) in self.scan(&keys::paused(&self.prefix)).await? {
            settings.paused.insert(topic, pause(&text));
        }
        for (topic, text) in self.scan(&keys::defaults(&self.prefix)).await? {
            if let Some(own) = read(&topic, &text) {
                settings.defaults.insert(topic, own);
            }
        }
        Ok(settings)
    }

    /// Reads a hash in pages. Entries present all the time are returned at least once.
    async fn scan(&self, key: &str) -> StoreResult<Vec<(Topic, String)>> {
        let (mut cursor, mut all) = (0_u64, Vec::new());
        loop {
            let mut scan = redis::cmd("HSCAN");
            scan.arg(key).arg(cursor).arg("COUNT").arg(PAGE);
            let answer: Value = self.nodes.command(keys::slot(key), &scan).await?;
            let mut answer = Values::new(answer)?;
            cursor = answer.parsed()?;
            let mut page = answer.inner()?;
            while page.left() > 0 {
                all.push((page.parsed()?, page.text()?));
            }
            if cursor == 0 {
                return Ok(all);
            }
        }
    }

    /// Returns `now`, or an earlier time if the clock of a bucket has jumped ahead. The buckets on
    /// the server of the settings are unknown, so the clocks of all buckets count.
    fn believed_now(&self, now: Now) -> Now {
        if self.clock.given().is_some() {
            return now;
        }
        let buckets = self.buckets.all().map(|bucket| self.watch.bounded(bucket.index(), now));
        buckets.min_by_key(|now| now.floor).unwrap_or(now)
    }

    /// Reads the time of the server that has the settings.
    async fn time_of_settings(&self) -> StoreResult<Now> {
        if self.clock.given().is_some() {
            return Ok(self.clock.now());
        }
        let slot = keys::slot(&keys::version(&self.prefix));
        let mut time = Values::new(self.nodes.command(slot, &redis::cmd("TIME")).await?)?;
        let (seconds, micros): (u64, u64) = (time.parsed()?, time.parsed()?);
        Ok(Now::of_micros(seconds.saturating_mul(1_000_000).saturating_add(micros)))
    }

    /// Pauses or resumes a topic; with `only`, just if its present pause equals that.
    async fn set_pause(
        &self,
        topic: &Topic,
        pause: Option<Pause>,
        only: Option<Pause>,
    ) -> StoreResult<()> {
        let text = |pause: Pause| pause.to_stored().to_string();
        let key = keys::paused(&self.prefix);
        self.set(key, topic, pause.map(text), only.map(text)).await
    }

    /// Changes a setting of a topic, the version, and the log; with `only`, just if the present
    /// value equals that.
    async fn set(
        &self,
        key: String,
        topic: &Topic,
        value: Option<String>,
        only: Option<String>,
    ) -> StoreResult<()> {
        self.incarnations.check()?;
        let (value, only) = (value.unwrap_or_default(), only.unwrap_or_default());
        let version = keys::version(&self.prefix);
        let changes = keys::changes(&self.prefix);
        let set = |_| {
            let mut eval = redis::cmd("EVAL");
            eval.arg(scripts::SET_TOPIC).arg(3).arg(&key).arg(&version).arg(&changes);
            eval.arg(topic.as_str()).arg(&value).arg(LOGGED).arg(&only);
            eval
        };
        let confirm = keys::confirm_topics(&self.prefix);
        self.nodes.script(keys::slot(&version), Some(&confirm), set).await?;
        Ok(())
    }
}

/// Parses a persisted pause; an unreadable one has no end.
fn pause(text: &str) -> Pause {
    text.parse().ok().and_then(Pause::from_stored).unwrap_or(Pause::OPEN)
}

/// Parses an entry of the log: `<version> <topic>`.
fn change(entry: &str) -> Option<(u64, Topic)> {
    let (version, topic) = entry.split_once(' ')?;
    Some((version.parse().ok()?, topic.parse().ok()?))
}

/// Parses persisted defaults; ignores unreadable ones.
fn read(topic: &Topic, text: &str) -> Option<PolicyFields> {
    match serde_json::from_str(text) {
        Ok(own) => Some(own),
        Err(error) => {
            tracing::error!(%topic, %error, "skipped unreadable defaults of a topic");
            None
        }
    }
}
