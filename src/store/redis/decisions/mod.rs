//! Transitions that `delay-queue-core` decides: one script loads the jobs, and one writes the edits
//! of the jobs that are still the same. The others are loaded again.

mod answers;
mod arrival;
mod attempt;
mod loaded;
mod request;
mod swap;
mod texts;
mod verbs;
mod work;

use std::collections::HashSet;

use delay_queue_core::decide::Known;
use redis::Cmd;

use self::{loaded::Loaded, request::Answer, swap::Swap, work::Work};
pub use self::{
    request::Request,
    texts::Texts,
    verbs::{BuryDamaged, Overdue},
};
use super::{RedisStore, reply::Values};
use crate::{
    job::{Bucket, Refusal, State},
    store::{Applied, Now, Parts, Reply, StoreError, StoreResult, StoreResults},
};

/// The jobs of one bucket as they were loaded, and the time then.
pub type Loads = (Now, Vec<Texts>);

/// Index of a job in its part, the answer to its caller, and its edit.
type Decided<'a, A> = (usize, A, Swap<'a>);

/// Index of a part, and what is decided of its jobs.
type DecidedPart<'a, A> = (usize, Vec<Decided<'a, A>>);

/// Buckets, each with the index of its part and of jobs in it.
type Asked = [(Bucket, (usize, Vec<usize>))];

impl RedisStore {
    /// Makes the transitions that requests ask for.
    pub(super) async fn decide<R: Request>(
        &self,
        parts: Parts<Vec<R>>,
    ) -> StoreResults<Vec<Reply<R::Answer>>> {
        self.decide_on(parts, None).await
    }

    /// Makes transitions like [`decide`](Self::decide), of jobs that another script has loaded.
    pub(super) async fn decide_on<R: Request>(
        &self,
        parts: Parts<Vec<R>>,
        mut loads: Option<Vec<Loads>>,
    ) -> StoreResults<Vec<Reply<R::Answer>>> {
        let mut works: Vec<Work<R>> = parts.iter().map(|(_, jobs)| Work::new(jobs.len())).collect();
        loop {
            let mut asked = Vec::new();
            for (n, (bucket, jobs)) in parts.iter().enumerate() {
                let picked = works[n].pick(jobs);
                if !picked.is_empty() {
                    asked.push((*bucket, (n, picked)));
                }
            }
            if asked.is_empty() {
                return works.into_iter().map(Work::finish).collect();
            }
            let pause = works.iter().map(Work::pause).max().unwrap_or_default();
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            // A script whose reply was confirmed has loaded the jobs.
            let are_confirmed = R::IS_CONFIRMED && loads.is_some();
            let loads = match loads.take() {
                Some(loads) => picked_of(loads, &asked),
                None => self.load_by(&asked, &parts, "").await,
            };
            let (loads, searched) = self.search_astray(loads, &asked, &parts, &works).await;
            let mut loaded = Vec::with_capacity(asked.len());
            for ((bucket, (n, picked)), loads) in asked.into_iter().zip(loads) {
                let (now, texts) = match loads {
                    Ok(loads) => loads,
                    Err(error) => {
                        works[n].fail(error);
                        continue;
                    }
                };
                let mut jobs = Vec::with_capacity(picked.len());
                for (index, texts) in picked.into_iter().zip(texts) {
                    match Loaded::parse(&parts[n].1[index], texts, now) {
                        Ok(job) => jobs.push((index, job)),
                        Err(refusal) => works[n].settle(index, Err(refusal)),
                    }
                }
                loaded.push((bucket, n, now, jobs));
            }
            let mut swaps = Vec::with_capacity(loaded.len());
            for (bucket, n, now, jobs) in &loaded {
                let are_confirmed = are_confirmed && !searched.contains(n);
                let edits = decide_all(&mut works[*n], &parts[*n].1, jobs, *now);
                // A reply without an edit waits for a confirmation too, because earlier writes that
                // it depends on may be unconfirmed.
                let needs_confirmation =
                    R::IS_CONFIRMED && !are_confirmed && self.confirms(*bucket);
                if !edits.is_empty() || needs_confirmation {
                    swaps.push((*bucket, (*n, edits)));
                }
            }
            let done = self.swap::<R>(&swaps).await;
            for ((_, (n, edits)), done) in swaps.into_iter().zip(done) {
                match done {
                    Ok(codes) => {
                        for ((index, answer, _), code) in edits.into_iter().zip(codes) {
                            works[n].follow(index, answer, code);
                        }
                    }
                    Err(error) => works[n].fail(error),
                }
            }
        }
    }

