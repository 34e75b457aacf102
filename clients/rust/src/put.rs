//! Puts of one job.

mod fields;
mod gather;
mod many;
mod pending;
mod ulid;

use std::{
    future::{Future, IntoFuture},
    pin::Pin,
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::to_raw_value};

pub use self::fields::{Backoff, OnConflict};
pub(crate) use self::gather::Gatherer;
use self::{fields::Fields, pending::Pending};
use crate::{Error, Queue, State, queue::encode, retry::Retries, value::time};

/// A put: `queue.put(topic, &body).delay(…).await`. Nothing is sent before the await.
///
/// The put is repeated while the server does not answer or is overloaded, see
/// [`Queue::retry_for`]. So that this creates one job, a put without an id gets one, and a
/// repetition after a lost answer keeps the job that exists. Therefore, an id of your own must not
/// be in use for other work: if the first answer was lost, `Ok` cannot tell your job from another
/// job of that id in the topic.
///
/// Concurrent puts share requests: puts that arrive while a request is under way go together in
/// the next one, and each has its own result. A put that is dropped while it waits is not sent. If
/// it is dropped while a shared request is under way, the request goes on, and the job may be put.
#[derive(Debug)]
#[must_use = "a put is sent when it is awaited"]
pub struct Put {
    queue: Queue,
    fields: Fields,
    unencoded: Option<Error>,
}

/// Answer to a put.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PutJob {
    /// Id of the job.
    pub id: String,
    /// Topic of the job.
    pub topic: String,
    /// State of the job: of a new one, delayed or ready.
    pub state: State,
    /// When the job is due.
    #[serde(with = "time")]
    pub due_at: SystemTime,
}

impl Put {
    pub(crate) fn new<T: Serialize + ?Sized>(queue: Queue, topic: String, body: &T) -> Self {
        let mut put = Put { queue, fields: Fields { topic, ..Fields::default() }, unencoded: None };
        match to_raw_value(body) {
            Ok(body) => put.fields.body = Some(body),
            Err(error) => put.unencoded = Some(Error::encode("body", error)),
        }
        put
    }

    /// Sets the id, unique in the whole store: up to 128 of `A-Z a-z 0-9 . _ : -`. Default: a new
    /// one of 26 characters.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.fields.id = Some(id.into());
        self
    }

    /// Sets how long from now the job is due, up to ten years. Default: at once.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.fields.delay = Some(delay);
        self
    }

    /// Sets when the job is due, instead of a delay.
    pub fn due_at(mut self, due_at: SystemTime) -> Self {
        self.fields.due_at = Some(due_at);
        self
    }

    /// Sets how long a worker may hold the job without a touch, 1 s to 24 h. Default: that of the
    /// topic, or 60 s.
    pub fn ttr(mut self, ttr: Duration) -> Self {
        self.fields.ttr = Some(ttr);
        self
    }

    /// Sets after how many attempts the job is dead; 0 is no limit. Default: that of the topic, or
    /// 20.
    pub fn max_attempts(mut self, max_attempts: u32) -> Self {
        self.fields.max_attempts = Some(max_attempts);
        self
    }

    /// Sets the waits between attempts. Default: those of the topic, or none.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.fields.backoff = Some(backoff);
        self
    }

    /// Sets the effect on a job that has the id. Default: [`OnConflict::Reject`].
    pub fn on_conflict(mut self, on_conflict: OnConflict) -> Self {
        self.fields.on_conflict = Some(on_conflict);
        self
    }

    /// Sets the priority, 0 to 9. Default: that of the topic, or 4.
    pub fn priority(mut self, priority: u8) -> Self {
        self.fields.priority = Some(priority);
        self
    }

    /// Sets how long after its due time the job expires. Default: that of the topic, or never.
    pub fn expires_after(mut self, expires_after: Duration) -> Self {
        self.fields.expires_after = Some(expires_after);
        self
    }

    /// Sets how long the job is kept with its result after its finish, up to 30 days. Default:
    /// that of the topic, or not at all.
    pub fn finished_retention(mut self, finished_retention: Duration) -> Self {
        self.fields.finished_retention = Some(finished_retention);
        self
    }

    /// Sets the position in a distributed trace, which the handler gets.
    pub fn traceparent(mut self, traceparent: impl Into<String>) -> Self {
        self.fields.traceparent = Some(traceparent.into());
        self
    }

    /// Adds a header, which the handler gets.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.fields.headers.insert(name.into(), value.into());
        self
    }

    /// Sets any other field of the API, for instance one that is newer than this crate.
    pub fn field(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.fields.more.insert(name.into(), value.into());
        self
    }

    fn pending(self) -> Result<(Queue, Pending), Error> {
        match self.unencoded {
            Some(error) => Err(error),
            None => Ok((self.queue, Pending::new(self.fields))),
        }
    }

    async fn send(self) -> Result<PutJob, Error> {
        let (queue, mut pending) = self.pending()?;
        let mut retries = Retries::new(queue.retry_for);
        loop {
            let body = encode(pending.fields(), "put")?;
            match queue.put_once(body).await {
                Ok(job) => return Ok(job),
                Err(error) if pending.is_put(&error) => {
                    return Ok(pending.put_job(&queue, &error).await);
                }
                Err(error) => {
                    pending.failed(&error);
                    retries.pause(error).await?;
                }
            }
        }
    }
}

impl IntoFuture for Put {
    type Output = Result<PutJob, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}
