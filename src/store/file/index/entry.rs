//! The entry of a job in the index.

use std::sync::Arc;

use super::{IndexKey, Size, Slot, ids::IdPlace};
use crate::job::{JobId, Millis, Policy, Reservation, State, Topic, UnixMillis};

/// A job in memory, without its body.
#[derive(Debug)]
pub struct Entry {
    /// Length of the job's id, the first part of its [`IdPlace`]; a pair would take more bytes.
    pub(super) id_length: u8,
    pub state: State,
    pub(super) size: Size,
    /// Second part of the [`IdPlace`].
    pub(super) id_place: u32,
    /// Serial number of the job's record.
    pub serial: u64,
    /// Due time, or the deadline of a reserved, dead or finished job; orders the set of the job's
    /// state.
    pub at: UnixMillis,
    pub kind: Arc<Kind>,
    /// Present from the first pop on, unless the job is finished.
    pub attempt: Option<Box<Attempt>>,
}

/// Topic of a job and the part of its policy that affects transitions. Shared with the job put
/// before if both are equal, and by all finished jobs of the topic.
#[derive(Debug, PartialEq)]
pub struct Kind {
    pub(super) topic: u32,
    pub policy: Policy,
}

impl Entry {
    /// Returns the size of the body, or of the result of a finished job, in bytes, rounded up.
    pub fn body_bytes(&self) -> u64 {
        self.size.bytes()
    }

    /// Returns the bytes that count in the usage of the topic.
    pub(super) fn counted_bytes(&self) -> u64 {
        if self.state == State::Finished { 0 } else { self.size.bytes() }
    }

    pub fn set_policy(&mut self, policy: Policy) {
        if policy != self.kind.policy {
            self.kind = Arc::new(Kind { topic: self.kind.topic, policy });
        }
    }

    pub(super) fn id(&self) -> IdPlace {
        (self.id_length, self.id_place)
    }

    pub(super) fn key(&self, slot: Slot) -> IndexKey {
        #[expect(clippy::cast_possible_truncation, reason = "the low half is enough for the order")]
        let order = self.serial as u32;
        IndexKey { at: self.at, order, slot }
    }
}

/// The last attempt of a popped job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    pub number: u32,
    /// Reservation of the last pop, if it has not ended.
    pub reservation: Option<Reservation>,
    /// Due time before the pop.
    pub due_at: UnixMillis,
    pub died_at: UnixMillis,
    /// TTR of the last pop or touch.
    pub ttr: Millis,
    /// Whether the TTR has expired; not on disk, since it follows from the deadline.
    pub expired: bool,
    /// Whether an earlier attempt may have left a history although the number is 0 or 1; not on
    /// disk, where it counts as set.
    pub was_kicked: bool,
}

/// A new or loaded job to be added to the index.
#[derive(Debug)]
pub struct Arrival {
    pub id: JobId,
    pub topic: Topic,
    pub serial: u64,
    pub state: State,
    pub at: UnixMillis,
    /// The part of the job's policy that affects transitions.
    pub policy: Arc<Policy>,
    pub attempt: Option<Box<Attempt>>,
    pub size: Size,
}
