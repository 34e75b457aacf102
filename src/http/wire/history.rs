//! The attempts of a job in answers.

use schemars::JsonSchema;
use serde::Serialize;

use crate::job::{AttemptOutcome, Consumer, Job, MAX_HISTORY, PastAttempt, UnixMillis};

/// An attempt of a job.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Attempt")]
pub struct AttemptResponse {
    /// Number of the attempt, from 1. After a kick of a dead job it starts from 1 again.
    attempt: u32,
    /// When the job was popped.
    started_at: UnixMillis,
    /// When the attempt ended; null while it runs.
    ended_at: Option<UnixMillis>,
    /// How the attempt ended; null while it runs.
    #[schemars(with = "Option<AttemptOutcome>")]
    outcome: Option<&'static str>,
    /// False if the attempt does not count, as its release said; absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    counted: Option<bool>,
    /// The beginning of the consumer's error, at most 256 bytes; absent if it gave none.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Name that the consumer gave itself; absent if it gave none.
    #[serde(skip_serializing_if = "Option::is_none")]
    consumer: Option<Consumer>,
}

impl From<PastAttempt> for AttemptResponse {
    fn from(past: PastAttempt) -> Self {
        let PastAttempt { attempt, started_at, ended_at, outcome, error, consumer } = past;
        let counted = (outcome == AttemptOutcome::ReleasedUncounted).then_some(false);
        let (ended_at, outcome) = (Some(ended_at), Some(name(outcome)));
        Self { attempt, started_at, ended_at, outcome, counted, error, consumer }
    }
}

/// Returns the name of an outcome in answers.
fn name(outcome: AttemptOutcome) -> &'static str {
    match outcome {
        AttemptOutcome::Released | AttemptOutcome::ReleasedUncounted => "released",
        AttemptOutcome::TimedOut => "timed_out",
        AttemptOutcome::Buried => "buried",
        AttemptOutcome::Finished => "finished",
    }
}

/// Returns the last attempts of a job, oldest first, with the running one at the end.
pub fn attempts(job: &Job) -> Vec<AttemptResponse> {
    let running = job.running_since().map(|started_at| AttemptResponse {
        attempt: job.attempt,
        started_at,
        ended_at: None,
        outcome: None,
        counted: None,
        error: None,
        consumer: job.consumer.clone(),
    });
    let mut all: Vec<_> = job.history.iter().cloned().map(AttemptResponse::from).collect();
    all.extend(running);
    let excess = all.len().saturating_sub(MAX_HISTORY);
    all.drain(..excess);
    all
}
