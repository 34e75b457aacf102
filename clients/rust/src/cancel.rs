//! Cancellation of jobs that no consumer holds.

use std::{
    future::{Future, IntoFuture},
    pin::Pin,
    time::Duration,
};

use reqwest::Method;
use serde::Deserialize;

use crate::{
    Applied, Error, Queue, State, jobs::unless_absent, retry::Retries, transport::segment,
    value::millis,
};

/// A cancellation: `queue.cancel(id).await`.
#[derive(Debug)]
#[must_use = "a cancellation is sent when it is awaited"]
pub struct Cancel {
    queue: Queue,
    id: String,
    remember: Option<Duration>,
}

#[derive(Deserialize)]
struct Deleted {
    state: State,
}

impl Queue {
    /// Begins to delete a job that is delayed or ready, so never one that a consumer holds.
    ///
    /// Awaited, it returns the state that the job was in, or `None` if no job has this id. If an
    /// earlier answer was lost and the job is gone, that is [`State::Unknown`]. A job in another
    /// state is refused with `wrong_state`.
    pub fn cancel(&self, id: impl Into<String>) -> Cancel {
        Cancel { queue: self.clone(), id: id.into(), remember: None }
    }
}

impl Cancel {
    /// Sets how long the id stays taken, up to 30 days, so that a late repetition of the put does
    /// not bring the job back. Default: not at all.
    pub fn remember(mut self, remember: Duration) -> Self {
        self.remember = Some(remember);
        self
    }

    async fn send(self) -> Result<Option<State>, Error> {
        let mut path = format!("/jobs/{}?state=delayed,ready", segment(&self.id));
        if let Some(remember) = self.remember {
            path = format!("{path}&remember={}ms", millis::ceil(remember));
        }
        let mut retries = Retries::new(self.queue.retry_for);
        let mut is_unknown = false;
        loop {
            let answer: Result<Deleted, Error> =
                self.queue.call_once(Method::DELETE, &path, None, Duration::ZERO).await;
            match answer {
                Err(error) if is_unknown && self.is_cancelled(&error) => {
                    return Ok(Some(State::Unknown));
                }
                Err(error) if error.is_passing() => {
                    is_unknown |= error.applied() == Applied::Unknown;
                    retries.pause(error).await?;
                }
                answer => return Ok(unless_absent(answer)?.map(|deleted| deleted.state)),
            }
        }
    }

    /// Returns whether the refusal of a repetition means that the lost answer was a success.
    fn is_cancelled(&self, error: &Error) -> bool {
        let state = error.refused().and_then(|refused| refused.state);
        match error.code() {
            Some("job_not_found") => true,
            Some("wrong_state") => self.remember.is_some() && state == Some(State::Finished),
            _ => false,
        }
    }
}

impl IntoFuture for Cancel {
    type Output = Result<Option<State>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}