    /// Searches all topics for the loaded jobs that no set of their own topic has. If a put or a
    /// restore finds an id free and a set has it, that is searched too. Also returns the indexes of
    /// the parts with such jobs: what is loaded of them is not confirmed.
    async fn search_astray<R: Request>(
        &self,
        mut loads: StoreResults<Loads>,
        asked: &Asked,
        parts: &Parts<Vec<R>>,
        works: &[Work<R>],
    ) -> (StoreResults<Loads>, Vec<usize>) {
        let mut searched = Vec::new();
        for ((bucket, (n, picked)), loads) in asked.iter().zip(&mut loads) {
            let Ok((_, texts)) = loads else { continue };
            let requests = &parts[*n].1;
            let may_be_elsewhere = |&i: &usize| {
                let is_unexpected =
                    || requests[picked[i]].arrival().is_some() && works[*n].has_changed(picked[i]);
                texts[i].state.is_none() && (!texts[i].is_gone() || is_unexpected())
            };
            let astray: Vec<usize> = (0..texts.len()).filter(may_be_elsewhere).collect();
            if astray.is_empty() {
                continue;
            }
            searched.push(*n);
            let again = astray.iter().map(|&i| picked[i]).collect();
            let found = self.load_by(&[(*bucket, (*n, again))], parts, "s").await.pop();
            match found.unwrap_or_else(|| Err(StoreError::unreadable("no reply"))) {
                Ok((_, found)) => {
                    // Jobs for which the reply had no room are loaded again.
                    texts.truncate(astray.get(found.len()).map_or(texts.len(), |&next| next));
                    astray.into_iter().zip(found).for_each(|(i, found)| texts[i] = found);
                }
                Err(error) => *loads = Err(error),
            }
        }
        (loads, searched)
    }

    async fn load_by<R: Request>(
        &self,
        asked: &Asked,
        parts: &Parts<Vec<R>>,
        letters: &str,
    ) -> StoreResults<Loads> {
        let bodies = if R::Answer::HAS_BODY { "b" } else { "" };
        let fill = |cmd: &mut Cmd, _, (n, picked): &(usize, Vec<usize>)| {
            cmd.arg([letters, bodies].concat());
            for &index in picked {
                cmd.arg(parts[*n].1[index].id().as_str());
            }
        };
        let read = |reply: &mut Values, (_, picked): &(usize, Vec<usize>)| {
            let now = Now::of_micros(reply.number()?);
            // At least the first bucket of a call has a job in its reply.
            let count = if R::Answer::HAS_BODY { reply.left() } else { picked.len() };
            let texts: StoreResult<Vec<_>> = (0..count).map(|_| Texts::read(reply)).collect();
            Ok((now, texts?))
        };
        let loads = self.run_each(&self.scripts.load, asked, fill, read).await;
        let buckets = asked.iter().map(|(bucket, _)| *bucket);
        let read = |(bucket, load): (Bucket, StoreResult<Loads>)| match load {
            Ok((now, texts)) => Ok((self.with_believed(bucket, now), texts)),
            Err(error) => Err(self.not_loaded(bucket, error)),
        };
        buckets.zip(loads).map(read).collect()
    }

    /// Adds the time that this process believes to a time of the bucket's server.
    pub(super) fn with_believed(&self, bucket: Bucket, now: Now) -> Now {
        let believed = self.watch.bounded(bucket.index(), now).floor;
        Now { believed, ..now }
    }

