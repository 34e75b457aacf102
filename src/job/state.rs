//! The states of a job and every event that may meet them: the one statement of it.
//!
//! The file store runs on [`next`]; the scripts of the Redis store say the same in Lua; the
//! conformance suite tries every event in every state on every store against this table.

use super::topic::Topic;

/// Where a job is. A job that is gone (finished, deleted, past its retention) has no state.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Waits for its due time.
    Delayed,
    /// May be popped.
    Ready,
    /// Held by one consumer until the end of its TTR.
    Reserved,
    /// Attempts spent, or buried; kept until kicked, deleted or past its retention.
    Dead,
}

impl State {
    /// Every state, for going through all of them.
    pub const ALL: [Self; 4] = [Self::Delayed, Self::Ready, Self::Reserved, Self::Dead];

    /// The state's name, in answers and in stores.
    pub fn name(self) -> &'static str {
        match self {
            Self::Delayed => "delayed",
            Self::Ready => "ready",
            Self::Reserved => "reserved",
            Self::Dead => "dead",
        }
    }
}

/// When a job that is placed falls due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Its time has come.
    Now,
    /// It lies ahead.
    Later,
}

/// What follows an attempt that did not finish the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// Another attempt at once.
    Now,
    /// Another attempt after a delay.
    Later,
    /// Nothing: the attempts are spent.
    Spent,
}

/// What may happen to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A put that refuses a living id.
    Put(Due),
    /// A put that replaces a living job.
    Replace(Due),
    /// The job's deadline has come.
    Promote(After),
    /// A consumer takes it.
    Pop,
    /// What a pop reserved could not be delivered.
    Unpop,
    /// The consumer is done.
    Finish,
    /// The consumer gives it back.
    Release(After),
    /// The consumer needs more time.
    Touch,
    /// The consumer gives it up.
    Bury,
    /// An operator wants it tried now.
    Kick,
    /// It is no longer wanted.
    Delete,
    /// It gets another due time or other contents; the hold of a consumer whose TTR expired ends.
    Reschedule(Due),
    /// It comes from another store, as it was there.
    Restore(State),
}

impl Event {
    /// Every event with every circumstance, for going through all of them.
    pub const ALL: [Self; 23] = [
        Self::Put(Due::Now),
        Self::Put(Due::Later),
        Self::Replace(Due::Now),
        Self::Replace(Due::Later),
        Self::Promote(After::Now),
        Self::Promote(After::Later),
        Self::Promote(After::Spent),
        Self::Pop,
        Self::Unpop,
        Self::Finish,
        Self::Release(After::Now),
        Self::Release(After::Later),
        Self::Release(After::Spent),
        Self::Touch,
        Self::Bury,
        Self::Kick,
        Self::Delete,
        Self::Reschedule(Due::Now),
        Self::Reschedule(Due::Later),
        Self::Restore(State::Delayed),
        Self::Restore(State::Ready),
        Self::Restore(State::Reserved),
        Self::Restore(State::Dead),
    ];
}

/// Why an event changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// No living job has this id.
    NotFound,
    /// A living job has this id already: which one, unless that is not known.
    Exists(Option<Living>),
    /// The reservation is not, or no longer, the one that holds the job.
    ReservationLost,
    /// Going by id alone needs a job that was popped at least once.
    NeverPopped,
    /// To release by id alone what no consumer holds would give back nothing.
    NotReserved,
    /// A consumer holds the job.
    Reserved,
    /// A dead job has no schedule; kick it first.
    Dead,
    /// Only a ready job can be popped. Never reaches a client: a pop names a topic, not a job.
    NotReady,
    /// The due time lies more than ten years ahead by the store's clock.
    DueTooFar,
    /// What the store has of the job cannot be read, so it cannot be changed either.
    Damaged,
    /// The one that comes too late: the job was changed, and is found to be damaged.
    ChangedDamaged,
}

/// The job that has an id already.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Living {
    /// Its state.
    pub state: State,
    /// Its topic.
    pub topic: Topic,
}

/// The state after `event` in `state`, where `None` is "no such job"; or why it is refused.
/// Whether the caller may act on the job at all is checked before
/// ([`Reservation::check`](super::Reservation::check)), and so is whether a put may keep or replace
/// the job: only one of its own topic.
///
/// # Errors
/// The refusal; the job is then exactly as it was.
pub fn next(state: Option<State>, event: Event) -> Result<Option<State>, Refusal> {
    use Event as E;
    use State::{Dead, Delayed, Ready, Reserved};

    let due = |due| match due {
        Due::Now => Ready,
        Due::Later => Delayed,
    };
    let after = |after| match after {
        After::Now => Ready,
        After::Later => Delayed,
        After::Spent => Dead,
    };
    let Some(state) = state else {
        return match event {
            E::Put(when) | E::Replace(when) => Ok(Some(due(when))),
            E::Restore(state) => Ok(Some(state)),
            _ => Err(Refusal::NotFound),
        };
    };
    Ok(Some(match (event, state) {
        (E::Put(_) | E::Restore(_), _) => return Err(Refusal::Exists(None)),
        (E::Replace(_) | E::Kick | E::Reschedule(_), Reserved) => return Err(Refusal::Reserved),
        (E::Reschedule(_), Dead) => return Err(Refusal::Dead),
        (E::Replace(when) | E::Reschedule(when), _) => due(when),
        (E::Kick, _) => Ready,

        (E::Promote(_), Delayed | Ready) => Ready,
        (E::Promote(then), Reserved) => after(then),
        (E::Promote(_), Dead) => return Ok(None),

        (E::Pop, Ready) => Reserved,
        (E::Pop, _) => return Err(Refusal::NotReady),
        (E::Unpop, Reserved) => Ready,
        (E::Touch, Reserved) => Reserved,
        (E::Unpop | E::Touch, _) => return Err(Refusal::ReservationLost),

        (E::Finish | E::Delete, _) => return Ok(None),
        (E::Release(_), Dead) => Dead,
        (E::Release(then), _) => after(then),
        (E::Bury, _) => Dead,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_is_gone_takes_a_put_or_a_restore_and_nothing_else() {
        for event in Event::ALL {
            let placed = matches!(event, Event::Put(_) | Event::Replace(_) | Event::Restore(_));
            assert_eq!(next(None, event).is_ok(), placed, "{event:?}");
        }
    }

    #[test]
    fn only_promote_finish_and_delete_end_a_job() {
        for state in State::ALL {
            for event in Event::ALL {
                let ends = next(Some(state), event) == Ok(None);
                let may = matches!(event, Event::Promote(_) | Event::Finish | Event::Delete);
                assert!(!ends || may, "{state:?} {event:?}");
            }
        }
    }

    #[test]
    fn only_a_ready_job_becomes_reserved() {
        for state in State::ALL {
            for event in Event::ALL {
                if next(Some(state), event) == Ok(Some(State::Reserved)) {
                    let pop = (state, event) == (State::Ready, Event::Pop);
                    let touch = (state, event) == (State::Reserved, Event::Touch);
                    assert!(pop || touch, "{state:?} {event:?}");
                }
            }
        }
    }
}
