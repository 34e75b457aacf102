//! A pop: reserves jobs and reads what only the disk knows of them, one by one, so that what was
//! read says when it is enough.

use super::{
    machine::{Taken, Write},
    records::ReadError,
    writer_state::WriterState,
};
use crate::{
    job::{Bucket, Nonce, PoppedJob, Topics},
    store::{Bury, Claim, Now, PopRequest, Popped, StoreError, StoreResult},
};

/// So many bytes of bodies are enough for one pop: its answer is in memory, and reading holds up
/// the commit that others wait for. The caller sees that there is more, and asks again.
const ENOUGH: usize = 4 << 20;

/// Pops all or nothing: what cannot be read for the engine's sake is not reserved either.
pub fn pop(
    writer: &mut WriterState,
    bucket: Bucket,
    (nonce, wants): (Nonce, Vec<PopRequest>),
) -> StoreResult<Vec<Popped>> {
    writer.all_or_nothing(|writer| {
        let mut pop = Pop::new(writer.now(), nonce);
        wants.into_iter().map(|want| pop.take(writer, bucket, &want)).collect()
    })
}

/// One call, with the reservations and bytes that all of its wants share.
struct Pop {
    now: Now,
    nonce: Nonce,
    /// Reservations given.
    given: u16,
    bytes: usize,
}

impl Pop {
    fn new(now: Now, nonce: Nonce) -> Self {
        Self { now, nonce, given: 0, bytes: 0 }
    }

    /// What one want gets in a bucket. A job that cannot be read is set aside as dead.
    fn take(
        &mut self,
        writer: &mut WriterState,
        bucket: Bucket,
        want: &PopRequest,
    ) -> StoreResult<Popped> {
        let mut popped = Popped::default();
        for _ in 0..want.count {
            if self.given == Nonce::RESERVATIONS || self.bytes >= ENOUGH {
                break;
            }
            let hold = (self.nonce.reservation(self.given), want.ttr);
            let machine = &mut writer.machines[bucket.index()];
            let taken = machine.pop(self.now, &want.topic, hold, &mut writer.writes);
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
                Err(ReadError::Engine(cause)) => return Err(StoreError::away(cause)),
                Err(ReadError::Damaged(damage)) => self.set_aside(writer, bucket, taken, damage),
            }
        }
        popped.left = writer.machines[bucket.index()].ready(&want.topic);
        Ok(popped)
    }

    fn set_aside(&self, writer: &mut WriterState, bucket: Bucket, taken: Taken, damage: String) {
        tracing::error!(id = %taken.id, damage, "set a damaged job aside as dead");
        let held =
            Claim { id: taken.id, reservation: Some(taken.reservation), topics: Topics::ALL };
        let bury = Bury { held, error: Some(damage) };
        let machine = &mut writer.machines[bucket.index()];
        if let Err(refusal) = machine.bury(self.now, bury, &mut writer.writes) {
            tracing::error!(?refusal, "failed to set a damaged job aside");
        }
        // Its pages may lead to those of other jobs: they must not be freed with it.
        writer.writes.push(Write::Aside { serial: taken.serial, gone: false });
    }
}
