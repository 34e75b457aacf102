//! Transitions that `delay-queue-core` decides: one script loads the jobs, and one writes the edits
//! of the jobs that are still the same. The others are loaded again.

mod loaded;
mod swap;
mod work;

use delay_queue_core::decide::{Edit, Known};
use redis::Cmd;

use self::{
    loaded::{Loaded, Named, Texts},
    swap::Swap,
    work::Work,
};
use super::{RedisStore, reply::Values};
use crate::{
    job::{Bucket, JobId, Refusal},
    store::{Applied, Now, Parts, Reply, StoreError, StoreResult, StoreResults, Transitioned},
};

/// The jobs of one bucket as they were loaded, and the time then.
type Loads = (Now, Vec<Texts>);

/// Index of a job in its part, the answer to its caller, and its edit.
type Decided<'a> = (usize, Transitioned, Swap<'a>);

impl RedisStore {
    /// Makes a transition of each job, which `decide` decides; without an edit, the job stays as it
    /// is. `named` returns the job that the caller names.
    pub(super) async fn decide<J: Sync>(
        &self,
        parts: &Parts<Vec<J>>,
        named: impl Fn(&J) -> Named<'_> + Sync,
        decide: impl Fn(&Known<'_>, Now, &J) -> Reply<Option<Edit>> + Sync,
    ) -> StoreResults<Vec<Reply<Transitioned>>> {
        let mut works: Vec<Work> = parts.iter().map(|(_, jobs)| Work::new(jobs.len())).collect();
        loop {
            let mut asked = Vec::new();
            for (n, (bucket, jobs)) in parts.iter().enumerate() {
                let picked = works[n].pick(|index| named(&jobs[index]).0);
                if !picked.is_empty() {
                    asked.push((*bucket, (n, picked)));
                }
            }
            if asked.is_empty() {
                return works.into_iter().map(Work::finish).collect();
            }
            let id = |n: usize, index: usize| named(&parts[n].1[index]).0;
            let loads = self.load(&asked, id).await;
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
                    match Loaded::parse(named(&parts[n].1[index]), texts, now) {
                        Ok(job) => jobs.push((index, job)),
                        Err(refusal) => works[n].settle(index, Err(refusal)),
                    }
                }
                loaded.push((bucket, n, now, jobs));
            }
            let mut swaps = Vec::with_capacity(loaded.len());
            for (bucket, n, now, jobs) in &loaded {
                let mut edits = Vec::with_capacity(jobs.len());
                for (index, job) in jobs {
                    let known = job.known(works[*n].may_move(*index));
                    let decided = decide(&known, *now, &parts[*n].1[*index]);
                    match swap_or_reply(job, &known, *now, decided) {
                        Ok((answer, swap)) => edits.push((*index, answer, swap)),
                        Err(reply) => works[*n].settle(*index, reply),
                    }
                }
                // A reply without an edit waits for a confirmation too, because earlier writes that
                // it depends on may be unconfirmed.
                if !edits.is_empty() || self.confirms(*bucket) {
                    swaps.push((*bucket, (*n, edits)));
                }
            }
            let done = self.swap(&swaps).await;
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

    /// Loads jobs, each by the index of its part and its own. Searches all topics for the
    /// jobs that no set of their own topic has.
    async fn load<'a>(
        &self,
        asked: &[(Bucket, (usize, Vec<usize>))],
        id: impl Fn(usize, usize) -> &'a JobId + Sync,
    ) -> StoreResults<Loads> {
        let mut loads = self.load_from(asked, "", &id).await;
        for ((bucket, (n, picked)), loads) in asked.iter().zip(&mut loads) {
            let Ok((_, texts)) = loads else { continue };
            let astray: Vec<usize> = (0..texts.len()).filter(|&i| texts[i].is_astray()).collect();
            if astray.is_empty() {
                continue;
            }
            let again = astray.iter().map(|&i| picked[i]).collect();
            let found = self.load_from(&[(*bucket, (*n, again))], "s", &id).await.pop();
            match found.unwrap_or_else(|| Err(StoreError::unreadable("no reply"))) {
                Ok((_, found)) => {
                    astray.into_iter().zip(found).for_each(|(i, found)| texts[i] = found);
                }
                Err(error) => *loads = Err(error),
            }
        }
        loads
    }

