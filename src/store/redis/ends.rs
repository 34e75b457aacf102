//! Finishes and deletes. A script makes them if nothing is kept of the job; the core decides the
//! others.

use std::collections::HashSet;

use redis::Cmd;

use super::{
    RedisStore,
    codec::reservation_text,
    commands::{each_job, topic},
    decisions::{Loads, Request, Texts},
    reply::{Values, state_code},
};
use crate::{
    job::{JobId, State, Topic},
    store::{Delete, Finish, Now, Parts, Reply, StoreError, StoreResult, StoreResults},
};

/// The end of a job, if a script has made it.
enum End<A> {
    Made(Reply<A>),
    /// The core decides on the job as the script has loaded it.
    Left(Now, Texts),
}

impl RedisStore {
    pub(super) async fn finish(
        &self,
        parts: Parts<Vec<Finish>>,
    ) -> StoreResults<Vec<Reply<Topic>>> {
        let others = ids_that(&parts, |job| job.result.is_some());
        let plain = jobs_without(&parts, &others);
        let read = |reply: &mut Values, jobs: &Vec<_>| jobs.iter().map(|_| end(reply)).collect();
        let made = self.each_guarded(&self.scripts.finish, &plain, each_job(finished), read).await;
        self.end_others(&parts, &others, made).await
    }

    pub(super) async fn delete(
        &self,
        parts: Parts<Vec<Delete>>,
    ) -> StoreResults<Vec<Reply<State>>> {
        let others = ids_that(&parts, |job| job.remembered().is_some());
        let plain = jobs_without(&parts, &others);
        let read = |reply: &mut Values, jobs: &Vec<_>| {
            jobs.iter().map(|_| reply.deleted().map(End::Made)).collect()
        };
        let made = self.each_guarded(&self.scripts.delete, &plain, each_job(deleted), read).await;
        self.end_others(&parts, &others, made).await
    }

    /// Has the core decide the requests for other ids, and those left by the script. `made`
    /// has the results of the parts with requests for the script.
    async fn end_others<R: Request + Clone>(
        &self,
        parts: &Parts<Vec<R>>,
        others: &[HashSet<&JobId>],
        made: StoreResults<Vec<End<R::Answer>>>,
    ) -> StoreResults<Vec<Reply<R::Answer>>> {
        let mut made = made.into_iter();
        let (mut results, mut left, mut loads) = (Vec::new(), Vec::new(), Some(Vec::new()));
        for ((bucket, jobs), others) in parts.iter().zip(others) {
            let has_made = jobs.iter().any(|job| !others.contains(job.id()));
            let made = if has_made { made.next() } else { Some(Ok(Vec::new())) };
            let made = made.unwrap_or_else(|| Err(StoreError::unreadable("no reply")));
            let split = made.map(|made| split(jobs, made, others));
            results.push(split.map(|(replies, own, load)| {
                if !own.is_empty() {
                    left.push((*bucket, own));
                    loads = loads.take().zip(load).map(|(mut loads, (now, texts))| {
                        loads.push((self.with_believed(*bucket, now), texts));
                        loads
                    });
                }
                replies
            }));
        }
        let decided = match left.is_empty() {
            true => Vec::new(),
            false => self.decide_on(left, loads).await,
        };
        let mut decided = decided.into_iter();
        results.into_iter().map(|replies| joined(replies?, &mut decided)).collect()
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
        all.push(jobs.iter().filter(|job| needs_core(job)).map(Request::id).collect());
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

/// The reply to each job of a part, or `None` if it is left to the core; the jobs left, and their
/// loads if the script has loaded all of them.
type Split<R> = (Vec<Option<Reply<<R as Request>::Answer>>>, Vec<R>, Option<Loads>);

/// Splits a part by the requests that a script has carried out.
fn split<R: Request + Clone>(
    jobs: &[R],
    made: Vec<End<R::Answer>>,
    others: &HashSet<&JobId>,
) -> Split<R> {
    let (mut made, mut left, mut texts, mut time) =
        (made.into_iter(), Vec::new(), Vec::new(), None);
    let mut reply = |job: &R| {
        match (!others.contains(job.id())).then(|| made.next()).flatten() {
            Some(End::Made(reply)) => return Some(reply),
            Some(End::Left(now, found)) => {
                time.get_or_insert(now);
                texts.push(found);
            }
            None => {}
        }
        left.push(job.clone());
        None
    };
    let replies = jobs.iter().map(&mut reply).collect();
    let is_loaded = texts.len() == left.len();
    (replies, left, time.filter(|_| is_loaded).map(|now| (now, texts)))
}

/// Adds the replies to the jobs that were left, if there are any.
fn joined<A>(
    replies: Vec<Option<Reply<A>>>,
    decided: &mut impl Iterator<Item = StoreResult<Vec<Reply<A>>>>,
) -> StoreResult<Vec<Reply<A>>> {
    let mut own = Vec::new();
    if replies.iter().any(Option::is_none) {
        let is_applied = replies.iter().flatten().any(Result::is_ok);
        let decided = decided.next().unwrap_or_else(|| Err(StoreError::unreadable("no reply")));
        own = decided.map_err(|error| if is_applied { error.of_part() } else { error })?;
    }
    let mut own = own.into_iter();
    Ok(replies.into_iter().filter_map(|reply| reply.or_else(|| own.next())).collect())
}

/// Reads what `finish.lua` has done with a job.
fn end(reply: &mut Values) -> StoreResult<End<Topic>> {
    match reply.list() {
        Some(mut left) => Ok(End::Left(Now::of_micros(left.number()?), Texts::read(&mut left)?)),
        None => topic(reply).map(End::Made),
    }
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
