//! The state machine of a job: the result of every event in every state.
//!
//! The decisions and the file store call [`next`]; the scripts of the Redis store implement some of
//! it in Lua; the conformance suite checks every event in every state on every store against this
//! table.

use std::str::FromStr;

use smol_str::SmolStr;

use super::topic::Topic;

/// The state of a job. A job that is gone has none.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Waiting for its due time.
    Delayed,
    /// May be popped.
    Ready,
    /// Held by one consumer until the end of its TTR.
    Reserved,
    /// Attempts spent, buried or expired, and did not move to another topic; kept until kicked,
    /// deleted or past its retention.
    Dead,
    /// Finished, or deleted and remembered; has its id until deleted or past its retention.
    Finished,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 5] =
        [Self::Delayed, Self::Ready, Self::Reserved, Self::Dead, Self::Finished];

    /// Returns the name of the state in answers and in stores.
    pub fn name(self) -> &'static str {
        match self {
            Self::Delayed => "delayed",
            Self::Ready => "ready",
            Self::Reserved => "reserved",
            Self::Dead => "dead",
            Self::Finished => "finished",
        }
    }
}

/// A set of states, in requests a text such as `delayed,ready`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct States(u8);

/// Error for text that is not a set of states.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be one or more of {states}, separated by commas, got {given:?}", states = State::ALL.map(State::name).join(", "))]
pub struct InvalidStates {
    given: String,
}

impl States {
    /// Returns whether the set has a state.
    pub fn has(self, state: State) -> bool {
        self.0 & (1 << state as u8) != 0
    }
}

impl FromIterator<State> for States {
    fn from_iter<I: IntoIterator<Item = State>>(states: I) -> Self {
        Self(states.into_iter().fold(0, |bits, state| bits | (1 << state as u8)))
    }
}

impl FromStr for States {
    type Err = InvalidStates;

    fn from_str(text: &str) -> Result<Self, InvalidStates> {
        let named = |name| State::ALL.into_iter().find(|state| state.name() == name);
        let states: Option<Self> = text.split(',').map(named).collect();
        states.ok_or_else(|| InvalidStates { given: text.chars().take(64).collect() })
    }
}

impl<'de> serde::Deserialize<'de> for States {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = SmolStr::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Whether a job is due when it is placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// The due time has passed.
    Now,
    /// The due time is in the future.
    Later,
}

/// Consequence of an attempt that did not finish the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// Another attempt at once.
    Now,
    /// Another attempt after a delay.
    Later,
    /// No further attempt: the attempts are spent, or the job expires before the next one.
    Spent,
    /// No further attempt, and the job moves to another topic, where it is ready.
    Moved,
}

impl After {
    /// Returns whether the job dies.
    pub fn dies(self) -> bool {
        matches!(self, Self::Spent | Self::Moved)
    }
}

/// An event in the life of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A put that is refused if the id exists.
    Put(Due),
    /// A put that replaces an existing job.
    Replace(Due),
    /// The deadline of the job has passed.
    Promote(After),
    /// The job has expired.
    Expire {
        /// Whether it moves to another topic, where it is ready.
        moves: bool,
    },
    /// A consumer reserves it.
    Pop,
    /// A job reserved by a pop could not be delivered.
    Unpop,
    /// The consumer has finished it.
    Finish {
        /// Whether the job is kept as finished.
        kept: bool,
    },
    /// The consumer gives it back.
    Release(After),
    /// The consumer extends its reservation.
    Touch,
    /// The consumer gives it up as dead.
    Bury {
        /// Whether it moves to another topic, where it is ready.
        moves: bool,
    },
    /// An operator makes it ready now.
    Kick,
    /// A client deletes it.
    Delete {
        /// Whether its id stays taken.
        kept: bool,
    },
    /// It gets a new due time or contents, and loses the reservation of an ended TTR.
    Reschedule(Due),
    /// It is imported from another store, in the same state.
    Restore(State),
}

impl Event {
    /// Every event in every variant.
    pub const ALL: [Self; 31] = [
        Self::Put(Due::Now),
        Self::Put(Due::Later),
        Self::Replace(Due::Now),
        Self::Replace(Due::Later),
        Self::Promote(After::Now),
        Self::Promote(After::Later),
        Self::Promote(After::Spent),
        Self::Promote(After::Moved),
        Self::Expire { moves: false },
        Self::Expire { moves: true },
        Self::Pop,
        Self::Unpop,
        Self::Finish { kept: false },
        Self::Finish { kept: true },
        Self::Release(After::Now),
        Self::Release(After::Later),
        Self::Release(After::Spent),
        Self::Release(After::Moved),
        Self::Touch,
        Self::Bury { moves: false },
        Self::Bury { moves: true },
        Self::Kick,
        Self::Delete { kept: false },
        Self::Delete { kept: true },
        Self::Reschedule(Due::Now),
        Self::Reschedule(Due::Later),
        Self::Restore(State::Delayed),
        Self::Restore(State::Ready),
        Self::Restore(State::Reserved),
        Self::Restore(State::Dead),
        Self::Restore(State::Finished),
    ];
}

