//! Requests: headers and bodies as an endpoint receives them.

use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{AUTHORIZATION, CONTENT_TYPE, USER_AGENT},
};
use serde::Serialize;
use serde_json::value::RawValue;
use xxhash_rust::xxh3::Xxh3;

use super::sign::Keys;
use crate::job::{Headers, JobId, PoppedJob, Push, Topic, UnixMillis};

const ID: HeaderName = HeaderName::from_static("delay-queue-id");
const TOPIC: HeaderName = HeaderName::from_static("delay-queue-topic");
const ATTEMPT: HeaderName = HeaderName::from_static("delay-queue-attempt");
const DUE_AT: HeaderName = HeaderName::from_static("delay-queue-due-at");
const SCHEDULED_AT: HeaderName = HeaderName::from_static("delay-queue-scheduled-at");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// Number of headers of most requests.
const HEADERS: usize = 12;

/// Parts that the requests of a push have in common.
pub struct Template {
    headers: HeaderMap,
    keys: Keys,
}

/// A request to be sent.
pub struct Prepared {
    /// Headers.
    pub headers: HeaderMap,
    /// Body.
    pub body: Bytes,
}

/// A job in the body of a batch.
#[derive(Serialize)]
struct Item<'a> {
    id: &'a JobId,
    attempt: u32,
    due_at: UnixMillis,
    headers: &'a Headers,
    body: &'a RawValue,
}

#[derive(Serialize)]
struct Batch<'a> {
    jobs: Vec<Item<'a>>,
}

impl Template {
    /// Creates the parts of a push of this topic.
    pub fn new(topic: &Topic, push: &Push) -> Self {
        // A clone has the same capacity, so that the headers of a job need no larger map.
        let mut headers = HeaderMap::with_capacity(HEADERS);
        let agent = concat!("delay-queue/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        add(&mut headers, &push.headers);
        let authorization = push.authorization.iter().map(|text| (AUTHORIZATION.as_str(), text));
        let others = push.secret_headers.iter().map(|(name, text)| (name.as_str(), text));
        for (name, text) in authorization.chain(others) {
            if let (Ok(name), Ok(mut value)) =
                (name.parse::<HeaderName>(), HeaderValue::from_str(text.reveal()))
            {
                value.set_sensitive(true);
                headers.insert(name, value);
            }
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        set(&mut headers, TOPIC, topic.as_str());
        Self { headers, keys: Keys::new(&push.secrets) }
    }

    /// Prepares the request of one job.
    pub fn one(&self, job: &PoppedJob, now: UnixMillis) -> Prepared {
        let mut headers = self.headers.clone();
        add(&mut headers, &job.policy.headers);
        set(&mut headers, ID, job.id.as_str());
        headers.insert(ATTEMPT, job.attempt.into());
        set(&mut headers, DUE_AT, &job.due_at.to_string());
        if let Some(at) = job.policy.scheduled_at {
            set(&mut headers, SCHEDULED_AT, &at.to_string());
        }
        if let Some(trace) = job.policy.traceparent {
            set(&mut headers, TRACEPARENT, &trace.to_string());
        }
        self.sign(headers, &message_id([job]), job.body.clone(), now)
    }

    /// Prepares the request of a batch.
    ///
    /// # Errors
    /// The stored body of a job is not JSON.
    pub fn batch(&self, jobs: &[PoppedJob], now: UnixMillis) -> serde_json::Result<Prepared> {
        let jobs_written = jobs.iter().map(Item::new).collect::<Result<_, _>>()?;
        let body = serde_json::to_vec(&Batch { jobs: jobs_written })?;
        Ok(self.sign(self.headers.clone(), &message_id(jobs), body.into(), now))
    }

    fn sign(&self, mut headers: HeaderMap, id: &str, body: Bytes, now: UnixMillis) -> Prepared {
        let timestamp = now.get() / 1_000;
        set(&mut headers, WEBHOOK_ID, id);
        headers.insert(WEBHOOK_TIMESTAMP, timestamp.into());
        if let Some(signature) = self.keys.signature(id, timestamp, &body) {
            set(&mut headers, WEBHOOK_SIGNATURE, &signature);
        }
        Prepared { headers, body }
    }
}

impl<'a> Item<'a> {
    fn new(job: &'a PoppedJob) -> serde_json::Result<Self> {
        Ok(Self {
            id: &job.id,
            attempt: job.attempt,
            due_at: job.due_at,
            headers: &job.policy.headers,
            body: serde_json::from_slice(&job.body)?,
        })
    }
}

/// Returns the `webhook-id` of jobs: for one job the same in all attempts of one put. It is not the
/// job's id, since another put may use that id again.
fn message_id<'a>(jobs: impl IntoIterator<Item = &'a PoppedJob>) -> String {
    let mut hash = Xxh3::new();
    for job in jobs {
        hash.update(job.id.as_str().as_bytes());
        hash.update(&[0]);
        hash.update(&job.created_at.get().to_le_bytes());
    }
    format!("msg_{:032x}", hash.digest128())
}

/// Adds headers of a push or a job, which replace those of the same name.
fn add(to: &mut HeaderMap, headers: &Headers) {
    for (name, value) in headers.iter() {
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_str(value)) {
            to.insert(name, value);
        }
    }
}

/// Sets a header whose text is valid by its type.
fn set(headers: &mut HeaderMap, name: HeaderName, text: &str) {
    if let Ok(value) = HeaderValue::from_str(text) {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests;
