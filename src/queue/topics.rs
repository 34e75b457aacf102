//! Operations on a topic as a whole, over all buckets.

use std::{collections::BTreeMap, sync::Arc};

use futures::future::try_join_all;

use super::{
    figures::{last_errors::LastError, lateness::LateMinute, stats::Counters, survey::Survey},
    service::Queue,
};
use crate::{
    job::{Bucket, Job, State, Topic},
    store::{
        Clock, Damaged, JobPosition, JobRange, MAX_EXAMINED, Steps, StoreResult, TopicPage,
        TopicPeek, Usage,
    },
};

/// Maximum number of jobs that a page compares with its filter.
const MAX_EXAMINED_PER_PAGE: usize = 10_000;

/// Size of bodies in bytes at which a page of jobs ends.
const PAGE_BYTES: usize = 8 << 20;

/// Position in a list of jobs, after which it continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// The bucket.
    pub bucket: Bucket,
    /// Position in the bucket; `None` is its beginning.
    pub after: Option<JobPosition>,
}

/// A page of jobs of one topic and state, over all buckets.
#[derive(Debug, Default)]
pub struct Listed {
    /// The readable jobs.
    pub jobs: Vec<Job>,
    /// The unreadable jobs.
    pub damaged: Vec<Damaged>,
    /// The start of the next page, if there may be one.
    pub next: Option<Position>,
}

impl Queue {
    /// Returns the topics that have jobs, are paused or have defaults, by name, with the counts of
    /// their jobs and their oldest job; and whether more topics follow.
    ///
    /// # Errors
    /// Any error of the store.
    pub async fn topics(&self, page: TopicPage) -> StoreResult<(Vec<(Topic, TopicPeek)>, bool)> {
        let buckets = self.store.buckets().all();
        let calls = buckets.map(|bucket| self.store.topics(bucket, page.clone()));
        let mut sums: BTreeMap<Topic, TopicPeek> = BTreeMap::new();
        let mut more = false;
        // Every bucket lists all its topics of this page, so the sums of a topic are complete.
        for found in try_join_all(calls).await? {
            more |= found.len() == page.limit;
            for (topic, peek) in found {
                let sum = sums.entry(topic).or_default();
                *sum = sum.plus(peek);
            }
        }
        for topic in self.topics_with_settings(&page) {
            sums.entry(topic).or_default();
        }
        more |= sums.len() > page.limit;
        Ok((sums.into_iter().take(page.limit).collect(), more))
    }

    /// Returns enough topics with settings to fill a page and show that more follow.
    fn topics_with_settings(&self, page: &TopicPage) -> Vec<Topic> {
        let settings = self.topics.current();
        let all =
            settings.paused.keys().chain(settings.defaults.keys()).chain(settings.pushes.keys());
        let on_page = |topic: &&Topic| {
            topic.as_str().starts_with(&page.prefix)
                && page.after.as_ref().is_none_or(|after| *topic > after)
        };
        let mut topics: Vec<&Topic> = all.filter(on_page).collect();
        // A topic that is paused and also has defaults is listed twice.
        let most = page.limit.saturating_mul(2).saturating_add(2);
        if topics.len() > most {
            topics.select_nth_unstable(most);
            topics.truncate(most);
        }
        topics.into_iter().cloned().collect()
    }

    /// Returns the counts and ages of one topic.
    ///
    /// # Errors
    /// Any error of the store.
    pub async fn topic(&self, topic: &Topic) -> StoreResult<TopicPeek> {
        let buckets = self.store.buckets().all();
        let calls = buckets.map(|bucket| self.store.topic(bucket, topic.clone()));
        let peeks = try_join_all(calls).await?;
        Ok(peeks.into_iter().fold(TopicPeek::default(), TopicPeek::plus))
    }

    /// Returns the number of jobs of a topic and the approximate size of their bodies in bytes.
    ///
    /// # Errors
    /// Any error of the store.
    pub async fn topic_usage(&self, topic: Topic) -> StoreResult<Usage> {
        self.store.topic_usage(topic).await
    }

