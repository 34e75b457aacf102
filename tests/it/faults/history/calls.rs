//! Calls of clients and the answers to them.

use crate::faults::prelude::*;

#[derive(Debug, Clone)]
pub struct Call {
    pub start: Time,
    pub end: Time,
    pub ask: Ask,
    pub outcome: StoreResult,
}

#[derive(Debug, Clone)]
pub enum Ask {
    /// Put at the server of this number. Bodies differ between jobs, so a body identifies the put
    /// of its job.
    Put {
        topic: &'static str,
        server: usize,
        id: Option<Text>,
        body: Text,
        delay: Duration,
        max_attempts: u32,
        expires_after: Option<Duration>,
    },
    /// Pop of one topic, or of several separated by commas, at the server of this number.
    Pop {
        topic: &'static str,
        server: usize,
    },
    Finish {
        id: Text,
        reservation: Text,
    },
    Release {
        id: Text,
        reservation: Text,
        delay: Duration,
        is_counted: bool,
        /// New body for the next attempt: the body of the put and a suffix. `None` keeps the body.
        body: Option<Text>,
    },
    Delete {
        id: Text,
    },
    /// Delete of a job that is not reserved. Its id stays taken.
    Cancel {
        id: Text,
    },
    /// Touch for the job's TTR, or until the current end of the reservation if it is later.
    Touch {
        id: Text,
        reservation: Text,
        ttr: Duration,
    },
    Bury {
        id: Text,
        reservation: Text,
    },
    Kick {
        id: Text,
    },
    Reschedule {
        id: Text,
        delay: Duration,
    },
    Pause {
        topic: &'static str,
        server: usize,
    },
    Resume {
        topic: &'static str,
    },
    /// Sets where the jobs of a topic go when they die, at the server of this number.
    SetDeadTo {
        topic: &'static str,
        target: &'static str,
        server: usize,
    },
}

#[derive(Debug, Clone)]
pub enum StoreResult {
    Done(Answer),
    /// The call changed nothing. The text is the code of the reason.
    Refused(Text),
    Unknown,
    /// An answer that a server must not give. It is also unknown whether the call was carried out.
    Wrong(Text),
}

/// Answer to a call that was carried out. Times are of the store's clock, in Unix milliseconds.
#[derive(Debug, Clone)]
pub enum Answer {
    Put { id: Text, due_at: i64 },
    Popped(Box<[Delivery]>),
    Finished,
    Released { due_at: i64, fate: Fate },
    Deleted,
    Touched { reserved_until: i64 },
    Buried { fate: Fate },
    Kicked,
    Rescheduled { due_at: i64 },
    Paused,
    Resumed,
    DeadToSet,
}

/// State of a job after a release or a bury, by the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Alive,
    /// The job stays dead in its topic.
    Dead,
    /// The job has died, and is ready in this topic.
    Moved(&'static str),
}

/// Job as a pop returned it.
#[derive(Debug, Clone)]
pub struct Delivery {
    pub topic: &'static str,
    pub id: Text,
    pub body: Text,
    pub attempt: u32,
    pub reservation: Text,
    pub due_at: i64,
    pub reserved_until: i64,
    pub ttr: Duration,
    pub expires_at: Option<i64>,
}

impl Ask {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Put { .. } => "put",
            Self::Pop { .. } => "pop",
            Self::Finish { .. } => "finish",
            Self::Release { is_counted: true, .. } => "release",
            Self::Release { is_counted: false, .. } => "uncounted release",
            Self::Delete { .. } => "delete",
            Self::Cancel { .. } => "cancel",
            Self::Touch { .. } => "touch",
            Self::Bury { .. } => "bury",
            Self::Kick { .. } => "kick",
            Self::Reschedule { .. } => "reschedule",
            Self::Pause { .. } => "pause",
            Self::Resume { .. } => "resume",
            Self::SetDeadTo { .. } => "set dead_to",
        }
    }
}

impl Call {
    pub fn done(&self) -> bool {
        matches!(self.outcome, StoreResult::Done(_))
    }

    /// Returns whether the call failed because a server or store was unavailable.
    pub fn failed(&self) -> bool {
        match &self.outcome {
            StoreResult::Done(_) => false,
            StoreResult::Refused(code) => {
                !code.starts_with("job_") && !["reservation_lost", "wrong_state"].contains(&&**code)
            }
            StoreResult::Unknown | StoreResult::Wrong(_) => true,
        }
    }

    /// Returns whether the call was or may have been carried out.
    pub fn may_be_done(&self) -> bool {
        !matches!(self.outcome, StoreResult::Refused(_))
    }

    pub fn refused(&self, code: &str) -> bool {
        matches!(&self.outcome, StoreResult::Refused(because) if &**because == code)
    }

    /// Returns where the job is after this release or bury; `None` if no answer says it.
    pub fn fate(&self) -> Option<Fate> {
        match self.outcome {
            StoreResult::Done(Answer::Released { fate, .. } | Answer::Buried { fate }) => {
                Some(fate)
            }
            _ => None,
        }
    }

    pub fn deliveries(&self) -> &[Delivery] {
        match &self.outcome {
            StoreResult::Done(Answer::Popped(deliveries)) => deliveries,
            _ => &[],
        }
    }
}
