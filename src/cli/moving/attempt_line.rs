//! A past attempt in the line of its job. Times are in Unix milliseconds.

use serde::{Deserialize, Serialize};

use super::job_line::check_at_most;
use crate::job::{
    AttemptOutcome, Consumer, MAX_HISTORY, MAX_HISTORY_ERROR_BYTES, PastAttempt, UnixMillis,
};

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttemptLine {
    attempt: u32,
    started_at: u64,
    ended_at: u64,
    outcome: AttemptOutcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    consumer: Option<Consumer>,
}

impl AttemptLine {
    pub fn new(past: &PastAttempt) -> Self {
        Self {
            attempt: past.attempt,
            started_at: past.started_at.get(),
            ended_at: past.ended_at.get(),
            outcome: past.outcome,
            error: past.error.clone(),
            consumer: past.consumer.clone(),
        }
    }

    pub fn attempt(self) -> PastAttempt {
        PastAttempt {
            attempt: self.attempt,
            started_at: UnixMillis::new(self.started_at),
            ended_at: UnixMillis::new(self.ended_at),
            outcome: self.outcome,
            error: self.error,
            consumer: self.consumer,
        }
    }
}

/// Checks the rules that every history in a store obeys.
pub fn check(history: &[AttemptLine]) -> Result<(), String> {
    if history.len() > MAX_HISTORY {
        return Err(format!("`history` must have at most {MAX_HISTORY} attempts"));
    }
    for past in history {
        let times = [("started_at", Some(past.started_at)), ("ended_at", Some(past.ended_at))];
        check_at_most(UnixMillis::NEVER.get(), &times)?;
        if past.ended_at < past.started_at {
            return Err("`ended_at` of an attempt must not be before its `started_at`".to_owned());
        }
        let length = past.error.as_ref().map_or(0, String::len);
        if length > MAX_HISTORY_ERROR_BYTES {
            return Err(format!(
                "`error` of an attempt must have at most {MAX_HISTORY_ERROR_BYTES} bytes, got \
                 {length}"
            ));
        }
    }
    Ok(())
}
