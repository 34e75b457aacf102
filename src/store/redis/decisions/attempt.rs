//! Ends of attempts, as attempt records and histories.

use delay_queue_core::{Now, decide::Ended};

use super::loaded::Loaded;
use crate::{
    job::{AttemptOutcome, PastAttempt, UnixMillis, cut_error},
    store::redis::codec::{Attempt, text_of_history},
};

/// Returns the attempt record of a job whose attempt ends now, and its history, which is empty if
/// it stays; `None` if the job has no such record.
pub fn end(job: &Loaded<'_>, now: Now, ended: Ended) -> Option<(Option<Attempt>, String)> {
    let attempt = job.attempt.as_ref()?;
    let Ended { number, is_snoozed, outcome, error, cause } = ended;
    let history = new_history(job, now.floor, outcome, error.as_deref());
    let attempt = Attempt {
        attempt: number,
        has_history: attempt.has_history || !history.is_empty(),
        is_snoozed,
        reservation: None,
        due_at: job.due_at,
        error: cause.map(str::to_owned).or(error),
        ..attempt.clone()
    };
    Some((Some(attempt), history))
}

/// Returns the attempt record of a job whose TTR has ended, or that has expired, and its history,
/// which is empty if it stays.
pub fn lapse(
    job: &Loaded<'_>,
    error: &str,
    ttr_ended_at: Option<UnixMillis>,
) -> (Option<Attempt>, String) {
    let end = |at| new_history(job, at, AttemptOutcome::TimedOut, None);
    let history = ttr_ended_at.map_or_else(String::new, end);
    let never_popped = || Attempt {
        attempt: 0,
        has_history: !job.texts.attempt().is_empty(),
        is_snoozed: false,
        reservation: None,
        due_at: job.due_at,
        died_at: UnixMillis::new(0),
        ttr: job.rules.policy.ttr,
        error: None,
    };
    let attempt = job.attempt.clone().unwrap_or_else(never_popped);
    let has_history = attempt.has_history || !history.is_empty();
    let error = Some(error.to_owned());
    (Some(Attempt { has_history, due_at: job.due_at, error, ..attempt }), history)
}

/// Formats the history with the attempt that has ended; empty if the history stays.
fn new_history(
    job: &Loaded<'_>,
    at: UnixMillis,
    outcome: AttemptOutcome,
    error: Option<&str>,
) -> String {
    let (mut history, running) = job.history();
    let has_ended = history.end(running, past(job, at, outcome, error));
    if has_ended { text_of_history(job.id, &history) } else { String::new() }
}

/// Returns the attempt that has ended, without its start and consumer.
pub fn past(
    job: &Loaded<'_>,
    ended_at: UnixMillis,
    outcome: AttemptOutcome,
    error: Option<&str>,
) -> PastAttempt {
    PastAttempt {
        attempt: job.attempt.as_ref().map_or(0, |attempt| attempt.attempt),
        started_at: UnixMillis::new(0),
        ended_at,
        outcome,
        error: error.and_then(cut_error),
        consumer: None,
    }
}
