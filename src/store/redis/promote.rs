//! Promotes: a script makes due jobs ready and removes jobs past their retention. The core decides
//! on ended TTRs and on expiries, as the script has loaded the jobs.

use std::time::Instant;

use redis::Cmd;

use super::{
    RedisStore,
    decisions::{Loads, Overdue, Texts},
    reply::Values,
    timers::deadline,
};
use crate::{
    job::Bucket,
    store::{Now, Parts, Promote, PromoteCounts, Promoted, ReadyJobs, StoreResult, StoreResults},
};

/// The reply of a script: its promotions, and the jobs that it leaves to the core.
struct Step {
    promoted: Promoted,
    /// The clock of the server, in microseconds.
    clock: u64,
    overdue: Vec<Overdue>,
    loads: Loads,
}

impl RedisStore {
    pub(super) async fn promote(&self, parts: Parts<Promote>) -> StoreResults<Promoted> {
        let fill = |cmd: &mut Cmd, bucket, promote: &Promote| {
            let lag = if self.is_share(bucket) { 0 } else { self.backlogs.lag(bucket) };
            cmd.arg(promote.limit).arg(self.believed(bucket)).arg(lag);
        };
        let asked = Instant::now();
        let steps =
            self.run_each(&self.scripts.promote, &parts, fill, |reply, _| read(reply)).await;
        let (mut results, mut overdue, mut loads) = (Vec::new(), Vec::new(), Vec::new());
        for (&(bucket, _), step) in parts.iter().zip(steps) {
            results.push(step.map(|step| {
                self.add_clock_reading(bucket, step.clock, asked);
                if !self.is_left(bucket, &step) {
                    overdue.push((bucket, step.overdue));
                    loads.push(step.loads);
                }
                step.promoted
            }));
        }
        if overdue.is_empty() {
            return results;
        }
        let buckets: Vec<Bucket> = overdue.iter().map(|(bucket, _)| *bucket).collect();
        for (bucket, lapsed) in buckets.into_iter().zip(self.decide_on(overdue, Some(loads)).await)
        {
            let index = parts.iter().position(|&(of, _)| of == bucket);
            let Some(Ok(promoted)) = index.map(|index| &mut results[index]) else { continue };
            match lapsed {
                Ok(lapsed) => {
                    lapsed.iter().flatten().for_each(|job| job.count(&mut promoted.topics));
                }
                // The caller must know which jobs are ready. Its next promote fails.
                Err(error) if !promoted.topics.is_empty() => {
                    tracing::debug!(%error, "failed to act on ends of TTRs; tries again");
                }
                Err(error) => results[index.unwrap_or_default()] = Err(error),
            }
        }
        results
    }

    /// Returns whether this server acts first on a bucket. Each does while the others are unknown.
    pub(super) fn is_share(&self, bucket: Bucket) -> bool {
        let servers = self.leases.servers();
        servers.is_none_or(|servers| bucket.index() % servers.ids.len() == servers.own)
    }

    /// Returns whether there is nothing to decide, or another server is about to decide it.
    fn is_left(&self, bucket: Bucket, step: &Step) -> bool {
        let Some(first) = step.overdue.first() else { return true };
        let (found, now) = ((&first.id, step.overdue.len()), step.loads.0.floor);
        let next = step.promoted.next.map_or(now, |next| next.at);
        !self.is_share(bucket) && self.backlogs.leave(bucket, found, next, now)
    }
}

fn read(reply: &mut Values) -> StoreResult<Step> {
    let next = reply.text()?;
    let (micros, clock) = (reply.number()?, reply.number()?);
    let mut list = reply.inner()?;
    let (mut overdue, mut texts) = (Vec::new(), Vec::new());
    while list.left() > 0 {
        overdue.push(Overdue { id: list.parsed()?, is_expiry: list.number()? == 1 });
        texts.push(Texts::read(&mut list)?);
    }
    let mut topics = Vec::with_capacity(reply.left() / 4);
    while reply.left() > 0 {
        let topic = reply.parsed()?;
        let (ready, gone) = (reply.number()?, reply.number()?);
        let ready = ReadyJobs { count: ready, highest: reply.priority()? };
        topics.push((topic, PromoteCounts { ready, gone, ..PromoteCounts::default() }));
    }
    let promoted = Promoted { topics, next: deadline(&next, micros)? };
    Ok(Step { promoted, clock, overdue, loads: (Now::of_micros(micros), texts) })
}
