//! What is told of topics: the calls of their scripts.

use redis::Cmd;

use super::{RedisStore, reply::Values};
use crate::{
    job::{Bucket, State, Topic, UnixMillis},
    store::{JobPage, JobRange, Steps, StoreResult, TopicPage, TopicPeek, topics::overdue},
};

/// Topics of one script.
const TOPICS_PER_SCRIPT: usize = 200;

/// What is told of one topic.
fn topic_peek(reply: &mut Values, now: UnixMillis) -> StoreResult<TopicPeek> {
    let counts = reply.counts()?;
    let (next_due_at, oldest) = (reply.maybe_millis()?, reply.maybe_millis()?);
    let oldest_ready_age = oldest.map(|at| now.since(at));
    let overdue = overdue(next_due_at, now);
    Ok(TopicPeek { counts, next_due_at, oldest_ready_age, overdue })
}

impl RedisStore {
    pub(super) async fn topics_page(
        &self,
        bucket: Bucket,
        page: TopicPage,
    ) -> StoreResult<Vec<(Topic, TopicPeek)>> {
        // Names are of letters, digits, dot, line and dash: all before this byte.
        let last =
            if page.prefix.is_empty() { "+".to_owned() } else { format!("[{}\x7f", page.prefix) };
        let (mut topics, mut after) = (Vec::new(), page.after);
        while topics.len() < page.limit {
            let limit = TOPICS_PER_SCRIPT.min(page.limit - topics.len());
            let first = match (&after, page.prefix.as_str()) {
                (Some(after), prefix) if after.as_str() >= prefix => format!("({after}"),
                (_, "") => "-".to_owned(),
                (_, prefix) => format!("[{prefix}"),
            };
            let fill = |cmd: &mut Cmd| {
                cmd.arg(&first).arg(&last).arg(limit);
            };
            let mut reply = self.run(&self.scripts.topics, bucket, fill).await?;
            let (before, now) = (topics.len(), reply.millis()?);
            while reply.left() > 0 {
                topics.push((reply.parsed()?, topic_peek(&mut reply, now)?));
            }
            if topics.len() < before + limit {
                break;
            }
            after = topics.last().map(|(topic, _): &(Topic, TopicPeek)| topic.clone());
        }
        Ok(topics)
    }

    pub(super) async fn topic_peek(&self, bucket: Bucket, topic: Topic) -> StoreResult<TopicPeek> {
        let fill = |cmd: &mut Cmd| {
            cmd.arg(topic.as_str());
        };
        let mut reply = self.run(&self.scripts.topic, bucket, fill).await?;
        let now = reply.millis()?;
        topic_peek(&mut reply, now)
    }

    pub(super) async fn count_due(
        &self,
        bucket: Bucket,
        topic: &Topic,
        steps: Steps,
    ) -> StoreResult<Vec<u64>> {
        let fill = |cmd: &mut Cmd| {
            cmd.arg(topic.as_str()).arg(steps.from.get()).arg(steps.step.get()).arg(steps.count);
        };
        let mut reply = self.run(&self.scripts.due, bucket, fill).await?;
        (0..steps.count).map(|_| reply.number()).collect()
    }

    pub(super) async fn list_page(
        &self,
        bucket: Bucket,
        topic: Topic,
        state: State,
        range: JobRange,
    ) -> StoreResult<JobPage> {
        let time = |at: Option<UnixMillis>| at.map_or_else(String::new, |at| at.get().to_string());
        let fill = |cmd: &mut Cmd| {
            cmd.arg(topic.as_str()).arg(state.name()).arg(range.limit);
            match &range.after {
                Some(place) => cmd.arg(place.at.get()).arg(&place.tie),
                None => cmd.arg(time(range.from)).arg(""),
            };
            cmd.arg(time(range.before));
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
}
