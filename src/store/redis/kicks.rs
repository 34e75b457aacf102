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
        Guarded, KickDead, Matched, Now, Parts, Readied, ReadyJobs, Reply, Selection, StoreError,
        StoreResult, StoreResults, Target,
    },
};

/// A dead job of a topic.
struct DeadJob {
    target: Target,
    topic: Topic,
}

impl Guarded for DeadJob {
    fn topics(&self) -> &Topics {
        &self.target.topics
    }
}

impl Request for DeadJob {
    type Answer = Readied;

    fn id(&self) -> &JobId {
        &self.target.id
    }

    /// Refuses a job that has left the dead ones of the topic since they were read.
    fn decide(&self, job: &Known<'_>, now: Now) -> Reply<Option<Edit>> {
        if job.state != State::Dead || *job.topic != self.topic {
            return Err(Refusal::NotFound);
        }
        decide::kick(job, now, &self.target)
    }
}

impl RedisStore {
    pub(super) async fn kick_dead(&self, parts: Parts<KickDead>) -> StoreResults<ReadyJobs> {
        let fill = |cmd: &mut Cmd, _, kick: &KickDead| {
            cmd.arg(kick.topic.as_str()).arg(kick.limit);
        };
        let read = |reply: &mut Values, _: &KickDead| Ok((kicked(reply)?, ids(reply)?));
        let done = self.run_each(&self.scripts.kick_dead, &parts, fill, read).await;
        let rest = parts.iter().zip(done).map(async |((bucket, kick), done)| {
            let (done, left) = done?;
            self.kick_left(*bucket, &kick.topic, left, done).await
        });
        join_all(rest).await
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
        done: ReadyJobs,
    ) -> StoreResult<ReadyJobs> {
        if left.is_empty() {
            return Ok(done);
        }
        let dead =
            |id| DeadJob { target: Target { id, topics: Topics::ALL }, topic: topic.clone() };
        let kicks = left.into_iter().map(dead).collect();
        let kicked = self.decide(vec![(bucket, kicks)]).await.pop();
        match kicked.unwrap_or_else(|| Err(StoreError::unreadable("no reply"))) {
            Ok(kicked) => {
                let ready = kicked.into_iter().flatten().map(|job| ReadyJobs::one(job.priority));
                Ok(ready.fold(done, ReadyJobs::plus))
            }
            Err(error) if done.count > 0 => Err(error.of_part()),
            Err(error) => Err(error),
        }
    }
}

fn kicked(reply: &mut Values) -> StoreResult<ReadyJobs> {
    Ok(ReadyJobs { count: reply.number()?, highest: reply.priority()? })
}

fn ids(reply: &mut Values) -> StoreResult<Vec<JobId>> {
    (0..reply.left()).map(|_| reply.parsed()).collect()
}
