//! What is told of topics, and set for them: the calls of their scripts.

use redis::{Cmd, Pipeline};

use super::{RedisStore, StoreError, keys, reply::Values, scripts};
use crate::{
    job::{Bucket, State, Topic, TopicSettings},
    store::{Counts, JobPage, Outcome, Place, TopicLook, TopicPage},
};

impl RedisStore {
    pub(super) async fn topics_page(
        &self,
        bucket: Bucket,
        page: TopicPage,
    ) -> Outcome<Vec<(Topic, Counts)>> {
        let first = match (&page.after, page.prefix.as_str()) {
            (Some(after), prefix) if after.as_str() >= prefix => format!("({after}"),
            (_, "") => "-".to_owned(),
            (_, prefix) => format!("[{prefix}"),
        };
        // Names are of letters, digits, dot, line and dash: all before this byte.
        let last =
            if page.prefix.is_empty() { "+".to_owned() } else { format!("[{}\x7f", page.prefix) };
        let fill = |cmd: &mut Cmd| {
            cmd.arg(&first).arg(&last).arg(page.limit);
        };
        let mut reply = self.run(&self.scripts.topics, bucket, fill).await?;
        let mut topics = Vec::new();
        while reply.left() > 0 {
            topics.push((reply.parsed()?, reply.counts()?));
        }
        Ok(topics)
    }

    pub(super) async fn topic_look(&self, bucket: Bucket, topic: Topic) -> Outcome<TopicLook> {
        let fill = |cmd: &mut Cmd| {
            cmd.arg(topic.as_str());
        };
        let mut reply = self.run(&self.scripts.topic, bucket, fill).await?;
        let counts = reply.counts()?;
        let (next_due_at, oldest) = (reply.maybe_millis()?, reply.maybe_millis()?);
        let now = reply.millis()?;
        let oldest_ready_age = oldest.map(|at| now.since(at));
        Ok(TopicLook { counts, next_due_at, oldest_ready_age })
    }

    pub(super) async fn list_page(
        &self,
        bucket: Bucket,
        topic: Topic,
        state: State,
        after: Option<Place>,
        limit: usize,
    ) -> Outcome<JobPage> {
        let fill = |cmd: &mut Cmd| {
            cmd.arg(topic.as_str()).arg(state.name()).arg(limit);
            match &after {
                Some(place) => cmd.arg(place.at.get()).arg(&place.tie),
                None => cmd.arg("").arg(""),
            };
        };
        let mut reply = self.run(&self.scripts.list, bucket, fill).await?;
        let mut page = JobPage::default();
        let is_more = reply.number()? == 1;
        while reply.left() > 0 {
            let (place, job) = reply.listed()?;
            match job {
                Ok(job) => page.jobs.push(job),
                Err(damaged) => page.damaged.push(damaged),
            }
            page.next = Some(place);
        }
        page.next = page.next.filter(|_| is_more);
        Ok(page)
    }

    pub(super) async fn read_settings(&self, known: u64) -> Outcome<Option<TopicSettings>> {
        let mut get = redis::cmd("GET");
        let key = keys::version(&self.prefix);
        let slot = keys::slot(&key);
        let version = self.nodes.command(slot, get.arg(key)).await?;
        let version: Option<u64> =
            redis::from_redis_value(version).map_err(StoreError::unreadable)?;
        let version = version.unwrap_or_default();
        if version == known {
            return Ok(None);
        }
        // A change in between is read now or again: its version is another.
        let mut pipeline = Pipeline::with_capacity(2);
        pipeline.cmd("HKEYS").arg(keys::paused(&self.prefix));
        pipeline.cmd("HGETALL").arg(keys::defaults(&self.prefix));
        let mut answers = self.nodes.pipeline(slot, &pipeline).await?.into_iter();
        let mut paused = Values::new(answers.next().unwrap_or_default())?;
        let mut defaults = Values::new(answers.next().unwrap_or_default())?;
        let mut settings = TopicSettings { version, ..TopicSettings::default() };
        while paused.left() > 0 {
            settings.paused.insert(paused.parsed()?);
        }
        while defaults.left() > 0 {
            let (topic, text) = (defaults.parsed()?, defaults.text()?);
            match serde_json::from_str(&text) {
                Ok(own) => drop(settings.defaults.insert(topic, own)),
                Err(error) => tracing::error!(%topic, %error, "left unreadable defaults aside"),
            }
        }
        Ok(Some(settings))
    }

    /// Changes what is set for a topic, and its version.
    pub(super) async fn set(
        &self,
        key: String,
        topic: &Topic,
        value: Option<String>,
    ) -> Outcome<()> {
        let (version, value) = (keys::version(&self.prefix), value.unwrap_or_default());
        let set = |_| {
            let mut eval = redis::cmd("EVAL");
            eval.arg(scripts::SET_TOPIC).arg(2).arg(&key).arg(&version);
            eval.arg(topic.as_str()).arg(&value);
            eval
        };
        let confirm = keys::confirm_topics(&self.prefix);
        self.nodes.script(keys::slot(&version), Some(&confirm), set).await?;
        Ok(())
    }
}
