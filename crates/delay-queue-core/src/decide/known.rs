//! A job as a store has loaded it.

use super::{AttemptEdit, Edit, JobRef, Place, Reply};
use crate::job::{
    After, Due, JobId, Millis, Outcome, Policy, PolicyFields, Refusal, Reservation, State, Topic,
    Topics, UnixMillis,
};

/// The facts of a job that decisions use. Its body, its error and its history stay in the store.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// The id.
    pub id: &'a JobId,
    /// The topic that has the job.
    pub topic: &'a Topic,
    /// The state. A job that a store finds in no set, as after half a transition, counts as ready,
    /// unless it is finished.
    pub state: State,
    /// Whether the store finds the job in no set.
    pub is_astray: bool,
    /// The due time; of a finished job, only if `outcome` is known.
    pub due_at: UnixMillis,
    /// The end of the TTR of a reserved job; of any other job, not used.
    pub held_until: UnixMillis,
    /// The policy; if it cannot be read, [`Policy::STANDARD`].
    pub policy: &'a Policy,
    /// When the job expires; the one in `policy` is not used.
    pub expires_at: Option<UnixMillis>,
    /// The attempts; `None` for a job that was never popped and did not expire.
    pub attempts: Option<Attempts>,
    /// How a finished job ended; `None` if the store has not read this, or cannot read it.
    pub outcome: Option<Outcome>,
    /// Whether the store can move the job to the topic of its policy.
    pub may_move: bool,
    /// Whether the store has room for a result, without which a job can be finished too.
    pub has_room: bool,
    /// Whether the job has the record of its put, which every move and every ending rewrites.
    pub has_record: bool,
    /// Whether its record cannot be read. Such a job gets no further attempt, and stays in its
    /// topic.
    pub is_damaged: bool,
}

/// The attempts of a job, and how the last of them is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempts {
    /// Number of pops that count.
    pub number: u32,
    /// Whether the job was given back uncounted while no pop counted.
    pub is_snoozed: bool,
    /// The reservation of the last pop, if it has not ended.
    pub reservation: Option<Reservation>,
    /// When the job died, while it is dead.
    pub died_at: UnixMillis,
}

impl Known<'_> {
    /// Returns the edit that leaves the job as it is. A store that found the job in no set puts it
    /// into the one of its state.
    pub fn unchanged(&self) -> Edit {
        Edit {
            place: Place::Next { state: self.state, due_at: self.due_at },
            attempts: AttemptEdit::Kept,
            policy: PolicyFields::default(),
            body: None,
        }
    }

    /// Returns the edit that writes the policy anew, and leaves all else as it is.
    pub fn restated(&self) -> Edit {
        let priority = Some(self.policy.priority);
        Edit { policy: PolicyFields { priority, ..PolicyFields::default() }, ..self.unchanged() }
    }

    /// Refuses a caller who may not access the topic of the job: for this caller, it does not
    /// exist.
    pub(super) fn shown_to(&self, topics: &Topics) -> Reply<()> {
        if topics.allows(self.topic) { Ok(()) } else { Err(Refusal::NotFound) }
    }

    /// Returns the attempts of a job on which a caller acts by a reservation, or by its id alone.
    pub(super) fn held(&self, held: &JobRef) -> Reply<Attempts> {
        self.shown_to(&held.topics)?;
        if self.state == State::Finished {
            return Err(Refusal::Finished);
        }
        let last = self.attempts.and_then(|attempts| attempts.reservation);
        let was_popped = self.attempts.is_some_and(|a| a.number > 0 || a.is_snoozed);
        Reservation::check(held.reservation, last, was_popped)?;
        self.attempts.ok_or(Refusal::NeverPopped)
    }

    /// Returns whether its records can be read and rewritten.
    pub fn is_sound(&self) -> bool {
        self.has_record && !self.is_damaged
    }

    /// Returns the topic to which the job moves when it dies.
    pub(super) fn moves_to(&self) -> Option<&Topic> {
        self.policy.dead_to(self.topic).filter(|_| self.may_move && self.is_sound())
    }

    /// Returns the place of a job that dies. A dead one stays as it is.
    pub(super) fn dies(&self, died_at: UnixMillis, now: UnixMillis) -> Place {
        let dead = self.attempts.filter(|_| self.state == State::Dead);
        match self.moves_to().filter(|_| dead.is_none()) {
            Some(to) => Place::Moved { to: to.clone(), at: now },
            None => Place::Dead { died_at: dead.map_or(died_at, |attempts| attempts.died_at) },
        }
    }

    /// Returns what follows from an attempt that did not finish the job. The last one has no
    /// successor.
    pub(super) fn after(&self, is_last: bool, due: Due) -> After {
        match due {
            _ if is_last && self.moves_to().is_some() => After::Moved,
            _ if is_last => After::Spent,
            Due::Now => After::Now,
            Due::Later => After::Later,
        }
    }

    /// Returns whether attempt number `number` was the last one.
    pub(super) fn is_spent(&self, number: u32) -> bool {
        self.is_damaged || self.policy.max_attempts > 0 && number >= self.policy.max_attempts
    }

    /// Returns the wait after attempt number `number`, by the job's backoff.
    pub(super) fn wait(&self, number: u32) -> Millis {
        match &self.policy.backoff {
            Some(backoff) if number > 0 => backoff.delay(self.id, number),
            _ => Millis::ZERO,
        }
    }

    /// Returns whether the job expires before an attempt that is due at this time.
    pub(super) fn expires_before(&self, due_at: UnixMillis) -> bool {
        self.expires_at.is_some_and(|expires_at| expires_at <= due_at)
    }
}