/// Why an event changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// No job has this id.
    NotFound,
    /// A job with this id exists: its state and topic, or `None` if they are not known.
    Exists(Option<Living>),
    /// The given reservation does not, or no longer, hold the job.
    ReservationLost,
    /// Acting by id alone needs a job that was popped at least once.
    NeverPopped,
    /// Releasing by id alone needs a job that a consumer holds.
    NotReserved,
    /// A consumer holds the job.
    Reserved,
    /// A dead job has no schedule; it must be kicked first.
    Dead,
    /// The job is finished: nothing but a delete or a put that replaces it changes it.
    Finished,
    /// The job is not kept after its finish, so nothing would have the result.
    ResultNotKept,
    /// The caller excluded this state, in which the job is.
    WrongState(State),
    /// Only a ready job can be popped. Never reaches a client: a pop names a topic, not a job.
    NotReady,
    /// The store has no room for the new body.
    NoRoom,
    /// The due time is more than ten years ahead by the store's clock.
    DueTooFar,
    /// Other requests keep changing the job, so that this one could not.
    Contended,
    /// The stored job cannot be read, so it cannot be changed either.
    Damaged,
}

/// State and topic of an existing job.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Living {
    /// The current state.
    pub state: State,
    /// The topic.
    pub topic: Topic,
}

/// Returns the state after `event` in `state`, where `None` means that there is no job. Callers
/// first check whether the client may act on the job
/// ([`Reservation::check`](super::Reservation::check)), and that a put keeps or replaces only a job
/// of its own topic.
///
/// # Errors
/// Why the event is refused; the job is unchanged then.
pub fn next(state: Option<State>, event: Event) -> Result<Option<State>, Refusal> {
    use Event as E;
    use State::{Dead, Delayed, Finished, Ready, Reserved};

    let due = |due| match due {
        Due::Now => Ready,
        Due::Later => Delayed,
    };
    let after = |after| match after {
        After::Now | After::Moved => Ready,
        After::Later => Delayed,
        After::Spent => Dead,
    };
    let died = |moves| if moves { Ready } else { Dead };
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
        (E::Kick | E::Reschedule(_) | E::Release(_) | E::Touch | E::Bury { .. }, Finished) => {
            return Err(Refusal::Finished);
        }
        (E::Replace(when) | E::Reschedule(when), _) => due(when),
        (E::Kick, _) => Ready,

        (E::Promote(_), Delayed | Ready) => Ready,
        (E::Promote(then), Reserved) => after(then),
        (E::Promote(_), Dead | Finished) => return Ok(None),

        (E::Expire { moves }, Delayed | Ready) => died(moves),
        (E::Expire { .. }, state) => state,

        (E::Pop, Ready) => Reserved,
        (E::Pop, _) => return Err(Refusal::NotReady),
        (E::Unpop, Reserved) => Ready,
        (E::Touch, Reserved) => Reserved,
        (E::Unpop | E::Touch, _) => return Err(Refusal::ReservationLost),

        (E::Finish { .. }, Finished) => Finished, // by its reservation: the answer was lost
        (E::Finish { kept } | E::Delete { kept }, _) if kept => Finished,
        (E::Finish { .. } | E::Delete { .. }, _) => return Ok(None),
        (E::Release(_) | E::Bury { .. }, Dead) => Dead,
        (E::Release(then), _) => after(then),
        (E::Bury { moves }, _) => died(moves),
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
    fn a_set_of_states_is_read_from_its_names() {
        let states: States = "delayed,dead".parse().expect("two states");
        let has = State::ALL.map(|state| states.has(state));
        assert_eq!(has, [true, false, false, true, false]);
        for text in ["", "delayed,", "Ready", "delayed, ready", "gone", &"x".repeat(500)] {
            let error = text.parse::<States>().expect_err(text).to_string();
            assert!(
                error.contains("delayed, ready, reserved, dead, finished") && error.len() < 200
            );
        }
    }

    #[test]
    fn only_promote_finish_and_delete_end_a_job() {
        for state in State::ALL {
            for event in Event::ALL {
                let ends = next(Some(state), event) == Ok(None);
                let may = matches!(
                    event,
                    Event::Promote(_) | Event::Finish { .. } | Event::Delete { .. }
                );
                assert!(!ends || may, "{state:?} {event:?}");
            }
        }
    }

    #[test]
    fn a_finished_job_never_runs_again() {
        for event in Event::ALL {
            let after = next(Some(State::Finished), event);
            let replaced = matches!(event, Event::Replace(_));
            let stays = matches!(after, Ok(None | Some(State::Finished)) | Err(_));
            assert!(stays || replaced, "{event:?}: {after:?}");
        }
    }

    #[test]
    fn only_a_ready_job_becomes_reserved() {
        for state in State::ALL {
            for event in Event::ALL {
                if next(Some(state), event) == Ok(Some(State::Reserved)) {
                    let pop = (state, event) == (State::Ready, Event::Pop);
                    let stays = matches!(event, Event::Touch | Event::Expire { .. });
                    assert!(pop || stays && state == State::Reserved, "{state:?} {event:?}");
                }
            }
        }
    }
}
