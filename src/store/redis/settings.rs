//! Topic settings: a hash for each kind, with a text for each topic.
//!
//! In addition to the hashes, a log contains their last changes. So a server
//! that knows a version reads only the topics that have changed since then. Reads go in pages, so
//! that they do not block Redis.

use std::collections::BTreeSet;

use async_trait::async_trait;
use redis::{Pipeline, Value};

use super::{RedisStore, StoreError, keys, reply::Values, scripts};
use crate::{
    job::{
        Millis, Pause, Schedule, Setting, SettingKind, SettingsChanges, Topic, TopicSettings,
        UnixMillis,
    },
    store::{Now, SettingCondition, StoreResult, TopicSettingsStore},
};

/// Maximum number of changes in the log. A server that has missed more reads all settings.
const LOGGED: usize = 10_000;
/// Answer of `set_topic.lua` if the condition forbids the change.
const REFUSED: i64 = 1;
/// Condition of `set_topic.lua` that there is no value. No setting has this text.
const NONE: &str = "-";
/// Entries of the log, or of a hash, that one command reads.
const PAGE: usize = 500;

#[async_trait]
impl TopicSettingsStore for RedisStore {
    async fn change_setting(
        &self,
        setting: Setting,
        condition: SettingCondition,
    ) -> StoreResult<bool> {
        self.incarnations.check()?;
        let (only, target) = match &condition {
            SettingCondition::Always => ("", ""),
            SettingCondition::Is(text) => (text.as_deref().unwrap_or(NONE), ""),
            SettingCondition::DoesNotLeadBack(topic) => ("", topic.as_str()),
        };
        let key = keys::setting(&self.prefix, setting.kind);
        let version = keys::version(&self.prefix);
        let changes = keys::changes(&self.prefix);
        let set = |_| {
            let mut eval = redis::cmd("EVAL");
            eval.arg(scripts::SET_TOPIC).arg(3).arg(&key).arg(&version).arg(&changes);
            eval.arg(setting.topic.as_str()).arg(setting.text.as_deref().unwrap_or_default());
            eval.arg(LOGGED).arg(only).arg(target);
            eval
        };
        let confirm = keys::confirm_topics(&self.prefix);
        let answer = self.nodes.script(keys::slot(&version), Some(&confirm), set).await?;
        Ok(answer != Value::Int(REFUSED))
    }

    async fn pause_until(&self, topic: Topic, end: Schedule) -> StoreResult<UnixMillis> {
        let until = self.time_of_settings().await?.end(end);
        let setting = Setting::pause(topic, Some(Pause { until: Some(until) }));
        self.change_setting(setting, SettingCondition::Always).await?;
        Ok(until)
    }

    async fn end_pause(&self, topic: Topic, until: UnixMillis) -> StoreResult<Millis> {
        let left = until.since(self.believed_now(self.time_of_settings().await?).floor);
        if left == Millis::ZERO {
            let text = Pause { until: Some(until) }.to_stored().to_string();
            let resumed = Setting::pause(topic, None);
            self.change_setting(resumed, SettingCondition::Is(Some(text))).await?;
        }
        Ok(left)
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
                let settings = self.changed(topics.into_iter().collect()).await?;
                Ok(Some(SettingsChanges::Changed { version, settings }))
            }
            // Changes during this read come after this version in the log, so the next call reads
            // them.
            None => Ok(Some(SettingsChanges::All(self.all_settings(version).await?))),
        }
    }
}

impl RedisStore {
    /// Reads the topics changed after version `known`, at least up to `version`, and the version of
    /// the last change. None if the log does not begin with `known`, because it has been trimmed
    /// since, or because a failover has lost changes that this server knows.
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
    async fn changed(&self, topics: Vec<Topic>) -> StoreResult<Vec<Setting>> {
        let slot = keys::slot(&keys::version(&self.prefix));
        let mut all = Vec::with_capacity(topics.len() * SettingKind::ALL.len());
        for page in topics.chunks(PAGE) {
            let mut pipeline = Pipeline::with_capacity(SettingKind::ALL.len());
            for kind in SettingKind::ALL {
                pipeline.cmd("HMGET").arg(keys::setting(&self.prefix, kind));
                for topic in page {
                    pipeline.arg(topic.as_str());
                }
            }
            let answers = self.nodes.pipeline(slot, &pipeline).await?;
            for (kind, answer) in SettingKind::ALL.into_iter().zip(answers) {
                let texts = redis::from_redis_value::<Vec<Option<String>>>(answer?);
                let texts = texts.map_err(StoreError::unreadable)?;
                let setting =
                    |(topic, text): (&Topic, _)| Setting { topic: topic.clone(), kind, text };
                all.extend(page.iter().zip(texts).map(setting));
            }
        }
        Ok(all)
    }

    async fn all_settings(&self, version: u64) -> StoreResult<TopicSettings> {
        let mut settings = TopicSettings { version, ..TopicSettings::default() };
        for kind in SettingKind::ALL {
            for (topic, text) in self.scan(&keys::setting(&self.prefix, kind)).await? {
                settings.set(Setting { topic, kind, text: Some(text) });
            }
        }
        Ok(settings)
    }

    /// Reads a hash in pages. Returns each entry that exists during the whole scan at least once.
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

    /// Returns `now`, or an earlier time if the clock of a bucket has jumped ahead. It is unknown
    /// which buckets share a server with the settings, so the clocks of all buckets count.
    pub fn believed_now(&self, now: Now) -> Now {
        if self.clock.given().is_some() {
            return now;
        }
        let buckets = self.buckets.all().map(|bucket| self.watch.bounded(bucket.index(), now));
        buckets.min_by_key(|now| now.floor).unwrap_or(now)
    }

    /// Parses the answer to `TIME`, unless a test sets the time.
    pub fn time(&self, answer: Value) -> StoreResult<Now> {
        if self.clock.given().is_some() {
            return Ok(self.clock.now());
        }
        let mut time = Values::new(answer)?;
        let (seconds, micros): (u64, u64) = (time.parsed()?, time.parsed()?);
        Ok(Now::of_micros(seconds.saturating_mul(1_000_000).saturating_add(micros)))
    }

    /// Reads the time of the server that has the settings.
    async fn time_of_settings(&self) -> StoreResult<Now> {
        if self.clock.given().is_some() {
            return Ok(self.clock.now());
        }
        let slot = keys::slot(&keys::version(&self.prefix));
        self.time(self.nodes.command(slot, &redis::cmd("TIME")).await?)
    }
}

/// Parses an entry of the log: `<version> <topic>`.
fn change(entry: &str) -> Option<(u64, Topic)> {
    let (version, topic) = entry.split_once(' ')?;
    Some((version.parse().ok()?, topic.parse().ok()?))
}
