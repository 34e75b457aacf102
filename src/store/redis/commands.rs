//! Transitions as calls of scripts: writes the arguments and parses the replies.

use futures::future::BoxFuture;
use redis::Cmd;

use super::{
    RedisStore,
    reply::Values,
    scripts::{Guardable, Transition as Script, add_job_ref, millis_text},
};
use crate::{
    job::{Bucket, Topic, UnixMillis},
    store::{
        Call, Command, JobPosition, JobRequest, JobTransitions, Matched, Outcome, Period, Purge,
        Reply, Selection, StoreError, StoreResult, Target, Touch, Transition,
    },
};

impl JobTransitions for RedisStore {
    fn apply(&self, command: Command) -> BoxFuture<'_, Outcome> {
        let scripts = &self.scripts;
        match command {
            Command::Put(call) => call.by(|parts| self.put(parts)),
            Command::Fire(call) => call.by(|parts| self.fire(parts)),
            Command::Restore(call) => call.by(|parts| self.decide(parts)),
            Command::Pop(call) => call.by(|parts| self.pop(parts)),
            Command::Unpop(call) => call.by(|parts| self.unpop(parts)),
            Command::Finish(call) => call.by(|parts| self.finish(parts)),
            Command::Release(call) => call.by(|parts| self.decide(parts)),
            Command::Touch(call) => {
                let fill = |cmd: &mut Cmd, bucket, jobs: &Vec<_>| touches(cmd, self, bucket, jobs);
                self.make_guarded(call, &scripts.touch, fill, each_reply(until))
            }
            Command::Bury(call) => call.by(|parts| self.decide(parts)),
            Command::Kick(call) => call.by(|parts| self.decide(parts)),
            Command::Delete(call) => call.by(|parts| self.delete(parts)),
            Command::Reschedule(call) => call.by(|parts| self.decide(parts)),
            Command::Promote(call) => call.by(|parts| self.promote(parts)),
            Command::Purge(call) => {
                let fill = |cmd: &mut Cmd, _, purge: &Purge| {
                    cmd.arg(purge.topic.as_str()).arg(purge.state.name()).arg(purge.limit);
                };
                self.make(call, &scripts.purge, fill, |reply, _| reply.number())
            }
            Command::KickDead(call) => call.by(|parts| self.kick_dead(parts)),
            Command::KickMatching(call) => call.by(|parts| self.kick_matching(parts)),
            Command::PurgeMatching(call) => {
                let read = |reply: &mut Values, _: &Selection| {
                    Ok(Matched { done: reply.number()?, next: reply.position()? })
                };
                self.make(call, &scripts.purge_matching, |cmd, _, step| selected(cmd, step), read)
            }
        }
    }
}

impl RedisStore {
    /// Runs a script: `fill` adds the arguments of a bucket, `read` parses its reply.
    fn make<'a, T: Transition>(
        &'a self,
        call: Call<T>,
        script: &'a Script,
        fill: impl Fn(&mut Cmd, Bucket, &T::Part) + Send + Sync + 'a,
        read: impl Fn(&mut Values, &T::Part) -> StoreResult<T::Reply> + Send + 'a,
    ) -> BoxFuture<'a, Outcome> {
        call.by(|parts| async move { self.run_each(script, &parts, fill, read).await })
    }

    /// Runs a script like [`make`](Self::make), for jobs that some callers may not access.
    fn make_guarded<'a, J: JobRequest + Send + Sync + 'static, T: Transition<Part = Vec<J>>>(
        &'a self,
        call: Call<T>,
        script: &'a Guardable,
        fill: impl Fn(&mut Cmd, Bucket, &Vec<J>) + Send + Sync + 'a,
        read: impl Fn(&mut Values, &Vec<J>) -> StoreResult<T::Reply> + Send + 'a,
    ) -> BoxFuture<'a, Outcome> {
        call.by(|parts| async move { self.each_guarded(script, &parts, fill, read).await })
    }
}

/// Adds the arguments of a batch, job after job.
pub fn each_job<J>(
    fill: impl Fn(&mut Cmd, &J) + Send + Sync,
) -> impl Fn(&mut Cmd, Bucket, &Vec<J>) + Send + Sync {
    move |cmd, _, jobs| jobs.iter().for_each(|job| fill(cmd, job))
}

/// Reads the replies of a batch, one for each job.
pub fn each_reply<J, O>(
    read: impl Fn(&mut Values) -> StoreResult<Reply<O>> + Send,
) -> impl Fn(&mut Values, &Vec<J>) -> StoreResult<Vec<Reply<O>>> + Send {
    move |reply, jobs| jobs.iter().map(|_| read(reply)).collect()
}

fn touches(cmd: &mut Cmd, store: &RedisStore, bucket: Bucket, jobs: &[Touch]) {
    let believed = store.believed(bucket);
    for job in jobs {
        add_job_ref(cmd, &job.held);
        cmd.arg(millis_text(job.ttr)).arg(&believed);
    }
}

/// Adds the arguments of `shared/matching.lua`.
pub fn selected(cmd: &mut Cmd, selection: &Selection) {
    let Selection { topic, state, filter, after, limit } = selection;
    cmd.arg(topic.as_str()).arg(state.name()).arg(*limit);
    match after {
        Some(JobPosition { at, tie }) => match tie.split_once('/') {
            Some((id, score)) => cmd.arg(score).arg(id),
            None => cmd.arg(at.get()).arg(tie),
        },
        None => cmd.arg("").arg(""),
    };
    let period = |cmd: &mut Cmd, Period { from, before }: Period| {
        for at in [from, before] {
            cmd.arg(at.map_or_else(String::new, |at| at.get().to_string()));
        }
    };
    period(cmd, filter.range_in(*state));
    if filter.examines(*state) {
        cmd.arg(filter.id_contains.as_deref().unwrap_or_default());
        cmd.arg(filter.error_contains.as_deref().unwrap_or_default());
        period(cmd, filter.died);
        period(cmd, filter.judged_due(*state));
    }
}

pub fn target(cmd: &mut Cmd, job: &Target) {
    cmd.arg(job.id.as_str());
}

pub fn topic(reply: &mut Values) -> StoreResult<Reply<Topic>> {
    match reply.reply_text()? {
        Ok(text) => text.parse().map(Ok).map_err(StoreError::unreadable),
        Err(refusal) => Ok(Err(refusal)),
    }
}

fn until(reply: &mut Values) -> StoreResult<Reply<UnixMillis>> {
    Ok(reply.reply_number()?.map(UnixMillis::new))
}
