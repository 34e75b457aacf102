//! Kicks and purges of many jobs of a topic, over all buckets, in small steps between which other
//! calls are served.

use std::time::{Duration, Instant};

use tokio::sync::SemaphorePermit;

use super::{service::Queue, topics::Position};
use crate::{
    job::{Bucket, State, Topic, UnixMillis},
    store::{
        Applied, JobFilter, JobPosition, KickDead, MAX_BATCH, Matched, Purge, ReadyJobs, Selection,
        StoreError, StoreResult, verb,
    },
};

/// Maximum number of jobs that a step changes: few enough that other calls are not delayed. A store
/// may change fewer.
const JOBS_PER_STEP: usize = 200;

/// Maximum number of passes of a purge over a bucket, so that new jobs cannot keep it running.
const MAX_PASSES: usize = 10;

/// How long a kick or purge with a filter runs, and a count of errors.
pub(super) const MAX_RUN: Duration = Duration::from_secs(10);

/// Jobs of a topic to be kicked or purged together.
#[derive(Debug, Clone)]
pub struct Bulk {
    /// Topic of the jobs.
    pub topic: Topic,
    /// Conditions on the jobs.
    pub filter: JobFilter,
    /// Whether the jobs are only counted.
    pub is_dry_run: bool,
}

/// Result of a kick or purge of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BulkDone {
    /// Number of jobs that were changed, or counted.
    pub jobs: u64,
    /// Whether there may be more such jobs.
    pub more: bool,
}

/// A kick or purge on its way through the jobs that match.
struct Walk<'a> {
    queue: &'a Queue,
    bulk: &'a Bulk,
    change: Change,
    begin: Instant,
    /// Number of jobs that were changed, or counted.
    done: u64,
}

#[derive(Clone, Copy)]
enum Change {
    Kick,
    Purge,
}

impl Queue {
    /// Makes up to `limit` dead or delayed jobs of a topic ready: in each bucket the first of
    /// its order.
    ///
    /// # Errors
    /// The error of the store; some jobs may be ready then.
    pub async fn kick_jobs(&self, bulk: &Bulk, state: State, limit: u64) -> StoreResult<BulkDone> {
        let (topic, is_filtered) = (&bulk.topic, !bulk.filter.is_empty());
        if bulk.is_dry_run && !is_filtered {
            let there = self.topic(topic).await?.counts.of(state);
            return Ok(BulkDone { jobs: there.min(limit), more: there > limit });
        }
        if state == State::Dead && !is_filtered {
            let jobs = self.kick_dead(topic, limit).await?;
            // The jobs are ready, even if what is left cannot be counted.
            let left = self.topic(topic).await.map(|topic| topic.counts.of(state));
            return Ok(BulkDone { jobs, more: left.map_or(jobs == limit, |left| left > 0) });
        }
        let mut walk = Walk::new(self, bulk, Change::Kick);
        let start = |bucket| Position { bucket, after: None };
        let mut places: Vec<Position> = self.store.buckets().all().map(start).collect();
        // One step from each bucket in turn, so that a small limit takes the first jobs of all.
        while !places.is_empty() && walk.done < limit {
            let share = (limit - walk.done).div_ceil(places.len() as u64);
            let mut rest = Vec::new();
            for place in places {
                match share.min(limit - walk.done) {
                    0 => rest.push(place),
                    _ if walk.is_over() => return Ok(BulkDone { jobs: walk.done, more: true }),
                    step => rest.extend(walk.step(place, state, step).await?),
                }
            }
            places = rest;
        }
        Ok(BulkDone { jobs: walk.done, more: walk.has_more(places, state).await })
    }

    /// Deletes the jobs of a topic, or those of one state. Jobs that arrive meanwhile may stay.
    ///
    /// # Errors
    /// The error of the store; some jobs may be deleted then.
    pub async fn purge_jobs(&self, bulk: &Bulk, state: Option<State>) -> StoreResult<BulkDone> {
        let is_asked = |each: &State| state.is_none_or(|one| one == *each);
        if bulk.filter.is_empty() {
            if !bulk.is_dry_run {
                return self.purge(&bulk.topic, state).await;
            }
            let counts = self.topic(&bulk.topic).await?.counts;
            let jobs = State::ALL.into_iter().filter(is_asked).map(|each| counts.of(each)).sum();
            return Ok(BulkDone { jobs, more: false });
        }
        let can_match = |each: &State| is_asked(each) && bulk.filter.can_match(*each);
        let states: Vec<State> = State::ALL.into_iter().filter(can_match).collect();
        // Meanwhile, a job may move from a state not yet purged to one already purged.
        let passes = if bulk.is_dry_run || state.is_some() { 1 } else { MAX_PASSES };
        let mut walk = Walk::new(self, bulk, Change::Purge);
        for _ in 0..passes {
            let before = walk.done;
            for bucket in self.store.buckets().all() {
                for &state in &states {
                    if !walk.finish_bucket(bucket, state).await? {
                        return Ok(BulkDone { jobs: walk.done, more: true });
                    }
                }
            }
            if walk.done == before {
                break;
            }
        }
        Ok(BulkDone { jobs: walk.done, more: false })
    }

