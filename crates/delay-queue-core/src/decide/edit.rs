//! The change that a decision makes, and its answer.

use bytes::Bytes;

use super::Known;
use crate::job::{AttemptOutcome, Job, Outcome, PolicyFields, Priority, State, Topic, UnixMillis};

/// The change of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Edit {
    /// Where the job is afterwards.
    pub place: Place,
    /// Whether its attempts stay, are forgotten, or the last one ends.
    pub attempts: AttemptEdit,
    /// The fields of its policy that change, among them the time at which it expires.
    pub policy: PolicyFields,
    /// The body that replaces the old one.
    pub body: Option<Bytes>,
}

/// The change of a job's attempts.
#[derive(Debug, Clone, PartialEq)]
pub enum AttemptEdit {
    /// They stay as they are.
    Kept,
    /// They stay, but the consumer whose TTR has ended loses its reservation: it knows neither
    /// the new time nor the new contents.
    Unheld,
    /// They are forgotten, with the last error. The history stays.
    Forgotten,
    /// The last one ends, and with it the reservation.
    Ended(Ended),
    /// A deadline has passed. They stay, with the last reservation; a job without any gets the
    /// number 0.
    Lapsed {
        /// The error of the job.
        error: &'static str,
        /// The end of the TTR, for the history; `None` if the job has expired.
        ttr_ended_at: Option<UnixMillis>,
    },
}

/// The end of an attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    /// Number of pops that count, until the job moves to another topic.
    pub number: u32,
    /// Whether the job was popped although no pop counts.
    pub is_snoozed: bool,
    /// How the attempt ended, for the history.
    pub outcome: AttemptOutcome,
    /// The consumer's error, for the job and its history.
    pub error: Option<String>,
    /// The error that the job has instead of the consumer's.
    pub cause: Option<&'static str>,
}

/// The place of a job after its attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum Place {
    /// A new job, alone or in place of the one that has its id, of which nothing is left.
    New {
        /// The state of the new job.
        state: State,
        /// When it leaves this state: its due time, unless it comes from another store.
        at: UnixMillis,
    },
    /// In its topic: ready at once, or delayed.
    Next {
        /// `Ready` or `Delayed`.
        state: State,
        /// When the job is due.
        due_at: UnixMillis,
    },
    /// Dead in its topic, with the due time that it had.
    Dead {
        /// When it died.
        died_at: UnixMillis,
    },
    /// Ready in another topic, as a job that was never popped and does not expire.
    Moved {
        /// The topic.
        to: Topic,
        /// When it died and is due.
        at: UnixMillis,
    },
    /// Finished now: without its body, it has its id until the end of its retention.
    Finished {
        /// How it ended.
        outcome: Outcome,
        /// JSON text that the consumer gave.
        result: Option<Bytes>,
        /// The end of its retention.
        until: UnixMillis,
    },
    /// No longer in the store.
    Gone,
}

/// A job after a transition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transitioned {
    /// Topic of the job.
    pub topic: Topic,
    /// State after the transition; of a job that is gone, the state before.
    pub state: State,
    /// Due time after the transition.
    pub due_at: UnixMillis,
    /// Whether this transition made the job dead.
    pub died: bool,
    /// Priority of the job.
    pub priority: Priority,
    /// When the job expires, unless it moved.
    pub expires_at: Option<UnixMillis>,
    /// Topic in which this transition ended the job, if the job then moved to `topic`.
    pub dead_from: Option<Topic>,
}

impl Transitioned {
    /// Returns the topic that the job had before the transition.
    pub fn topic_before(&self) -> &Topic {
        self.dead_from.as_ref().unwrap_or(&self.topic)
    }

    /// Returns the place of a living job after a transition that did not make it dead.
    pub fn from_job(job: &Job) -> Self {
        Self {
            topic: job.topic.clone(),
            state: job.state,
            due_at: job.due_at,
            died: false,
            priority: job.policy.priority,
            expires_at: job.policy.expires_at,
            dead_from: None,
        }
    }
}

impl Edit {
    /// Returns the answer to the caller; `job` is the job before the edit.
    pub fn answer(&self, job: &Known<'_>) -> Transitioned {
        let (topic, state, due_at) = match &self.place {
            Place::New { .. } => unreachable!("the answer to a put is `Placed`"),
            Place::Next { state, due_at } => (job.topic, *state, *due_at),
            Place::Dead { .. } => (job.topic, State::Dead, job.due_at),
            Place::Moved { to, at } => (to, State::Ready, *at),
            Place::Finished { .. } => (job.topic, State::Finished, job.due_at),
            Place::Gone => (job.topic, job.state, job.due_at),
        };
        let expires_at = match self.policy.expires_after {
            Some(None) => None,
            _ => self.policy.expires_at.or(job.expires_at),
        };
        Transitioned {
            topic: topic.clone(),
            state,
            due_at,
            died: state == State::Dead && job.state != State::Dead,
            priority: self.policy.priority.unwrap_or(job.policy.priority),
            expires_at: expires_at.filter(|_| topic == job.topic),
            dead_from: (topic != job.topic).then(|| job.topic.clone()),
        }
    }
}
