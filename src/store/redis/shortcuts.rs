//! Requests that one script carries out in most cases. The core decides the others.

use super::{
    RedisStore,
    decisions::{Loads, Request, Texts},
    reply::Values,
};
use crate::store::{Now, Parts, Reply, StoreError, StoreResult, StoreResults};

/// Effect of a script on a request.
pub enum Shortcut<A> {
    Made(Reply<A>),
    /// The core decides on the job, which the script may have loaded.
    Left(Option<(Now, Texts)>),
}

impl<A> Shortcut<A> {
    /// Reads the reply about a request; `read` reads that of one that the script has carried out.
    pub fn read(
        reply: &mut Values,
        read: impl FnOnce(&mut Values) -> StoreResult<Reply<A>>,
    ) -> StoreResult<Self> {
        Ok(match reply.list() {
            None => Self::Made(read(reply)?),
            Some(left) if left.left() == 0 => Self::Left(None),
            Some(mut left) => {
                let now = Now::of_micros(left.number()?);
                Self::Left(Some((now, Texts::read(&mut left)?)))
            }
        })
    }
}

impl RedisStore {
    /// Has the core decide the requests that a script has left.
    pub async fn decide_left<R: Request + Clone>(
        &self,
        parts: &Parts<Vec<R>>,
        made: StoreResults<Vec<Shortcut<R::Answer>>>,
    ) -> StoreResults<Vec<Reply<R::Answer>>> {
        let (mut results, mut left) = (Vec::with_capacity(parts.len()), Vec::new());
        let mut loads = Some(Vec::new());
        for ((bucket, jobs), made) in parts.iter().zip(made) {
            results.push(made.map(|made| {
                let (replies, own, load) = split(jobs, made);
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

/// The reply to each job of a part, or `None` if it is left to the core; the jobs left, and their
/// loads if the script has loaded all of them.
type Split<R> = (Vec<Option<Reply<<R as Request>::Answer>>>, Vec<R>, Option<Loads>);

/// Splits a part by the requests that a script has carried out.
fn split<R: Request + Clone>(jobs: &[R], made: Vec<Shortcut<R::Answer>>) -> Split<R> {
    let (mut left, mut texts, mut time) = (Vec::new(), Vec::new(), None);
    let reply = |(job, made): (&R, Shortcut<R::Answer>)| match made {
        Shortcut::Made(reply) => Some(reply),
        Shortcut::Left(found) => {
            left.push(job.clone());
            if let Some((now, found)) = found {
                time.get_or_insert(now);
                texts.push(found);
            }
            None
        }
    };
    let replies = jobs.iter().zip(made).map(reply).collect();
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