    /// Returns the error of a load, which has changed nothing. The next calls wait for this one, so
    /// they must not wait for a dead connection again.
    fn not_loaded(&self, bucket: Bucket, error: StoreError) -> StoreError {
        match error {
            StoreError::Unavailable { applied: Applied::Unknown, cause } => {
                if let Ok(master) = self.nodes.of(self.keys[bucket.index()].slot) {
                    master.node.renew("the server does not answer");
                }
                StoreError::Unavailable { applied: Applied::No, cause }
            }
            error => error,
        }
    }

    /// Writes edits; returns the code of each.
    async fn swap<R: Request>(
        &self,
        swaps: &[(Bucket, DecidedPart<'_, R::Answer>)],
    ) -> StoreResults<Vec<i64>> {
        let grows = swaps.iter().flat_map(|(_, (_, edits))| edits).any(|(_, _, swap)| swap.grows());
        let fill = |cmd: &mut Cmd, _, (_, edits): &DecidedPart<'_, R::Answer>| {
            cmd.arg(if grows { "new" } else { "" });
            edits.iter().for_each(|(_, _, swap)| swap.fill(cmd));
        };
        let read = |reply: &mut Values, (_, edits): &DecidedPart<'_, R::Answer>| {
            edits.iter().map(|_| reply.int()).collect()
        };
        let swap = match (R::IS_CONFIRMED, R::ADDS_JOBS) {
            (false, _) => &self.scripts.swap_overdue,
            (true, false) => &self.scripts.swap,
            (true, true) => &self.scripts.swap_arrivals,
        };
        self.run_each(swap, swaps, fill, read).await
    }

    /// Returns whether answers about a bucket wait for the confirmation that `store.ack` demands.
    fn confirms(&self, bucket: Bucket) -> bool {
        let master = self.nodes.of(self.keys[bucket.index()].slot);
        master.is_ok_and(|master| master.node.confirms())
    }
}

/// Decides the requests for loaded jobs, and settles those without an edit. A repeated id waits for
/// the edit before it.
fn decide_all<'a, R: Request>(
    work: &mut Work<R>,
    requests: &[R],
    jobs: &'a [(usize, Loaded<'a>)],
    now: Now,
) -> Vec<Decided<'a, R::Answer>> {
    let (mut edits, mut edited) = (Vec::with_capacity(jobs.len()), HashSet::new());
    for (index, job) in jobs {
        if edited.contains(job.id) {
            continue;
        }
        let known = job.known(work.may_move(*index), work.has_room(*index));
        match swap_or_reply(&requests[*index], job, &known, now) {
            Ok((answer, swap)) => {
                if jobs.len() > 1 {
                    edited.insert(job.id);
                }
                edits.push((*index, answer, swap));
            }
            Err(reply) => work.settle(*index, reply),
        }
    }
    edits
}

/// Returns the answer to a request and its edit; if nothing is to be written, the reply.
fn swap_or_reply<'a, R: Request>(
    request: &R,
    job: &'a Loaded<'a>,
    known: &Known<'_>,
    now: Now,
) -> Result<(R::Answer, Swap<'a>), Reply<R::Answer>> {
    let living = (!job.is_absent).then_some(known);
    let edit = request.decide(living, now).map_err(Err)?;
    // A job that half a transition has left in no set becomes ready.
    let becomes_ready = known.is_astray && known.state != State::Finished;
    let is_written = edit.is_some() || becomes_ready;
    let edit = edit.unwrap_or_else(|| known.unchanged());
    let answer = R::Answer::new(request, job, known, &edit).map_err(Err)?;
    if !is_written {
        return Err(Ok(answer));
    }
    let swap = Swap::new(job, now, edit).ok_or(Err(Refusal::Damaged))?;
    Ok((answer, swap))
}

/// Returns the loads of the first round, for the jobs that are asked for.
fn picked_of(loads: Vec<Loads>, asked: &Asked) -> StoreResults<Loads> {
    let mut loads: Vec<(Now, Vec<Option<Texts>>)> = loads
        .into_iter()
        .map(|(now, texts)| (now, texts.into_iter().map(Some).collect()))
        .collect();
    let picked = asked.iter().map(|(_, (n, picked))| {
        let (now, texts) = &mut loads[*n];
        Ok((*now, picked.iter().filter_map(|&index| texts[index].take()).collect()))
    });
    picked.collect()
}
