//! What transitions are asked to do.

use crate::job::{JobId, Millis, Reservation, Topic};

/// What one consumer asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PopRequest {
    /// The topic to pop from.
    pub topic: Topic,
    /// The most jobs it takes.
    pub count: u16,
    /// A TTR instead of each job's own.
    pub ttr: Option<Millis>,
}

/// A job, and the reservation by which a caller acts on it; without one, by the id alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The job.
    pub id: JobId,
    /// What its pop returned.
    pub reservation: Option<Reservation>,
}

/// A job to be released.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// Which job, and by which reservation.
    pub held: Claim,
    /// How long until its next attempt; by default its backoff decides.
    pub delay: Option<Millis>,
    /// Why it was not finished.
    pub error: Option<String>,
}

/// A reservation to be extended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touch {
    /// Which job, and by which reservation.
    pub held: Claim,
    /// The TTR from now on; by default the one in force.
    pub ttr: Option<Millis>,
}

/// A job to be buried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bury {
    /// Which job, and by which reservation.
    pub held: Claim,
    /// Why it is buried.
    pub error: Option<String>,
}
