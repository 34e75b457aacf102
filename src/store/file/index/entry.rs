//! The entry of a job in the index.

use std::sync::Arc;

use super::{IndexKey, Rank, Size, Slot, ids::IdPlace};
use crate::job::{JobId, Millis, Policy, Priority, Reservation, State, Topic, UnixMillis};

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
    /// Present from the first pop on, or after the job has expired; `None` if the job is finished.
    pub attempt: Option<Box<Attempt>>,
}

/// Topic of a job, and the part of its policy that affects transitions, except the time of its
/// expiry. Shared by all jobs for which both are equal, and by all finished jobs of the topic.
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

    pub(super) fn id(&self) -> IdPlace {
        (self.id_length, self.id_place)
    }

    pub(super) fn key(&self, slot: Slot) -> IndexKey {
        let rank = Rank::new(self.state, self.kind.policy.priority, self.at);
        IndexKey::new(rank, self.order(), slot)
    }

    /// Returns the key of a job that expires at this time in the set of such jobs; `None` if the
    /// job is not in that set.
    pub(super) fn expiry_key(
        &self,
        slot: Slot,
        expires_at: Option<UnixMillis>,
    ) -> Option<IndexKey> {
        let may_expire = matches!(self.state, State::Delayed | State::Ready);
        let rank = |at| Rank::new(State::Delayed, Priority::STANDARD, at);
        let expires_at = expires_at.filter(|_| may_expire);
        expires_at.map(|at| IndexKey::new(rank(at), self.order(), slot))
    }

    #[expect(clippy::cast_possible_truncation, reason = "the low half is enough for the order")]
    fn order(&self) -> u32 {
        self.serial as u32
    }
}

/// The last attempt of a popped job, or of one that expired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Number of pops that count.
    pub number: u32,
    /// Whether a consumer gave the job back uncounted while it had no counted attempt.
    pub is_snoozed: bool,
    /// Reservation of the last pop, if it has not ended.
    pub reservation: Option<Reservation>,
    /// Due time before the pop.
    pub due_at: UnixMillis,
    pub died_at: UnixMillis,
    /// TTR of the last pop or touch.
    pub ttr: Millis,
    /// Whether the TTR has ended. Not on disk, since it follows from the deadline.
    pub timed_out: bool,
    /// Whether the job died because it expired. Not on disk, since it follows from `expires_at`, or
    /// from `dead_from` if the job moved before its first pop.
    pub job_expired: bool,
    /// Whether an earlier attempt may have left a history although the number is 0 or 1. Not on
    /// disk; after loading, it is true.
    pub was_kicked: bool,
}

impl Attempt {
    /// Returns the attempt of a job that was not popped.
    pub fn none(due_at: UnixMillis, ttr: Millis) -> Self {
        Self {
            number: 0,
            is_snoozed: false,
            reservation: None,
            due_at,
            died_at: UnixMillis::new(0),
            ttr,
            timed_out: false,
            job_expired: false,
            was_kicked: false,
        }
    }

    /// Returns whether a consumer has got the job since it was put or kicked.
    pub fn was_popped(&self) -> bool {
        self.number > 0 || self.is_snoozed
    }

    /// Returns whether the disk may have a row for this attempt.
    pub fn has_row(&self) -> bool {
        self.was_popped() || self.was_kicked
    }
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
