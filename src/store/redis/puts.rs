//! Puts. A script creates jobs; the core decides the puts of existing ids.

use std::borrow::Cow;

use redis::Cmd;

use super::{
    RedisStore,
    codec::{long_body, record_rest, schedule_text},
    reply::Values,
    shortcuts::Shortcut,
};
use crate::{
    job::{Bucket, NewJob, Policy, Refusal},
    store::{Parts, Placed, Reply, StoreResult, StoreResults},
};

impl RedisStore {
    pub(super) async fn put(&self, parts: Parts<Vec<NewJob>>) -> StoreResults<Vec<Reply<Placed>>> {
        let made = self.create(&parts).await;
        self.decide_left(&parts, made).await
    }

    /// Puts jobs, and refuses all existing ids.
    pub(super) async fn put_new(
        &self,
        parts: Parts<Vec<NewJob>>,
    ) -> StoreResults<Vec<Reply<Placed>>> {
        let refused = |made: Vec<Shortcut<Placed>>| made.into_iter().map(refused).collect();
        self.create(&parts).await.into_iter().map(|made| made.map(refused)).collect()
    }

    async fn create(&self, parts: &Parts<Vec<NewJob>>) -> StoreResults<Vec<Shortcut<Placed>>> {
        let fill = |cmd: &mut Cmd, bucket, jobs: &Vec<_>| add_puts(cmd, self, bucket, jobs);
        let read = |reply: &mut Values, jobs: &Vec<_>| {
            reply.split_numbers()?;
            let one = |_| Shortcut::read(reply, Values::placed);
            (0..jobs.len()).map(one).collect::<StoreResult<_>>()
        };
        self.run_each(&self.scripts.put, parts, fill, read).await
    }
}

fn refused(made: Shortcut<Placed>) -> Reply<Placed> {
    match made {
        Shortcut::Made(reply) => reply,
        Shortcut::Left(_) => Err(Refusal::Exists(None)),
    }
}

/// Adds the arguments of `put.lua`.
pub fn add_puts(cmd: &mut Cmd, store: &RedisStore, bucket: Bucket, jobs: &[NewJob]) {
    let believed = store.believed(bucket);
    cmd.arg(jobs.len());
    for job in jobs {
        cmd.arg(job.id.as_str()).arg(record_rest(job));
    }
    // Redis spends much of a put's time on its arguments, so values that successive jobs share are
    // sent once.
    let shared = |job: &NewJob| (job.schedule, put_options(job));
    for run in jobs.chunk_by(|a, b| a.topic == b.topic && shared(a) == shared(b)) {
        let first = &run[0];
        cmd.arg(run.len()).arg(first.topic.as_str());
        cmd.arg(schedule_text(first.schedule, &believed)).arg(&*put_options(first));
        for body in run.iter().filter_map(|job| long_body(&job.body)) {
            cmd.arg(&body[..]);
        }
    }
}

/// Returns the properties of a job that `put.lua` needs in addition to its record and its schedule.
fn put_options(job: &NewJob) -> Cow<'static, str> {
    let plus = if long_body(&job.body).is_some() { "+" } else { "" };
    let Policy { priority, expires_after, .. } = &job.policy;
    if priority.is_standard() && expires_after.is_none() {
        return Cow::Borrowed(plus);
    }
    let digit = if priority.is_standard() { String::new() } else { priority.to_string() };
    Cow::Owned(format!("{plus}{digit}{}", if expires_after.is_some() { "!" } else { "" }))
}
