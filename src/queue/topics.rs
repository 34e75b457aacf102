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
        Applied, Clock, Damaged, JobPosition, JobRange, KickDead, Purge, Steps, StoreError,
        StoreResult, TopicPage, TopicPeek, Usage, verb,
    },
};

/// Jobs of one step of a purge or a kick: few enough that other calls are not delayed.
const JOBS_PER_STEP: usize = 200;

/// Maximum number of passes of a purge over a bucket, so that new jobs cannot keep it running.
const MAX_PASSES: usize = 10;

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
        let all = settings.paused.keys().chain(settings.defaults.keys());
        let on_page = |topic: &&Topic| {
            topic.as_str().starts_with(&page.prefix)
                && page.after.as_ref().is_none_or(|after| *topic > after)
        };
        let mut topics: Vec<&Topic> = all.filter(on_page).collect();
        // A topic that is both paused and has defaults is listed twice.
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
    /// Returns fewer than the limit if the jobs are large.
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
        let (mut listed, mut bytes) = (Listed::default(), 0);
        for bucket in self.store.buckets().all().skip(first) {
            loop {
                let left = range.limit.saturating_sub(listed.jobs.len() + listed.damaged.len());
                if left == 0 || bytes > PAGE_BYTES {
                    listed.next = Some(Position { bucket, after });
                    return Ok(listed);
                }
                let range = JobRange { after: after.take(), limit: left, ..range.clone() };
                let page = self.store.list(bucket, topic.clone(), state, range).await?;
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

    /// Returns the bucket with an index that a client gave.
    pub fn bucket(&self, index: usize) -> Option<Bucket> {
        self.store.buckets().all().nth(index)
    }

    /// Deletes all jobs of a topic, or those of one state; returns how many. Jobs that arrive
    /// meanwhile may stay.
    ///
    /// # Errors
    /// The error of the store; some jobs may be deleted then.
    pub async fn purge(&self, topic: &Topic, state: Option<State>) -> StoreResult<u64> {
        let mut purged = 0;
        for bucket in self.store.buckets().all() {
            // Meanwhile, a job may move from a state not yet purged to one already purged. The
            // purge ends when one count of all states finds no jobs.
            for _ in 0..MAX_PASSES {
                let there = self.store.topic(bucket, topic.clone()).await;
                let counts = there.map_err(|error| in_the_middle(error, purged))?.counts;
                let asked = |each: &State| state.is_none_or(|one| one == *each);
                let found = State::ALL.into_iter().filter(asked).filter(|one| counts.of(*one) > 0);
                let found: Vec<State> = found.collect();
                if found.is_empty() {
                    break;
                }
                for state in found {
                    self.purge_state(bucket, topic, state, counts.of(state), &mut purged).await?;
                }
            }
        }
        Ok(purged)
    }

    async fn purge_state(
        &self,
        bucket: Bucket,
        topic: &Topic,
        state: State,
        mut left: u64,
        purged: &mut u64,
    ) -> StoreResult<()> {
        while left > 0 {
            let purge = Purge { topic: topic.clone(), state, limit: JOBS_PER_STEP };
            let step = self.store.call_in::<verb::Purge>(bucket, purge).await;
            let gone = step.map_err(|error| in_the_middle(error, *purged))?;
            *purged += gone;
            left = if gone == 0 { 0 } else { left.saturating_sub(gone) };
        }
        Ok(())
    }

    /// Makes up to `limit` dead jobs of a topic ready, in each bucket the jobs that died first;
    /// returns how many.
    ///
    /// # Errors
    /// The error of the store; some jobs may be ready then.
    pub async fn kick_dead(&self, topic: &Topic, limit: u64) -> StoreResult<u64> {
        let mut kicked = 0;
        let mut buckets: Vec<Bucket> = self.store.buckets().all().collect();
        // One step from each bucket in turn, so that a small limit takes the oldest jobs of all.
        while !buckets.is_empty() && kicked < limit {
            let share = (limit - kicked).div_ceil(buckets.len() as u64).min(JOBS_PER_STEP as u64);
            let mut rest = Vec::new();
            for bucket in buckets {
                let step = usize::try_from(share.min(limit - kicked)).unwrap_or(JOBS_PER_STEP);
                if step == 0 {
                    break;
                }
                let kick = KickDead { topic: topic.clone(), limit: step };
                let call = self.store.call_in::<verb::KickDead>(bucket, kick).await;
                let moved = call.map_err(|error| in_the_middle(error, kicked))?;
                if moved > 0 {
                    self.waiters.ready(topic, bucket, moved);
                    kicked += moved;
                }
                if moved == step as u64 {
                    rest.push(bucket);
                }
            }
            buckets = rest;
        }
        Ok(kicked)
    }
}

/// Makes the effect of an error unknown if earlier steps have changed jobs.
fn in_the_middle(error: StoreError, done: u64) -> StoreError {
    match error.applied() {
        Applied::No if done > 0 => StoreError::unknown(error),
        _ => error,
    }
}
