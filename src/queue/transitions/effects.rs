//! Effects of transitions on the timer, on waiting pops and on counters.

use super::PutOf;
use crate::{
    job::{Bucket, Job, Refusal, State, UnixMillis},
    queue::context::Context,
    store::{Fired, Placed, PutOutcome, Readied, ReadyJobs, Reply, Transitioned},
};

impl Context {
    /// Wakes a consumer for a job that is now ready, or the timer for one that is delayed.
    pub(super) fn moved(&self, bucket: Bucket, job: &Transitioned) {
        match job.state {
            State::Ready => {
                self.waiters.ready(&job.topic, bucket, ReadyJobs::one(job.priority));
            }
            State::Delayed => self.timer.wake_by(bucket, job.due_at),
            // The time of a dead job is its former due time; the end of its retention is far in the
            // future.
            State::Reserved | State::Dead | State::Finished => {}
        }
    }

    pub(super) fn released(&self, bucket: Bucket, _: &[()], replies: &[Reply<Transitioned>]) {
        let topics = replies.iter().flatten().map(Transitioned::topic_before);
        self.stats.count(topics, |since| since.released += 1);
        self.count_dead(replies);
        replies.iter().flatten().for_each(|job| self.moved(bucket, job));
    }

    /// Wakes a consumer for each job that is ready again, and the timer when the job expires.
    pub(super) fn readied(&self, bucket: Bucket, replies: &[Reply<Readied>]) {
        for Readied { topic, priority, expires_at } in replies.iter().flatten() {
            self.waiters.ready(topic, bucket, ReadyJobs::one(*priority));
            self.wake_at_expiry(bucket, *expires_at);
        }
    }

    /// Wakes the timer when a ready job expires. A delayed job expires after it is due, and its
    /// promotion returns the next deadline.
    pub(super) fn wake_at_expiry(&self, bucket: Bucket, expires_at: Option<UnixMillis>) {
        expires_at.into_iter().for_each(|at| self.timer.wake_by(bucket, at));
    }

    pub(super) fn rescheduled(&self, bucket: Bucket, _: &[()], replies: &[Reply<Job>]) {
        for job in replies.iter().flatten() {
            self.moved(bucket, &Transitioned::from_job(job));
            self.wake_at_expiry(bucket, job.policy.expires_at);
        }
    }

    pub(super) fn count_dead(&self, replies: &[Reply<Transitioned>]) {
        let died = replies.iter().flatten().filter(|moved| moved.died);
        self.stats.count(died.map(|moved| &moved.topic), |since| since.dead += 1);
        let moved = replies.iter().flatten().filter_map(|moved| moved.dead_from.as_ref());
        self.stats.count(moved, |since| since.moved += 1);
    }

    pub(super) fn fired(&self, bucket: Bucket, jobs: &[PutOf], replies: &[Reply<Fired>]) {
        let placed = |reply: &Reply<Fired>| match reply {
            Ok(Fired::Placed(placed) | Fired::Stale(Some(placed))) => Ok(placed.clone()),
            Ok(Fired::Taken | Fired::Stale(None)) => Err(Refusal::NotFound),
            Err(refusal) => Err(refusal.clone()),
        };
        self.placed(bucket, jobs, &replies.iter().map(placed).collect::<Vec<_>>());
    }

    pub(super) fn placed(&self, bucket: Bucket, jobs: &[PutOf], replies: &[Reply<Placed>]) {
        let placed = |(job, reply)| match reply {
            &Ok(Placed {
                how: PutOutcome::Created | PutOutcome::Replaced, state, due_at, ..
            }) => Some((job, state, due_at)),
            Ok(_) | Err(_) => None,
        };
        let placed: Vec<(&PutOf, _, UnixMillis)> =
            jobs.iter().zip(replies).filter_map(placed).collect();
        self.stats.count(placed.iter().map(|((topic, ..), ..)| topic), |since| since.put += 1);
        for same in placed.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            match same[0] {
                ((topic, priority, expires_after), State::Ready, _) => {
                    let jobs = ReadyJobs { count: same.len() as u64, highest: *priority };
                    self.waiters.ready(topic, bucket, jobs);
                    let earliest = same.iter().map(|&(.., at)| at).min();
                    let expires_at = earliest.zip(*expires_after).map(|(at, span)| at.after(span));
                    self.wake_at_expiry(bucket, expires_at);
                }
                _ => same.iter().for_each(|&(.., at)| self.timer.wake_by(bucket, at)),
            }
        }
    }
}
