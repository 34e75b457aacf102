//! Pops, whose reply is checked job by job, and their reversal.

use futures::future::join_all;
use redis::Cmd;

use super::{
    RedisStore,
    calls::only,
    commands::{each_job, each_reply},
    decisions::{BuryDamaged, Overdue, Texts},
    reply::Values,
    scripts::{add_job_ref, millis_text},
};
use crate::{
    job::{Bucket, Nonce, PoppedJob, Topics},
    store::{
        Applied, Bury, JobRef, Now, Parts, PopRequest, Popped, Readied, Reply, StoreError,
        StoreResult, StoreResults, Transitioned, clock_watch::Believed,
    },
};

impl RedisStore {
    /// Pops jobs. Jobs with a damaged record are buried, and jobs that have expired die; the
    /// consumer gets the others.
    pub async fn pop(&self, parts: Parts<(Nonce, Vec<PopRequest>)>) -> StoreResults<Vec<Popped>> {
        let fill = |cmd: &mut Cmd, bucket, (nonce, wants): &(Nonce, Vec<PopRequest>)| {
            cmd.arg(format!("{nonce} {}", self.believed(bucket)));
            for want in wants {
                let mut held_for = millis_text(want.ttr);
                if let Some(consumer) = &want.consumer {
                    held_for = format!("{held_for} {consumer}");
                }
                cmd.arg(want.topic.as_str()).arg(want.count).arg(held_for);
            }
        };
        let read = |reply: &mut Values, (nonce, wants): &(Nonce, Vec<PopRequest>)| {
            read(reply, *nonce, wants)
        };
        let outcomes = self.run_each(&self.scripts.pop, &parts, fill, read).await;
        let (mut damaged, mut late) = (Vec::new(), Vec::new());
        let (mut expired, mut loads) = (Vec::new(), Vec::new());
        let outcomes = parts.iter().zip(outcomes).map(|(&(bucket, _), outcome)| {
            let mut found: Found = outcome?;
            damaged.extend((!found.damaged.is_empty()).then_some((bucket, found.damaged)));
            let held = self.take_expired(bucket, &mut found.popped);
            late.extend((!held.is_empty()).then_some((bucket, held)));
            if !found.expired.is_empty() {
                expired.push((bucket, found.expired));
                loads.push((found.at, found.texts));
            }
            Ok(found.popped)
        });
        let mut outcomes: StoreResults<Vec<Popped>> = outcomes.collect();
        // If this fails, the jobs die at the end of their TTR.
        for error in self.unpop(late).await.into_iter().filter_map(Result::err) {
            tracing::warn!(%error, "failed to give expired jobs back");
        }
        let buckets: Vec<Bucket> = damaged.iter().map(|&(bucket, _)| bucket).collect();
        for (bucket, outcome) in buckets.into_iter().zip(self.decide(damaged).await) {
            match outcome {
                Ok(buried) => count_ended(&parts, &mut outcomes, bucket, buried.iter().flatten()),
                // The next pop after the job's TTR buries the job.
                Err(error) => tracing::error!(%error, "failed to quarantine damaged jobs"),
            }
        }
        let buckets: Vec<Bucket> = expired.iter().map(|&(bucket, _)| bucket).collect();
        for (bucket, outcome) in buckets.into_iter().zip(self.decide_on(expired, Some(loads)).await)
        {
            match outcome {
                Ok(lapsed) => {
                    let jobs = lapsed.iter().flatten().map(|lapsed| &lapsed.job);
                    count_ended(&parts, &mut outcomes, bucket, jobs);
                }
                // They stay ready, and the timer or the next pop ends them.
                Err(error) => fail_if_empty(&parts, &mut outcomes, bucket, error),
            }
        }
        outcomes
    }

    /// Removes the jobs that had expired when they were popped. A script that runs late takes its
    /// delay for a jump of the clock, and compares with the time at which its call was sent.
    fn take_expired(&self, bucket: Bucket, popped: &mut [Popped]) -> Vec<JobRef> {
        let believed = self.watch.believed(bucket.index());
        let has_expired = |job: &mut PoppedJob| {
            let Some(expires_at) = job.policy.expires_at else { return false };
            // The reservation began one TTR before its end.
            let is_certain = |believed: Believed| {
                job.reserved_until <= believed.latest.after(job.ttr)
                    || expires_at < believed.expected
            };
            expires_at.after(job.ttr) < job.reserved_until && believed.is_none_or(is_certain)
        };
        let held = |job: PoppedJob| JobRef {
            id: job.id,
            reservation: Some(job.reservation),
            topics: Topics::ALL,
        };
        let mut expired = Vec::new();
        for popped in popped {
            expired.extend(popped.jobs.extract_if(.., has_expired).map(held));
        }
        expired
    }

