//! Handlers of any type of body, result and error, behind one type.

use std::{fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::value::{RawValue, to_raw_value};
use tracing::error;

use super::failure::{self, BoxError, cut};
use crate::{Job, job::Popped};

/// End of an attempt, and what the server is told about it.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// With a result, unless that is null.
    Finish(Option<Box<RawValue>>),
    Release(String),
    Bury(String),
    Snooze(Duration),
}

type Handling = Pin<Box<dyn Future<Output = Outcome> + Send>>;

#[derive(Clone)]
pub(crate) struct Handler(Arc<dyn Fn(Popped) -> Handling + Send + Sync>);

impl Handler {
    pub(super) fn new<T, F, Fut, R, E>(handler: F) -> Self
    where
        T: DeserializeOwned + Send + 'static,
        F: Fn(Job<T>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, E>> + Send + 'static,
        R: Serialize,
        E: Into<BoxError> + 'static,
    {
        Handler(Arc::new(move |popped| {
            let id = popped.id.clone();
            match popped.decode::<T>() {
                Err(mismatch) => Box::pin(std::future::ready(Outcome::Bury(cut(mismatch)))),
                Ok(job) => {
                    let handling = handler(job);
                    Box::pin(async move {
                        match handling.await {
                            Ok(value) => Outcome::Finish(result(&id, &value)),
                            Err(error) => failure::outcome(error),
                        }
                    })
                }
            }
        }))
    }

    pub(crate) fn call(&self, job: Popped) -> Handling {
        (self.0)(job)
    }
}

/// Encodes the value that a handler returned. The work is done even if that fails.
fn result<R: Serialize>(id: &str, value: &R) -> Option<Box<RawValue>> {
    match to_raw_value(value) {
        Ok(json) => Some(json).filter(|json| json.get() != "null"),
        Err(error) => {
            let type_name = std::any::type_name::<R>();
            error!(job = id, "{type_name} has no JSON form, so the job has no result: {error}");
            None
        }
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Handler")
    }
}

#[cfg(test)]
impl PartialEq for Outcome {
    fn eq(&self, other: &Self) -> bool {
        format!("{self:?}") == format!("{other:?}")
    }
}