    /// Waits for the turn of a step that compares jobs with a filter. All of them together add at
    /// most one to the work of the store, however many callers there are.
    pub(super) async fn filter_turn(&self, is_filtered: bool) -> Option<SemaphorePermit<'_>> {
        if !is_filtered {
            return None;
        }
        self.filter_turns.acquire().await.ok()
    }

    /// Deletes all jobs of a topic, or those of one state.
    async fn purge(&self, topic: &Topic, state: Option<State>) -> StoreResult<BulkDone> {
        let (mut purged, mut more) = (0, false);
        for bucket in self.store.buckets().all() {
            // Meanwhile, a job may move from a state not yet purged to one already purged. The
            // purge ends when one count of all states finds no jobs.
            let mut is_empty = false;
            for _ in 0..MAX_PASSES {
                let there = self.store.topic(bucket, topic.clone()).await;
                let counts = there.map_err(|error| in_the_middle(error, purged))?.counts;
                let asked = |each: &State| state.is_none_or(|one| one == *each);
                let found = State::ALL.into_iter().filter(asked).filter(|one| counts.of(*one) > 0);
                let found: Vec<State> = found.collect();
                is_empty = found.is_empty();
                if is_empty {
                    break;
                }
                for state in found {
                    self.purge_state(bucket, topic, state, counts.of(state), &mut purged).await?;
                }
            }
            more |= !is_empty;
        }
        Ok(BulkDone { jobs: purged, more })
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
    async fn kick_dead(&self, topic: &Topic, limit: u64) -> StoreResult<u64> {
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
                self.kicked(topic, bucket, moved);
                kicked += moved.count;
                // A store may do less than it was asked to, so that other calls do not wait.
                if moved.count > 0 {
                    rest.push(bucket);
                }
            }
            buckets = rest;
        }
        Ok(kicked)
    }

    /// Wakes the consumers and the timer for jobs that a kick made ready.
    fn kicked(&self, topic: &Topic, bucket: Bucket, moved: ReadyJobs) {
        if moved.count > 0 {
            self.waiters.ready(topic, bucket, moved);
            // Some may expire: the timer asks the store for its next deadline.
            self.timer.wake_by(bucket, UnixMillis::new(0));
        }
    }
}

impl<'a> Walk<'a> {
    fn new(queue: &'a Queue, bulk: &'a Bulk, change: Change) -> Self {
        Self { queue, bulk, change, begin: Instant::now(), done: 0 }
    }

    fn is_over(&self) -> bool {
        !self.bulk.filter.is_empty() && self.begin.elapsed() >= MAX_RUN
    }

    /// Changes or counts up to `limit` jobs that match; returns the position after them, unless no
    /// jobs follow.
    async fn step(
        &mut self,
        place: Position,
        state: State,
        limit: u64,
    ) -> StoreResult<Option<Position>> {
        let Position { bucket, after } = place;
        let most = match self.bulk.is_dry_run {
            // The order of the jobs decides, so a store may count all of them at once.
            true if !self.bulk.filter.examines(state) => usize::MAX,
            true => MAX_BATCH,
            false => JOBS_PER_STEP,
        };
        let limit = usize::try_from(limit).map_or(most, |limit| limit.min(most));
        let selection = self.selection(state, after, limit);
        let _turn = self.queue.filter_turn(!self.bulk.filter.is_empty()).await;
        let store = &self.queue.store;
        let done: StoreResult<Matched<u64>> = match self.change {
            _ if self.bulk.is_dry_run => store.count_matching(bucket, selection).await,
            Change::Purge => store.call_in::<verb::PurgeMatching>(bucket, selection).await,
            Change::Kick => {
                let kicked = store.call_in::<verb::KickMatching>(bucket, selection).await;
                kicked.map(|kicked| {
                    self.queue.kicked(&self.bulk.topic, bucket, kicked.done);
                    kicked.into()
                })
            }
        };
        let Matched { done, next } = done.map_err(|error| match self.bulk.is_dry_run {
            true => error,
            false => in_the_middle(error, self.done),
        })?;
        self.done += done;
        Ok(next.map(|after| Position { bucket, after: Some(after) }))
    }

    fn selection(&self, state: State, after: Option<JobPosition>, limit: usize) -> Selection {
        let Bulk { topic, filter, .. } = self.bulk;
        Selection { topic: topic.clone(), state, filter: filter.clone(), after, limit }
    }

    /// Steps through all jobs of a bucket and state. Returns false if the time is over before.
    async fn finish_bucket(&mut self, bucket: Bucket, state: State) -> StoreResult<bool> {
        let mut place = Some(Position { bucket, after: None });
        while let Some(next) = place {
            if self.is_over() {
                return Ok(false);
            }
            place = self.step(next, state, u64::MAX).await?;
        }
        Ok(true)
    }

    /// Returns whether more jobs match after these positions, or may match if the time is over.
    async fn has_more(&self, places: Vec<Position>, state: State) -> bool {
        for Position { bucket, mut after } in places {
            loop {
                if self.is_over() {
                    return true;
                }
                let selection = self.selection(state, after, 1);
                let _turn = self.queue.filter_turn(!self.bulk.filter.is_empty()).await;
                match self.queue.store.count_matching(bucket, selection).await {
                    Ok(Matched { done: 0, next: None }) => break,
                    Ok(Matched { done: 0, next }) => after = next,
                    _ => return true,
                }
            }
        }
        false
    }
}

/// Makes the effect of an error unknown if earlier steps have changed jobs.
fn in_the_middle(error: StoreError, done: u64) -> StoreError {
    match error.applied() {
        Applied::No if done > 0 => error.of_part(),
        _ => error,
    }
}
