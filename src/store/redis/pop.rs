//! Popping, whose reply is checked job by job, and giving back.

use futures::future::join_all;
use redis::Cmd;

use super::{RedisStore, all_held, calls::only, read_topics, reply::Values, scripts::millis_text};
use crate::{
    job::{Bucket, Nonce, Topic, Topics},
    store::{
        Applied, Bury, Claim, PopRequest, Popped, Reply, Store, StoreError, StoreResult,
        StoreResults,
    },
};

impl RedisStore {
    /// A job whose record is damaged is set aside as dead, and the others are the consumer's.
    pub async fn pop_parts(
        &self,
        parts: &[(Bucket, (Nonce, Vec<PopRequest>))],
    ) -> StoreResults<Vec<Popped>> {
        let fill = |cmd: &mut Cmd, (nonce, wants): &(Nonce, Vec<PopRequest>)| {
            cmd.arg(nonce.to_string());
            for want in wants {
                cmd.arg(want.topic.as_str()).arg(want.count).arg(millis_text(want.ttr));
            }
        };
        let read = |reply: &mut Values, (nonce, wants): &(Nonce, Vec<PopRequest>)| {
            read(reply, *nonce, wants)
        };
        let outcomes = self.each(&self.scripts.pop, parts, fill, read).await;
        let mut damaged = Vec::new();
        let outcomes = parts.iter().zip(outcomes).map(|(&(bucket, _), outcome)| {
            let (popped, unreadable) = outcome?;
            damaged.extend((!unreadable.is_empty()).then_some((bucket, unreadable)));
            Ok(popped)
        });
        let outcomes = outcomes.collect();
        // If this fails, the job comes back after its TTR and is set aside then.
        for error in self.bury(damaged).await.into_iter().filter_map(Result::err) {
            tracing::error!(%error, "failed to set damaged jobs aside");
        }
        outcomes
    }

    /// Gives back what a pop has reserved.
    pub async fn unpop_parts(
        &self,
        parts: &[(Bucket, Vec<Claim>)],
    ) -> StoreResults<Vec<Reply<Topic>>> {
        let script = &self.scripts.unpop;
        let outcomes = self
            .each(
                script,
                parts,
                |cmd, jobs| all_held(cmd, jobs),
                |reply, jobs| read_topics(reply, jobs),
            )
            .await;
        let settled = parts.iter().zip(outcomes).map(async |(part, outcome)| match outcome {
            // Nothing was written, perhaps because nothing confirms what was written before.
            Err(StoreError::Unavailable { applied: Applied::No, .. }) => {
                let part = std::slice::from_ref(part);
                let mut reply = only(
                    self.call(script, false, part, &|cmd: &mut Cmd, jobs: &Vec<Claim>| {
                        all_held(cmd, jobs)
                    })
                    .await?,
                )?;
                read_topics(&mut reply, &part[0].1)
            }
            outcome => outcome,
        });
        join_all(settled).await
    }
}

/// What each want got, and what of it cannot be read.
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
                    tracing::error!(%id, %damage, "set a damaged job aside as dead");
                    let held = Claim { id, reservation: Some(reservation), topics: Topics::ALL };
                    damaged.push(Bury { held, error: Some(damage.to_string()) });
                }
            }
        }
        all.push(Popped { jobs, left });
    }
    Ok((all, damaged))
}
