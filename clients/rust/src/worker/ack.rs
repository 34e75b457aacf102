//! Outcomes on their way to the server.

use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use tokio::{sync::oneshot, time::Instant};

use super::handler::Outcome;
use crate::{job::Reserved, retry::Backoff, value::millis};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Finish,
    Release,
    Bury,
}

impl Verb {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Verb::Finish => "finish",
            Verb::Release => "release",
            Verb::Bury => "bury",
        }
    }
}

/// Outcome of an attempt that the server does not know yet.
#[derive(Debug)]
pub(crate) struct Ack {
    pub(crate) verb: Verb,
    pub(crate) topic: String,
    pub(crate) fields: Fields,
    /// Dropped when the server has answered.
    _answered: Option<oneshot::Sender<()>>,
    /// When it may be sent next.
    pub(super) not_before: Instant,
    pub(super) backoff: Backoff,
    /// Whether an earlier attempt may have been applied.
    pub(super) is_unknown: bool,
}

/// Entry of a batch.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Fields {
    pub(crate) id: String,
    reservation: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) result: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    #[serde(with = "millis::option", skip_serializing_if = "Option::is_none")]
    delay: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    count_attempt: Option<bool>,
}

impl Ack {
    pub(crate) fn new(
        reserved: Reserved,
        outcome: Outcome,
        answered: Option<oneshot::Sender<()>>,
    ) -> Self {
        let Reserved { id, topic, reservation, .. } = reserved;
        let fields = Fields { id, reservation, ..Fields::default() };
        let (verb, fields) = match outcome {
            Outcome::Finish(result) => (Verb::Finish, Fields { result, ..fields }),
            Outcome::Release(error) => (Verb::Release, Fields { error: Some(error), ..fields }),
            Outcome::Bury(reason) => (Verb::Bury, Fields { error: Some(reason), ..fields }),
            Outcome::Snooze(delay) => {
                let (delay, count_attempt) = (Some(delay), Some(false));
                (Verb::Release, Fields { delay, count_attempt, ..fields })
            }
        };
        let (not_before, backoff) = (Instant::now(), Backoff::new());
        Ack { verb, topic, fields, _answered: answered, not_before, backoff, is_unknown: false }
    }

    /// Returns about how many bytes it takes in a request.
    pub(super) fn size(&self) -> usize {
        let Fields { id, reservation, result, error, .. } = &self.fields;
        let result = result.as_ref().map_or(0, |result| result.get().len());
        // An escaped character takes up to six bytes.
        100 + id.len() + reservation.len() + result + 6 * error.as_ref().map_or(0, String::len)
    }
}
