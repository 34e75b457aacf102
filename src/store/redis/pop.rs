//! Pops, whose reply is checked job by job, and their reversal.

use futures::future::join_all;
use redis::Cmd;

use super::{
    RedisStore,
    calls::only,
    commands::{each_job, each_reply},
    decisions::BuryDamaged,
    reply::Values,
    scripts::{add_job_ref, millis_text},
};
use crate::{
    job::{Bucket, Nonce, PoppedJob, Topic, Topics},
    store::{
        Applied, Bury, JobRef, Parts, PopRequest, Popped, Readied, ReadyJobs, Reply, StoreError,
        StoreResult, StoreResults, Transitioned, clock_watch::Believed,
    },
};

impl RedisStore {
    /// Pops jobs. Jobs with a damaged record are buried; the consumer gets the others.
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
        let (mut damaged, mut expired) = (Vec::new(), Vec::new());
        let outcomes = parts.iter().zip(outcomes).map(|(&(bucket, _), outcome)| {
            let (mut popped, unreadable) = outcome?;
            damaged.extend((!unreadable.is_empty()).then_some((bucket, unreadable)));
            let late = self.take_expired(bucket, &mut popped);
            expired.extend((!late.is_empty()).then_some((bucket, late)));
            Ok(popped)
        });
        let mut outcomes: StoreResults<Vec<Popped>> = outcomes.collect();
        // If this fails, the jobs die at the end of their TTR.
        for error in self.unpop(expired).await.into_iter().filter_map(Result::err) {
            tracing::warn!(%error, "failed to give expired jobs back");
        }
        let buckets: Vec<Bucket> = damaged.iter().map(|&(bucket, _)| bucket).collect();
        for (bucket, outcome) in buckets.into_iter().zip(self.decide(damaged).await) {
            match outcome {
                Ok(buried) => count_buried(&parts, &mut outcomes, bucket, &buried),
                // The next pop after the job's TTR buries the job.
                Err(error) => tracing::error!(%error, "failed to quarantine damaged jobs"),
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

/// Adds buried jobs to the dead ones of the requests for their topics.
fn count_buried(
    parts: &Parts<(Nonce, Vec<PopRequest>)>,
    outcomes: &mut [StoreResult<Vec<Popped>>],
    bucket: Bucket,
    buried: &[Reply<Transitioned>],
) {
    let Some(index) = parts.iter().position(|&(of, _)| of == bucket) else { return };
    let Ok(popped) = &mut outcomes[index] else { return };
    for job in buried.iter().flatten().filter(|job| job.died) {
        let mut wants = parts[index].1.1.iter().zip(&mut *popped);
        if let Some((_, popped)) = wants.find(|(want, _)| want.topic == *job.topic_before()) {
            popped.dead += 1;
        }
    }
}

/// Reads how many expired jobs are dead, and which are ready in other topics, by topic.
fn read_expired(mut values: Values) -> StoreResult<(u64, Vec<(Topic, ReadyJobs)>)> {
    let (dead, mut moved) = (values.number()?, Vec::new());
    while values.left() > 0 {
        let topic = values.parsed()?;
        moved.push((topic, ReadyJobs { count: values.number()?, highest: values.priority()? }));
    }
    Ok((dead, moved))
}

/// Reads the jobs of each request, and the damaged ones, which must be buried.
fn read(
    reply: &mut Values,
    nonce: Nonce,
    wants: &[PopRequest],
) -> StoreResult<(Vec<Popped>, Vec<BuryDamaged>)> {
    let now = reply.millis()?;
    let mut reservations = (0..Nonce::RESERVATIONS).map(|index| nonce.reservation(index));
    let mut damaged = Vec::new();
    let mut all = Vec::with_capacity(wants.len());
    for _ in wants {
        let (left, expired) = reply.number_and_more()?;
        let (dead, moved) = expired.map(read_expired).transpose()?.unwrap_or_default();
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
                    damaged.push(BuryDamaged(Bury { held, error: Some(damage.to_string()) }));
                }
            }
        }
        all.push(Popped { jobs, left, moved, dead });
    }
    Ok((all, damaged))
}
