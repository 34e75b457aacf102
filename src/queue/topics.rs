//! What concerns a topic as a whole, over all buckets.

use std::{collections::BTreeMap, sync::Arc};

use futures::future::try_join_all;

use super::{
    figures::{last_errors::LastError, lateness::LateMinute, stats::Counters, survey::Survey},
    service::Queue,
};
use crate::{
    job::{Bucket, Job, State, Topic},
    store::{
        Applied, Clock, Damaged, JobRange, KickDead, Place, Purge, Steps, StoreError, StoreResult,
        TopicPage, TopicPeek, Usage, verb,
    },
};

/// Jobs of one step of a purge or a kick: few enough that other calls are not held up.
const JOBS_PER_STEP: usize = 200;

/// How often a purge looks whether jobs are left in a bucket: those that come all the time do not keep it going.
const MOST_PASSES: usize = 10;

/// A page of jobs ends when its bodies have so many bytes.
const PAGE_BYTES: usize = 8 << 20;

/// Where a list of jobs goes on: in this bucket, after this place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// The bucket.
    pub bucket: Bucket,
    /// None is its beginning.
    pub after: Option<Place>,
}

/// A page of jobs of one topic and state, over all buckets.
#[derive(Debug, Default)]
pub struct Listed {
    /// The jobs that can be read.
    pub jobs: Vec<Job>,
    /// Those that cannot.
    pub damaged: Vec<Damaged>,
    /// Where the next page begins, if there may be one.
    pub next: Option<Position>,
}

impl Queue {
    /// Topics that have jobs, are paused or have defaults, in the order of their names with the
    /// counts of their jobs and their oldest; and whether there are more after them.
    ///
    /// # Errors
    /// The store's.
    pub async fn topics(&self, page: TopicPage) -> StoreResult<(Vec<(Topic, TopicPeek)>, bool)> {
        let buckets = self.store.buckets().all();
        let calls = buckets.map(|bucket| self.store.topics(bucket, page.clone()));
        let mut sums: BTreeMap<Topic, TopicPeek> = BTreeMap::new();
        let mut more = false;
        // A name among the first of all is among the first of each bucket that has it: so the
        // counts of those that are told of are whole.
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

    /// The first topics of a page that are paused or have defaults, and one more if there is one.
    fn topics_with_settings(&self, page: &TopicPage) -> Vec<Topic> {
        let settings = self.topics.current();
        let all = settings.paused.keys().chain(settings.defaults.keys());
        let on_page = |topic: &&Topic| {
            topic.as_str().starts_with(&page.prefix)
                && page.after.as_ref().is_none_or(|after| *topic > after)
        };
        let mut topics: Vec<&Topic> = all.filter(on_page).collect();
        // A topic may be both paused and have defaults.
        let most = page.limit.saturating_mul(2).saturating_add(2);
        if topics.len() > most {
            topics.select_nth_unstable(most);
            topics.truncate(most);
        }
        topics.into_iter().cloned().collect()
    }

    /// One topic.
    ///
    /// # Errors
    /// The store's.
    pub async fn topic(&self, topic: &Topic) -> StoreResult<TopicPeek> {
        let buckets = self.store.buckets().all();
        let calls = buckets.map(|bucket| self.store.topic(bucket, topic.clone()));
        let peeks = try_join_all(calls).await?;
        Ok(peeks.into_iter().fold(TopicPeek::default(), TopicPeek::plus))
    }

    /// How many jobs a topic has, and about how many bytes their bodies have.
    ///
    /// # Errors
    /// The store's.
    pub async fn weigh(&self, topic: Topic) -> StoreResult<Usage> {
        self.store.weigh(topic).await
    }

    /// How many jobs the whole store has, and how many bytes it takes.
    ///
    /// # Errors
    /// The store's.
    pub async fn usage(&self) -> StoreResult<Usage> {
        self.store.usage().await
    }

    /// Counts the delayed jobs of a topic that fall due in each of these steps.
    ///
    /// # Errors
    /// The store's.
    pub async fn due_counts(&self, topic: &Topic, steps: Steps) -> StoreResult<Vec<u64>> {
        let mut sums = vec![0; steps.count];
        // One bucket after the other: a script with many steps holds up others for a millisecond.
        for bucket in self.store.buckets().all() {
            let counts = self.store.due_counts(bucket, topic.clone(), steps).await?;
            sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        Ok(sums)
    }

    /// What there is, as of at most a minute ago; usually a second, longer the longer it takes to read.
    ///
    /// # Errors
    /// The store's, if no bucket can be read.
    pub async fn survey(&self) -> StoreResult<Arc<Survey>> {
        self.surveys.fresh(&self.store, &self.calls).await
    }

    /// Has a survey made if one is due, and waits for it, but only a moment.
    pub async fn refresh_survey(&self) {
        self.surveys.refresh(&self.store, &self.calls).await;
    }

    /// What this server has done with jobs of a topic since it started.
    pub fn since_start(&self, topic: &Topic) -> Counters {
        self.stats.of(topic)
    }

    /// The same of all topics together.
    pub fn since_start_of_all(&self) -> Counters {
        self.stats.sum()
    }

    /// How late the jobs were that this server handed out in the last hour, by the minute.
    pub fn lateness(&self) -> Vec<LateMinute> {
        self.lateness.minutes(Clock::Own.now().floor)
    }

    /// The last errors that consumers gave to this server.
    pub fn last_errors(&self) -> Vec<LastError> {
        self.last_errors.all()
    }

    /// How many topics are paused.
    pub fn paused_topics(&self) -> usize {
        self.topics.current().paused.len()
    }

    /// Jobs of one topic and state, those of a range, bucket by bucket; fewer than its limit if they are
    /// large. Where it begins in the first bucket, `from` says.
    ///
    /// # Errors
    /// The store's.
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
                bytes += page.jobs.iter().map(|job| job.body.len()).sum::<usize>();
                listed.jobs.extend(page.jobs);
                listed.damaged.extend(page.damaged);
                match page.next {
                    Some(place) => after = Some(place),
                    None => break,
                }
            }
        }
        Ok(listed)
    }

    /// The bucket of a position that a client gives.
    pub fn bucket(&self, index: usize) -> Option<Bucket> {
        self.store.buckets().all().nth(index)
    }

    /// Deletes all jobs of a topic, or those of one state; answers how many. Jobs that come
    /// meanwhile may stay.
    ///
    /// # Errors
    /// The store's; then a part may be gone.
    pub async fn purge(&self, topic: &Topic, state: Option<State>) -> StoreResult<u64> {
        let mut purged = 0;
        for bucket in self.store.buckets().all() {
            // While one state is purged, a job may move from another into one that was purged
            // before: a look that finds none, of all states at one moment, is the end.
            for _ in 0..MOST_PASSES {
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

    /// Deletes up to `left` jobs of one bucket and state, step by step, and adds them to `purged`.
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

    /// Makes up to `limit` dead jobs of a topic ready, in each bucket those that died first;
    /// answers how many.
    ///
    /// # Errors
    /// The store's; then a part may be ready.
    pub async fn kick_dead(&self, topic: &Topic, limit: u64) -> StoreResult<u64> {
        let mut kicked = 0;
        let mut buckets: Vec<Bucket> = self.store.buckets().all().collect();
        // A step from each bucket in turn, so that a small limit takes the oldest of all of them.
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

/// An error after some steps went well does not mean that nothing was changed.
fn in_the_middle(error: StoreError, done: u64) -> StoreError {
    match error.applied() {
        Applied::No if done > 0 => StoreError::unknown(error),
        _ => error,
    }
}