    async fn load_from<'a>(
        &self,
        asked: &[(Bucket, (usize, Vec<usize>))],
        searches: &str,
        id: impl Fn(usize, usize) -> &'a JobId + Sync,
    ) -> StoreResults<Loads> {
        let fill = |cmd: &mut Cmd, _, (n, picked): &(usize, Vec<usize>)| {
            cmd.arg(searches);
            for index in picked {
                cmd.arg(id(*n, *index).as_str());
            }
        };
        let read = |reply: &mut Values, (_, picked): &(usize, Vec<usize>)| {
            let now = Now::of_micros(reply.number()?);
            let texts: StoreResult<Vec<_>> = picked.iter().map(|_| Texts::read(reply)).collect();
            Ok((now, texts?))
        };
        let loads = self.each(&self.scripts.load, asked, fill, read).await;
        let buckets = asked.iter().map(|(bucket, _)| *bucket);
        buckets
            .zip(loads)
            .map(|(bucket, load)| load.map_err(|e| self.not_loaded(bucket, e)))
            .collect()
    }

    /// Returns the error of a load, which has changed nothing. The next calls wait for this one, so
    /// they must not wait for a dead connection again.
    fn not_loaded(&self, bucket: Bucket, error: StoreError) -> StoreError {
        match error {
            StoreError::Unavailable { applied: Applied::Unknown, cause } => {
                if let Ok(master) = self.nodes.of(self.keys[bucket.index()].slot) {
                    master.node.calls().renew("the server does not answer");
                }
                StoreError::Unavailable { applied: Applied::No, cause }
            }
            error => error,
        }
    }

    /// Writes edits; returns the code of each.
    async fn swap(&self, swaps: &[(Bucket, (usize, Vec<Decided<'_>>))]) -> StoreResults<Vec<i64>> {
        let grows = swaps.iter().flat_map(|(_, (_, edits))| edits).any(|(_, _, swap)| swap.grows());
        let fill = |cmd: &mut Cmd, _, (_, edits): &(usize, Vec<Decided<'_>>)| {
            cmd.arg(if grows { "new" } else { "" });
            edits.iter().for_each(|(_, _, swap)| swap.fill(cmd));
        };
        let read = |reply: &mut Values, (_, edits): &(usize, Vec<Decided<'_>>)| {
            edits.iter().map(|_| reply.int()).collect()
        };
        self.each(&self.scripts.swap, swaps, fill, read).await
    }

    /// Returns whether answers about a bucket wait for the confirmation that `store.ack` demands.
    fn confirms(&self, bucket: Bucket) -> bool {
        let master = self.nodes.of(self.keys[bucket.index()].slot);
        master.is_ok_and(|master| master.node.confirms())
    }
}

/// Returns the answer and the swap of a decision; if nothing is to be written, the reply.
fn swap_or_reply<'a>(
    job: &'a Loaded<'a>,
    known: &Known<'_>,
    now: Now,
    decided: Reply<Option<Edit>>,
) -> Result<(Transitioned, Swap<'a>), Reply<Transitioned>> {
    let edit = match decided.map_err(Err)? {
        Some(edit) => edit,
        // Half a transition has left the job in no set.
        None if job.texts.state.is_none() => known.made_ready(),
        None => return Err(Ok(known.unchanged())),
    };
    let answer = edit.answer(known);
    let swap = Swap::new(job, now, edit).ok_or(Err(Refusal::Damaged))?;
    Ok((answer, swap))
}