    /// Releases the reservations of a pop.
    pub async fn unpop(&self, parts: Parts<Vec<JobRef>>) -> StoreResults<Vec<Reply<Readied>>> {
        let script = &self.scripts.unpop;
        let (fill, read) = (each_job(add_job_ref), each_reply(Values::readied));
        let outcomes = self.run_each(script, &parts, &fill, &read).await;
        let settled = parts.iter().zip(outcomes).map(async |(part, outcome)| match outcome {
            // Nothing was written, perhaps because earlier writes lack a confirmation. Tries again
            // without a confirmation.
            Err(StoreError::Unavailable { applied: Applied::No, .. }) => {
                let unconfirmed = self.call(script, false, std::slice::from_ref(part), &fill);
                read(&mut only(unconfirmed.await?)?, &part.1)
            }
            outcome => outcome,
        });
        join_all(settled).await
    }
}

/// Adds jobs that have died to those of the requests for their topics.
fn count_ended<'a>(
    parts: &Parts<(Nonce, Vec<PopRequest>)>,
    outcomes: &mut [StoreResult<Vec<Popped>>],
    bucket: Bucket,
    jobs: impl Iterator<Item = &'a Transitioned>,
) {
    let Some(index) = parts.iter().position(|&(of, _)| of == bucket) else { return };
    let Ok(popped) = &mut outcomes[index] else { return };
    for job in jobs {
        let mut wants = parts[index].1.1.iter().zip(&mut *popped);
        if let Some((_, popped)) = wants.find(|(want, _)| want.topic == *job.topic_before()) {
            popped.count_ended(job);
        }
    }
}

/// Makes the error of the jobs that have expired that of the whole part, unless it has reserved
/// some: their consumers must get them.
fn fail_if_empty(
    parts: &Parts<(Nonce, Vec<PopRequest>)>,
    outcomes: &mut [StoreResult<Vec<Popped>>],
    bucket: Bucket,
    error: StoreError,
) {
    tracing::warn!(%error, "failed to end expired jobs");
    let outcome = parts.iter().zip(outcomes).find(|((of, _), _)| *of == bucket);
    if let Some((_, outcome @ Ok(_))) = outcome
        && outcome.iter().flatten().all(|popped| popped.jobs.is_empty())
    {
        *outcome = Err(error.of_read()); // no job is reserved
    }
}

/// The reply of one bucket.
struct Found {
    /// The jobs of each request.
    popped: Vec<Popped>,
    /// Popped jobs that cannot be read, and must be buried.
    damaged: Vec<BuryDamaged>,
    /// Jobs that have expired and are still ready; the time by which they have, and their texts.
    expired: Vec<Overdue>,
    at: Now,
    texts: Vec<Texts>,
}

fn read(reply: &mut Values, nonce: Nonce, wants: &[PopRequest]) -> StoreResult<Found> {
    let now = reply.millis()?;
    let mut reservations = (0..Nonce::RESERVATIONS).map(|index| nonce.reservation(index));
    let mut found = Found {
        popped: Vec::with_capacity(wants.len()),
        damaged: Vec::new(),
        expired: Vec::new(),
        at: Now::of_micros(0),
        texts: Vec::new(),
    };
    for _ in wants {
        let (left, expired) = reply.number_and_more()?;
        if let Some(mut expired) = expired {
            found.at = Now::of_micros(expired.number()?);
            while expired.left() > 0 {
                found.expired.push(Overdue { id: expired.parsed()?, is_expiry: true });
                found.texts.push(Texts::read(&mut expired)?);
            }
        }
        let mut values = reply.inner()?;
        let mut jobs = Vec::new();
        while values.left() > 0 {
            let reservation = reservations.next();
            let reservation =
                reservation.ok_or_else(|| StoreError::unreadable("more jobs than reservations"))?;
            match values.popped(reservation, now)? {
                Ok(job) => jobs.push(job),
                Err((id, damage)) => {
                    tracing::error!(%id, %damage, "quarantined a damaged job as dead");
                    let held = JobRef { id, reservation: Some(reservation), topics: Topics::ALL };
                    found.damaged.push(BuryDamaged(Bury { held, error: Some(damage.to_string()) }));
                }
            }
        }
        found.popped.push(Popped { jobs, left, ..Popped::default() });
    }
    Ok(found)
}