    /// Returns the number of jobs in the store and its size in bytes.
    ///
    /// # Errors
    /// Any error of the store.
    pub async fn usage(&self) -> StoreResult<Usage> {
        self.store.usage().await
    }

    /// Counts the delayed jobs of a topic that become due in each of these steps.
    ///
    /// # Errors
    /// Any error of the store.
    pub async fn due_counts(&self, topic: &Topic, steps: Steps) -> StoreResult<Vec<u64>> {
        let mut sums = vec![0; steps.count];
        // Buckets are read in turn: a script with many steps delays other calls by a millisecond.
        for bucket in self.store.buckets().all() {
            let counts = self.store.due_counts(bucket, topic.clone(), steps).await?;
            sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        Ok(sums)
    }

    /// Returns a survey, usually about a second old. It is older if making one takes long, but
    /// never older than a minute.
    ///
    /// # Errors
    /// The error of the store, if no bucket can be read.
    pub async fn survey(&self) -> StoreResult<Arc<Survey>> {
        self.surveys.fresh(&self.store, &self.calls).await
    }

    /// Makes a survey if one is due; waits for it only briefly.
    pub async fn refresh_survey(&self) {
        self.surveys.refresh(&self.store, &self.calls).await;
    }

    /// Returns the counters of a topic since this server started.
    pub fn since_start(&self, topic: &Topic) -> Counters {
        self.stats.of(topic)
    }

    /// Returns the counters of all topics together since this server started.
    pub fn since_start_of_all(&self) -> Counters {
        self.stats.sum()
    }

    /// Returns the lateness of the jobs that this server delivered in the last hour, by the minute.
    pub fn lateness(&self) -> Vec<LateMinute> {
        self.lateness.minutes(Clock::Own.now().floor)
    }

    /// Returns the last errors that consumers reported to this server.
    pub fn last_errors(&self) -> Vec<LastError> {
        self.last_errors.all()
    }

    /// Returns the number of paused topics.
    pub fn paused_topics(&self) -> usize {
        self.topics.current().paused.len()
    }

    /// Lists jobs of one topic and state within a range, bucket by bucket, beginning at `from`.
    /// Returns fewer than the limit if the jobs are large, or few of those examined match.
    ///
    /// # Errors
    /// Any error of the store.
    pub async fn list(
        &self,
        topic: &Topic,
        state: State,
        from: Option<Position>,
        range: &JobRange,
    ) -> StoreResult<Listed> {
        let first = from.as_ref().map_or(0, |position| position.bucket.index());
        let mut after = from.and_then(|position| position.after);
        let (mut listed, mut bytes, mut examined) = (Listed::default(), 0, 0);
        let is_filtered = range.filter.examines(state);
        for bucket in self.store.buckets().all().skip(first) {
            loop {
                let left = range.limit.saturating_sub(listed.jobs.len() + listed.damaged.len());
                let is_enough = is_filtered && examined + MAX_EXAMINED > MAX_EXAMINED_PER_PAGE;
                if left == 0 || bytes > PAGE_BYTES || is_enough {
                    listed.next = Some(Position { bucket, after });
                    return Ok(listed);
                }
                let range = JobRange { after: after.take(), limit: left, ..range.clone() };
                let _turn = self.filter_turn(is_filtered).await;
                let page = self.store.list(bucket, topic.clone(), state, range).await?;
                examined += page.examined;
                bytes += page.jobs.iter().map(Job::content_bytes).sum::<usize>();
                listed.jobs.extend(page.jobs);
                listed.damaged.extend(page.damaged);
                match page.next {
                    Some(position) => after = Some(position),
                    None => break,
                }
            }
        }
        Ok(listed)
    }

    /// Returns the bucket with an index from a client's cursor.
    pub fn bucket(&self, index: usize) -> Option<Bucket> {
        self.store.buckets().all().nth(index)
    }
}
