//! Finishes and deletes. A script makes them if nothing is kept of the job; the core decides the
//! others.

use std::collections::HashSet;

use redis::Cmd;

use super::{
    RedisStore,
    codec::reservation_text,
    commands::{each_job, topic},
    decisions::Request,
    reply::{Values, state_code},
    shortcuts::Shortcut,
};
use crate::{
    job::{JobId, State, Topic},
    store::{Delete, Finish, JobRequest, Parts, Reply, StoreError, StoreResults},
};

impl RedisStore {
    pub(super) async fn finish(
        &self,
        parts: Parts<Vec<Finish>>,
    ) -> StoreResults<Vec<Reply<Topic>>> {
        let others = ids_that(&parts, |job| job.result.is_some());
        let plain = jobs_without(&parts, &others);
        let read = |reply: &mut Values, jobs: &Vec<_>| {
            jobs.iter().map(|_| Shortcut::read(reply, topic)).collect()
        };
        let made = self.each_guarded(&self.scripts.finish, &plain, each_job(finished), read).await;
        self.decide_left(&parts, with_others(&parts, &others, made)).await
    }

    pub(super) async fn delete(
        &self,
        parts: Parts<Vec<Delete>>,
    ) -> StoreResults<Vec<Reply<State>>> {
        let others = ids_that(&parts, |job| job.remembered().is_some());
        let plain = jobs_without(&parts, &others);
        let read = |reply: &mut Values, jobs: &Vec<_>| {
            jobs.iter().map(|_| reply.deleted().map(Shortcut::Made)).collect()
        };
        let made = self.each_guarded(&self.scripts.delete, &plain, each_job(deleted), read).await;
        self.decide_left(&parts, with_others(&parts, &others, made)).await
    }
}

/// Returns the ids in each part that have a request for the core. Other requests for them go there
/// too, so that those of one id are carried out in their order.
fn ids_that<R: Request>(
    parts: &Parts<Vec<R>>,
    needs_core: impl Fn(&R) -> bool,
) -> Vec<HashSet<&JobId>> {
    let mut all = Vec::with_capacity(parts.len());
    for (_, jobs) in parts {
        all.push(jobs.iter().filter(|job| needs_core(job)).map(JobRequest::id).collect());
    }
    all
}

/// Returns the requests of each part for no such id; leaves out parts without any.
fn jobs_without<'a, R: Request>(
    parts: &'a Parts<Vec<R>>,
    others: &[HashSet<&JobId>],
) -> Parts<Vec<&'a R>> {
    let mut found = Vec::with_capacity(parts.len());
    for ((bucket, jobs), others) in parts.iter().zip(others) {
        let some: Vec<&R> = jobs.iter().filter(|job| !others.contains(job.id())).collect();
        if !some.is_empty() {
            found.push((*bucket, some));
        }
    }
    found
}

/// Adds the requests for such ids, which the script did not get, to the results of the script.
fn with_others<R: Request>(
    parts: &Parts<Vec<R>>,
    others: &[HashSet<&JobId>],
    made: StoreResults<Vec<Shortcut<R::Answer>>>,
) -> StoreResults<Vec<Shortcut<R::Answer>>> {
    let (mut made, mut all) = (made.into_iter(), Vec::with_capacity(parts.len()));
    for ((_, jobs), others) in parts.iter().zip(others) {
        let mut own = Ok(Vec::new());
        if jobs.iter().any(|job| !others.contains(job.id())) {
            own = made.next().unwrap_or_else(|| Err(StoreError::unreadable("no reply")));
        }
        all.push(own.map(|own| {
            let mut own = own.into_iter();
            let one = |job: &R| match others.contains(job.id()) {
                true => Some(Shortcut::Left(None)),
                false => own.next(),
            };
            jobs.iter().filter_map(one).collect()
        }));
    }
    all
}

fn finished(cmd: &mut Cmd, job: &&Finish) {
    cmd.arg(job.held.id.as_str()).arg(reservation_text(job.held.reservation));
}

fn deleted(cmd: &mut Cmd, delete: &&Delete) {
    let states = match delete.states {
        None => "*".to_owned(),
        Some(states) => {
            let named = State::ALL.into_iter().filter(|state| states.has(*state));
            named.map(|state| state_code(state).to_string()).collect()
        }
    };
    cmd.arg(delete.job.id.as_str()).arg(states);
}
