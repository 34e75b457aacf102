//! Pops, whose reply is checked job by job, and their reversal.

use futures::future::join_all;
use redis::Cmd;

use super::{
    RedisStore,
    calls::only,
    reply::Values,
    scripts::{held, millis_text},
    transitions::{buried, each_job, each_reply, topic},
};
use crate::{
    job::{Nonce, Topic, Topics},
    store::{
        Applied, Bury, JobRef, Parts, PopRequest, Popped, Reply, StoreError, StoreResult,
        StoreResults, Transitioned,
    },
};

impl RedisStore {
    /// Pops jobs. Jobs with a damaged record are buried; the consumer gets the others.
    pub async fn pop(&self, parts: Parts<(Nonce, Vec<PopRequest>)>) -> StoreResults<Vec<Popped>> {
        let fill = |cmd: &mut Cmd, _, (nonce, wants): &(Nonce, Vec<PopRequest>)| {
            cmd.arg(nonce.to_string());
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
        let outcomes = self.each(&self.scripts.pop, &parts, fill, read).await;
        let mut damaged = Vec::new();
        let outcomes = parts.iter().zip(outcomes).map(|(&(bucket, _), outcome)| {
            let (popped, unreadable) = outcome?;
            damaged.extend((!unreadable.is_empty()).then_some((bucket, unreadable)));
            Ok(popped)
        });
        let outcomes = outcomes.collect();
        // If this fails, the next pop after the job's TTR buries it.
        for error in self.bury(damaged).await.into_iter().filter_map(Result::err) {
            tracing::error!(%error, "failed to quarantine damaged jobs");
        }
        outcomes
    }

    async fn bury(&self, damaged: Parts<Vec<Bury>>) -> StoreResults<Vec<Reply<Transitioned>>> {
        let (fill, read) = (each_job(buried), each_reply(Values::moved));
        self.each_guarded(&self.scripts.bury, &damaged, fill, read).await
    }

    /// Releases the reservations of a pop.
    pub async fn unpop(&self, parts: Parts<Vec<JobRef>>) -> StoreResults<Vec<Reply<Topic>>> {
        let script = &self.scripts.unpop;
        let (fill, read) = (each_job(held), each_reply(topic));
        let outcomes = self.each(script, &parts, &fill, &read).await;
        let settled = parts.iter().zip(outcomes).map(async |(part, outcome)| match outcome {
            // Nothing was written, perhaps because earlier writes lack a confirmation: try without
            // one.
            Err(StoreError::Unavailable { applied: Applied::No, .. }) => {
                let unconfirmed = self.call(script, false, std::slice::from_ref(part), &fill);
                read(&mut only(unconfirmed.await?)?, &part.1)
            }
            outcome => outcome,
        });
        join_all(settled).await
    }
}

/// Reads the jobs of each request, and the damaged ones, which must be buried.
fn read(
    reply: &mut Values,
    nonce: Nonce,
    wants: &[PopRequest],
) -> StoreResult<(Vec<Popped>, Vec<Bury>)> {
    let now = reply.millis()?;
    let mut reservations = (0..Nonce::RESERVATIONS).map(|index| nonce.reservation(index));
    let mut damaged = Vec::new();
    let mut all = Vec::with_capacity(wants.len());
    for _ in wants {
        let left = reply.number()?;
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
                    damaged.push(Bury { held, error: Some(damage.to_string()) });
                }
            }
        }
        all.push(Popped { jobs, left });
    }
    Ok((all, damaged))
}
