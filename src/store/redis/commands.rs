//! Transitions as calls of scripts: writes the arguments and parses the replies.

use std::borrow::Cow;

use futures::future::BoxFuture;
use redis::Cmd;

use super::{
    RedisStore,
    codec::{self, Attempt, history_text, long_body, schedule_text},
    reply::Values,
    scripts::{Guardable, Transition as Script, add_job_ref, millis_text},
};
use crate::{
    job::{Bucket, Job, NewJob, OnConflict, Policy, Topic, UnixMillis},
    store::{
        Call, Command, Guarded, JobPosition, JobTransitions, Matched, Outcome, Period, Placed,
        Purge, Reply, Selection, StoreError, StoreResult, Target, Touch, Transition,
    },
};

impl JobTransitions for RedisStore {
    fn apply(&self, command: Command) -> BoxFuture<'_, Outcome> {
        let scripts = &self.scripts;
        match command {
            Command::Put(call) => {
                let fill = |cmd: &mut Cmd, bucket, jobs: &Vec<_>| puts(cmd, self, bucket, jobs);
                self.make(call, &scripts.put, fill, each_placed())
            }
            Command::Fire(call) => call.by(|parts| self.fire(parts)),
            Command::Restore(call) => {
                self.make(call, &scripts.restore, each_job(restored), each_reply(done))
            }
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
    fn make_guarded<'a, J: Guarded + Send + Sync + 'static, T: Transition<Part = Vec<J>>>(
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

/// Reads the reply of `put.lua`.
pub fn each_placed<J>() -> impl Fn(&mut Values, &Vec<J>) -> StoreResult<Vec<Reply<Placed>>> + Send {
    |reply, jobs| {
        reply.split_numbers()?;
        each_reply(Values::placed)(reply, jobs)
    }
}

/// Adds the arguments of `put.lua`.
pub fn puts(cmd: &mut Cmd, store: &RedisStore, bucket: Bucket, jobs: &[NewJob]) {
    let believed = store.believed(bucket);
    cmd.arg(jobs.len());
    for job in jobs {
        cmd.arg(job.id.as_str()).arg(codec::record_rest(job));
    }
    // Redis spends much of a put's time on its arguments, so values that successive jobs share are
    // sent once.
    let shared = |job: &NewJob| (job.schedule, put_options(job));
    for run in jobs.chunk_by(|a, b| a.topic == b.topic && shared(a) == shared(b)) {
        let first = &run[0];
        cmd.arg(run.len()).arg(first.topic.as_str());
        cmd.arg(schedule_text(first.schedule, &believed)).arg(put_options(first));
        for body in run.iter().filter_map(|job| long_body(&job.body)) {
            cmd.arg(&body[..]);
        }
    }
}

/// Returns the properties of a job that `put.lua` needs in addition to its record and its schedule.
fn put_options(job: &NewJob) -> Cow<'static, str> {
    let word = match (job.on_conflict, long_body(&job.body)) {
        (OnConflict::Reject, None) => "reject",
        (OnConflict::Reject, Some(_)) => "reject+",
        (OnConflict::Keep, None) => "keep",
        (OnConflict::Keep, Some(_)) => "keep+",
        (OnConflict::Replace, None) => "replace",
        (OnConflict::Replace, Some(_)) => "replace+",
    };
    let Policy { priority, expires_after, .. } = &job.policy;
    if priority.is_standard() && expires_after.is_none() {
        return Cow::Borrowed(word);
    }
    let digit = if priority.is_standard() { String::new() } else { priority.to_string() };
    Cow::Owned(format!("{word}{digit}{}", if expires_after.is_some() { "!" } else { "" }))
}

/// Adds the arguments for a job of another store, in the format of this store's records.
fn restored(cmd: &mut Cmd, job: &Job) {
    cmd.arg(job.id.as_str()).arg(job.topic.as_str()).arg(job.state.name());
    let put = job.unpopped();
    cmd.arg(job.at().get());
    if let Some(ending) = &job.ending {
        let result = ending.result.as_ref().and_then(long_body);
        cmd.arg(codec::finished_record(job, ending)).arg(result.map_or(&[][..], |long| long));
        cmd.arg("").arg(codec::separate_history(job, ending));
        return;
    }
    cmd.arg(codec::record(&put, job.created_at));
    cmd.arg(long_body(&put.body).map_or(&[][..], |body| body));
    cmd.arg(Attempt::text_of(job, &put)).arg(history_text(job));
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

fn done(reply: &mut Values) -> StoreResult<Reply<()>> {
    Ok(reply.reply_number()?.map(drop))
}
