//! Calls of the scripts that only read jobs.

use async_trait::async_trait;
use futures::future::join_all;
use redis::Cmd;

use super::{
    RedisStore,
    commands::{self, each_job, selected},
    preflight::requirements,
    reply::{Values, state_of},
};
use crate::{
    job::{Bucket, Job, JobId, State, Topic, Topics, UnixMillis},
    store::{
        JobPage, JobRange, JobReads, JobRef, Matched, Parts, Peek, ReservedPage, Selection, Steps,
        StoreError, StoreResult, StoreResults, Target, TopicPage, TopicPeek, Usage,
        topics::overdue,
    },
};

/// Maximum number of topics that one script reads.
const TOPICS_PER_SCRIPT: usize = 200;
/// Number of jobs of one topic and state, over all buckets, whose bodies are measured to estimate
/// the sizes of the others. A call then takes Redis at most a few milliseconds.
const SAMPLE: usize = 512;
/// Minimum number of measured jobs per bucket, for any number of buckets.
const MIN_MEASURED_PER_BUCKET: usize = 8;

#[async_trait]
impl JobReads for RedisStore {
    async fn get(&self, bucket: Bucket, target: Target) -> StoreResult<Option<Job>> {
        let (id, parts) = (target.id.clone(), [(bucket, vec![target])]);
        let read = |reply: &mut Values, _: &Vec<Target>| reply.job(id.clone());
        let script = &self.scripts.get;
        let found = self.each_guarded(script, &parts, each_job(commands::target), read).await;
        found.into_iter().next().unwrap_or(Ok(None))
    }

    async fn list(
        &self,
        bucket: Bucket,
        topic: Topic,
        state: State,
        range: JobRange,
    ) -> StoreResult<JobPage> {
        let JobRange { filter, after, limit } = range;
        let selection = Selection { topic, state, filter, after, limit };
        let fill = |cmd: &mut Cmd| selected(cmd, &selection);
        let mut reply = self.run(&self.scripts.list, bucket, fill).await?;
        let examined = usize::try_from(reply.number()?).unwrap_or(usize::MAX);
        let mut page = JobPage { examined, next: reply.position()?, ..JobPage::default() };
        while reply.left() > 0 {
            match reply.listed()? {
                Ok(job) => page.jobs.push(job),
                Err(damaged) => page.damaged.push(damaged),
            }
        }
        Ok(page)
    }

    async fn count_matching(
        &self,
        bucket: Bucket,
        selection: Selection,
    ) -> StoreResult<Matched<u64>> {
        let fill = |cmd: &mut Cmd| selected(cmd, &selection);
        let mut reply = self.run(&self.scripts.count_matching, bucket, fill).await?;
        Ok(Matched { done: reply.number()?, next: reply.position()? })
    }

    async fn held(
        &self,
        bucket: Bucket,
        topic: Topic,
        cursor: Option<String>,
    ) -> StoreResult<ReservedPage> {
        let fill = |cmd: &mut Cmd| {
            cmd.arg(topic.as_str()).arg(cursor.as_deref().unwrap_or("0"));
        };
        let mut reply = self.run(&self.scripts.held, bucket, fill).await?;
        let mut page = ReservedPage {
            next: Some(reply.text()?).filter(|next| next != "0"),
            ..ReservedPage::default()
        };
        while reply.left() > 0 {
            let id = reply.parsed()?;
            let reservation = reply.text()?.parse().ok();
            page.held.push(JobRef { id, reservation, topics: Topics::ALL });
        }
        Ok(page)
    }

    async fn peek(&self, parts: Parts<Vec<Topic>>, deadlines: bool) -> StoreResults<Peek> {
        let at_once = if self.nodes.is_one() { parts.len().max(1) } else { 1 };
        let peeks = parts.chunks(at_once).map(async |parts| {
            match self.peek_together(parts, deadlines).await {
                Ok(peeks) => peeks,
                Err(error) => parts.iter().map(|_| Err(error.clone())).collect::<Vec<_>>(),
            }
        });
        join_all(peeks).await.into_iter().flatten().collect()
    }

