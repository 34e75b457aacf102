//! Kicks of a topic, and by filter. Scripts move the jobs that become ready as they are, without
//! reading their records. They return the ids of dead jobs with another priority or an expiry,
//! whose policies decide, and these jobs are kicked one by one.

use delay_queue_core::decide::{self, Edit, Known};
use futures::future::join_all;
use redis::Cmd;

use super::{RedisStore, commands::selected, decisions::Request, reply::Values};
use crate::{
    job::{Bucket, JobId, Refusal, State, Topic, Topics},
    store::{
        JobRequest, KickDead, Matched, Now, Parts, Readied, ReadyJobs, Reply, Selection,
        StoreError, StoreResult, StoreResults, Target,
    },
};

/// A dead job of a topic.
struct DeadJob {
    target: Target,
    topic: Topic,
}

impl JobRequest for DeadJob {
    fn id(&self) -> &JobId {
        &self.target.id
    }

    fn topics(&self) -> &Topics {
        &self.target.topics
    }
}

impl Request for DeadJob {
    type Answer = Readied;

    /// Refuses a job that has left the dead ones of the topic since they were read.
    fn decide(&self, living: Option<&Known<'_>>, now: Now) -> Reply<Option<Edit>> {
        let job = living.ok_or(Refusal::NotFound)?;
        if job.state != State::Dead || *job.topic != self.topic {
            return Err(Refusal::NotFound);
        }
        decide::kick(job, now, &self.target)
    }
}

impl RedisStore {
    pub(super) async fn kick_dead(&self, parts: Parts<KickDead>) -> StoreResults<ReadyJobs> {
        let parts: Vec<_> =
            parts.into_iter().map(|(bucket, kick)| (bucket, (kick, Vec::new()))).collect();
        let done = self.kick_as_they_are(&parts).await;
        let rest = parts.iter().zip(done).map(async |((bucket, (kick, _)), done)| {
            let (done, left) = done?;
            match self.kick_left(*bucket, &kick.topic, left, done).await {
                // The next step meets the error again. The jobs that are ready must be known.
                Err(error) if done.count > 0 => {
                    tracing::warn!(%error, "left some dead jobs to the next step of a kick");
                    Ok(done)
                }
                kicked => kicked,
            }
        });
        join_all(rest).await
    }

    /// Makes jobs ready as they are: the ones that died first, or the named ones. Returns the ids
    /// of the jobs left.
    async fn kick_as_they_are(
        &self,
        parts: &Parts<(KickDead, Vec<JobId>)>,
    ) -> StoreResults<(ReadyJobs, Vec<JobId>)> {
        let fill = |cmd: &mut Cmd, _, (kick, named): &(KickDead, Vec<JobId>)| {
            cmd.arg(kick.topic.as_str()).arg(kick.limit);
            named.iter().for_each(|id| {
                cmd.arg(id.as_str());
            });
        };
        let read = |reply: &mut Values, _: &_| Ok((kicked(reply)?, ids(reply)?));
        self.run_each(&self.scripts.kick_dead, parts, fill, read).await
    }

    pub(super) async fn kick_matching(
        &self,
        parts: Parts<Selection>,
    ) -> StoreResults<Matched<ReadyJobs>> {
        let read = |reply: &mut Values, _: &Selection| {
            let matched = Matched { done: kicked(reply)?, next: reply.position()? };
            Ok((matched, ids(reply)?))
        };
        let fill = |cmd: &mut Cmd, _, step: &Selection| selected(cmd, step);
        let matched = self.run_each(&self.scripts.kick_matching, &parts, fill, read).await;
        let rest = parts.iter().zip(matched).map(async |((bucket, step), matched)| {
            let (Matched { done, next }, left) = matched?;
            Ok(Matched { done: self.kick_left(*bucket, &step.topic, left, done).await?, next })
        });
        join_all(rest).await
    }

    /// Kicks the dead jobs that a script has left; `done` counts the jobs that it has made ready.
    async fn kick_left(
        &self,
        bucket: Bucket,
        topic: &Topic,
        left: Vec<JobId>,
        mut done: ReadyJobs,
    ) -> StoreResult<ReadyJobs> {
        if left.is_empty() {
            return Ok(done);
        }
        let dead = |id: &JobId| DeadJob {
            target: Target { id: id.clone(), topics: Topics::ALL },
            topic: topic.clone(),
        };
        let kicks = left.iter().map(dead).collect();
        let kicked = of_rest(self.decide(vec![(bucket, kicks)]).await, done)?;
        let mut unreadable = Vec::new();
        for (id, kicked) in left.into_iter().zip(kicked) {
            match kicked {
                Ok(job) => done = done.plus(ReadyJobs::one(job.priority)),
                Err(_) => unreadable.push(id),
            }
        }
        if !unreadable.is_empty() {
            // The next pop of such a job finds the damage.
            let kick = KickDead { topic: topic.clone(), limit: unreadable.len() };
            let kicked = self.kick_as_they_are(&vec![(bucket, (kick, unreadable))]).await;
            done = done.plus(of_rest(kicked, done)?.0);
        }
        Ok(done)
    }
}

/// Returns the only result of a call after which `done` jobs are ready.
fn of_rest<T>(mut results: StoreResults<T>, done: ReadyJobs) -> StoreResult<T> {
    let result = results.pop().unwrap_or_else(|| Err(StoreError::unreadable("no reply")));
    result.map_err(|error| if done.count > 0 { error.of_part() } else { error })
}

fn kicked(reply: &mut Values) -> StoreResult<ReadyJobs> {
    Ok(ReadyJobs { count: reply.number()?, highest: reply.priority()? })
}

fn ids(reply: &mut Values) -> StoreResult<Vec<JobId>> {
    (0..reply.left()).map(|_| reply.parsed()).collect()
}
