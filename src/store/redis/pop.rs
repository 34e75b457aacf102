//! Popping: a call of its own file, as its reply is checked job by job.

use redis::Cmd;

use super::{RedisStore, scripts::millis_text};
use crate::{
    job::{Bucket, Nonce},
    store::{Bury, Held, Outcome, Popped, Store, StoreError, Want},
};

impl RedisStore {
    /// A job whose record is damaged is set aside as dead, and the others are the consumer's.
    pub(super) async fn pop_batch(
        &self,
        bucket: Bucket,
        nonce: Nonce,
        wants: &[Want],
    ) -> Outcome<Vec<Popped>> {
        let fill = |cmd: &mut Cmd| {
            cmd.arg(nonce.to_string());
            for want in wants {
                cmd.arg(want.topic.as_str()).arg(want.count).arg(millis_text(want.ttr));
            }
        };
        let mut reply = self.run(&self.scripts.pop, bucket, fill).await?;
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
                let reservation = reservation
                    .ok_or_else(|| StoreError::unreadable("more jobs than reservations"))?;
                match values.popped(reservation, now)? {
                    Ok(job) => jobs.push(job),
                    Err((id, damage)) => {
                        tracing::error!(%id, %damage, "set a damaged job aside as dead");
                        let held = Held { id, reservation: Some(reservation) };
                        damaged.push(Bury { held, error: Some(damage.to_string()) });
                    }
                }
            }
            all.push(Popped { jobs, left });
        }
        if !damaged.is_empty() {
            // If this fails, the job comes back after its TTR and is set aside then.
            if let Err(error) = self.bury(bucket, damaged).await {
                tracing::error!(%error, "failed to set damaged jobs aside");
            }
        }
        Ok(all)
    }
}