    async fn states(&self, parts: Parts<Vec<JobId>>) -> StoreResults<Vec<Option<State>>> {
        let fill = |cmd: &mut Cmd, _, ids: &Vec<JobId>| {
            for id in ids {
                cmd.arg(id.as_str());
            }
        };
        let state = |reply: &mut Values| match reply.int()? {
            0 => Ok(None),
            code => state_of(code).map(Some),
        };
        let read =
            |reply: &mut Values, ids: &Vec<JobId>| ids.iter().map(|_| state(reply)).collect();
        self.run_each(&self.scripts.states, &parts, fill, read).await
    }

    async fn topics(
        &self,
        bucket: Bucket,
        page: TopicPage,
    ) -> StoreResult<Vec<(Topic, TopicPeek)>> {
        // Names consist of letters, digits, dots, underscores and hyphens, all of which sort before
        // this byte.
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

    async fn topic(&self, bucket: Bucket, topic: Topic) -> StoreResult<TopicPeek> {
        let fill = |cmd: &mut Cmd| {
            cmd.arg(topic.as_str());
        };
        let mut reply = self.run(&self.scripts.topic, bucket, fill).await?;
        let now = reply.millis()?;
        topic_peek(&mut reply, now)
    }

    async fn due_counts(
        &self,
        bucket: Bucket,
        topic: Topic,
        steps: Steps,
    ) -> StoreResult<Vec<u64>> {
        let fill = |cmd: &mut Cmd| {
            cmd.arg(topic.as_str()).arg(steps.from.get()).arg(steps.step.get()).arg(steps.count);
        };
        let mut reply = self.run(&self.scripts.due_counts, bucket, fill).await?;
        (0..steps.count).map(|_| reply.number()).collect()
    }

    async fn topic_usage(&self, topic: Topic) -> StoreResult<Usage> {
        let sample = (SAMPLE / usize::from(self.buckets.get())).max(MIN_MEASURED_PER_BUCKET);
        let begin: f64 = rand::random();
        let fill = |cmd: &mut Cmd, _, _: &()| {
            cmd.arg(topic.as_str()).arg(sample).arg(begin);
        };
        let read = |reply: &mut Values, _: &()| {
            Ok(Usage { jobs: reply.number()?, bytes: reply.number()? })
        };
        let each = self.run_each(&self.scripts.topic_usage, &self.every_bucket(), fill, read).await;
        each.into_iter().try_fold(Usage::default(), |sum, part| Ok(sum.plus(part?)))
    }

    async fn usage(&self) -> StoreResult<Usage> {
        let read = |reply: &mut Values, _: &()| reply.number();
        let counts =
            self.run_each(&self.scripts.usage, &self.every_bucket(), |_, _, _| {}, read).await;
        let jobs = counts.into_iter().sum::<StoreResult<u64>>()?;
        let mut bytes = 0;
        for master in self.nodes.all() {
            let info = master.node.command(&redis::cmd("INFO")).await;
            let info = info.map_err(|failure| failure.error)?;
            let info: String = redis::from_redis_value(info).map_err(StoreError::unreadable)?;
            let used = requirements::used_memory(&info);
            bytes += used.ok_or_else(|| StoreError::unreadable("an INFO without used_memory"))?;
        }
        Ok(Usage { jobs, bytes })
    }
}

impl RedisStore {
    fn every_bucket(&self) -> Vec<(Bucket, ())> {
        self.buckets.all().map(|bucket| (bucket, ())).collect()
    }
}

fn topic_peek(reply: &mut Values, now: UnixMillis) -> StoreResult<TopicPeek> {
    let counts = reply.counts()?;
    let (next_due_at, oldest) = (reply.maybe_millis()?, reply.maybe_millis()?);
    let oldest_ready_age = oldest.map(|at| now.since(at));
    let overdue = overdue(next_due_at, now);
    Ok(TopicPeek { counts, next_due_at, oldest_ready_age, overdue })
}
