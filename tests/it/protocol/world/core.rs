//! The decisions of the core about a job of the model. A unit of the model's time is a millisecond.

use std::sync::LazyLock;

use delay_queue::job::{JobId, Millis, Policy, Reservation, State, Topic, Topics, UnixMillis};
use delay_queue_core::{
    Now,
    decide::{AttemptEdit, Attempts, Edit, JobRef, Known, Place, Reply, Target},
};

use super::{Job, LIFE, MAX_ATTEMPTS, Rules, Verb};

static ID: LazyLock<JobId> = LazyLock::new(|| "job".parse().expect("an id"));
static TOPIC: LazyLock<Topic> = LazyLock::new(|| "topic".parse().expect("a topic"));
static POLICY: LazyLock<Policy> =
    LazyLock::new(|| Policy { max_attempts: MAX_ATTEMPTS.into(), ..Policy::STANDARD });
static EXPIRING: LazyLock<Policy> =
    LazyLock::new(|| Policy { expires_after: Some(Millis::new(LIFE.into())), ..POLICY.clone() });

/// Returns a reading of the store's clock.
pub fn clock(time: u8) -> Now {
    Now::of_micros(u64::from(time) * 1_000)
}

/// Returns what a consumer sends: without a reservation, it acts by the id alone.
pub fn held(reservation: Option<u8>) -> JobRef {
    JobRef { id: ID.clone(), reservation: reservation.map(bits), topics: Topics::ALL }
}

/// Returns what a caller sends that knows only the id.
pub fn target() -> Target {
    Target { id: ID.clone(), topics: Topics::ALL }
}

fn bits(reservation: u8) -> Reservation {
    Reservation::from_bits(reservation.into())
}

fn unix(time: u8) -> UnixMillis {
    UnixMillis::new(time.into())
}

fn model(time: UnixMillis) -> u8 {
    u8::try_from(time.get()).expect("the model ends early")
}

impl Job {
    fn known(&self) -> Option<Known<'static>> {
        let attempts = Attempts {
            number: self.attempt.into(),
            is_snoozed: true,
            reservation: self.reservation.map(bits),
            died_at: unix(0),
        };
        Some(Known {
            id: &ID,
            topic: &TOPIC,
            state: self.state?,
            is_astray: false,
            due_at: unix(self.at),
            held_until: unix(self.at),
            policy: if self.expires_at > 0 { &EXPIRING } else { &POLICY },
            expires_at: Some(unix(self.expires_at)).filter(|_| self.expires_at > 0),
            attempts: Some(attempts).filter(|_| self.given > 0),
            outcome: None,
            may_move: false,
            has_room: true,
            has_record: true,
            is_damaged: false,
        })
    }

    /// Does what the core decides, and then what a wrong rule makes of it. Returns whether the core
    /// has accepted the verb.
    pub fn act(
        &mut self,
        rules: &Rules,
        verb: Verb,
        decide: impl FnOnce(&Known<'_>) -> Reply<Option<Edit>>,
    ) -> bool {
        let Some(known) = self.known() else { return false };
        let decided = decide(&known);
        if let Ok(Some(edit)) = &decided {
            self.apply(edit);
        }
        if let Some(wrong) = rules.wrong_state(Some(known.state), verb, self.state) {
            self.state = wrong;
        }
        decided.is_ok()
    }

    fn apply(&mut self, edit: &Edit) {
        match &edit.place {
            Place::Next { state, due_at } => {
                (self.state, self.at) = (Some(*state), model(*due_at));
                self.not_before = self.at;
            }
            Place::Dead { .. } => self.state = Some(State::Dead),
            Place::Gone => self.state = None,
            place => unreachable!("{place:?} is no place of the model"),
        }
        match &edit.attempts {
            AttemptEdit::Kept | AttemptEdit::Lapsed { .. } => {}
            AttemptEdit::Unheld => self.reservation = None,
            AttemptEdit::Forgotten => (self.attempt, self.reservation) = (0, None),
            AttemptEdit::Ended(ended) => {
                self.attempt = u8::try_from(ended.number).expect("few attempts");
                self.reservation = None;
            }
        }
        if let Some(at) = edit.policy.expires_at {
            self.expires_at = model(at);
        }
    }
}
