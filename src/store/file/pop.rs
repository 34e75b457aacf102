//! Pop: reserves jobs and reads their records one by one, until the bodies read are enough.

use super::{
    machine::{Fate, Hold, Taken, Write},
    records::ReadError,
    writer_state::WriterState,
};
use crate::{
    job::{Bucket, Nonce, PoppedJob, Topics},
    store::{Bury, JobRef, Now, PopRequest, Popped, StoreError, StoreResult},
};

/// Bytes of bodies after which a pop stops, because its result is in memory and reading delays the
/// commit of other calls. The reply shows the caller that more jobs are ready.
const MAX_POP_BYTES: usize = 4 << 20;

/// Pops all jobs or none: if SQLite fails to read a job, no job is reserved.
pub fn pop(
    writer: &mut WriterState,
    bucket: Bucket,
    (nonce, wants): (Nonce, Vec<PopRequest>),
) -> StoreResult<Vec<Popped>> {
    writer.all_or_nothing(|writer| {
        let mut pop = Pop::new(writer.now(), nonce);
        let popped: StoreResult<Vec<Popped>> =
            wants.into_iter().map(|want| pop.take(writer, bucket, &want)).collect();
        if popped.iter().flatten().any(|popped| popped.dead > 0) {
            writer.count_until(writer.believed_now());
        }
        popped
    })
}

/// State of one call, which all of its requests share.
struct Pop {
    now: Now,
    nonce: Nonce,
    /// Number of reservations given.
    given: u16,
    bytes: usize,
}

impl Pop {
    fn new(now: Now, nonce: Nonce) -> Self {
        Self { now, nonce, given: 0, bytes: 0 }
    }

    /// Pops the jobs of one request from a bucket. A damaged job is quarantined as dead.
    fn take(
        &mut self,
        writer: &mut WriterState,
        bucket: Bucket,
        want: &PopRequest,
    ) -> StoreResult<Popped> {
        let mut popped = Popped::default();
        for _ in 0..want.count {
            if self.given == Nonce::RESERVATIONS || self.bytes >= MAX_POP_BYTES {
                break;
            }
            let hold = Hold {
                reservation: self.nonce.reservation(self.given),
                ttr: want.ttr,
                consumer: want.consumer.clone(),
            };
            let machine = &mut writer.machines[bucket.index()];
            let taken = machine.pop(self.now, &want.topic, hold, &mut popped, &mut writer.writes);
            let Some(taken) = taken else { break };
            self.given += 1;
            match writer.read(taken.serial) {
                Ok(record) => {
                    self.bytes += record.body.len();
                    popped.jobs.push(PoppedJob {
                        id: taken.id,
                        topic: want.topic.clone(),
                        body: record.body,
                        attempt: taken.attempt,
                        due_at: taken.due_at,
                        created_at: record.created_at,
                        ttr: taken.ttr,
                        reservation: taken.reservation,
                        reserved_until: taken.reserved_until,
                        policy: record.policy,
                    });
                }
                Err(ReadError::Engine(cause)) => return Err(StoreError::unavailable(cause)),
                Err(ReadError::Damaged(damage)) => {
                    popped.dead += self.quarantine(writer, bucket, taken, damage);
                }
            }
        }
        popped.left = writer.machines[bucket.index()].ready(&want.topic);
        Ok(popped)
    }

    /// Buries a damaged job. Returns the number of jobs that died.
    fn quarantine(
        &self,
        writer: &mut WriterState,
        bucket: Bucket,
        taken: Taken,
        damage: String,
    ) -> u64 {
        tracing::error!(id = %taken.id, damage, "quarantined a damaged job as dead");
        let held =
            JobRef { id: taken.id, reservation: Some(taken.reservation), topics: Topics::ALL };
        let bury = Bury { held, error: Some(damage) };
        let machine = &mut writer.machines[bucket.index()];
        let buried = machine.bury_damaged(self.now, &bury, &mut writer.writes);
        if let Err(refusal) = &buried {
            tracing::error!(?refusal, "failed to quarantine a damaged job");
        }
        // Damaged pages may point to pages of other jobs. A delete would free those pages.
        writer.writes.push(Write::Quarantine { serial: taken.serial, fate: Fate::Dead });
        buried.is_ok_and(|job| job.died).into()
    }
}
