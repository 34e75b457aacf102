//! Pushes of topics, their test and their targets in answers.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::push_fields::{AUTHORIZATION, MASK};
use crate::{
    job::{Backoff, Headers, JobId, Millis, Push, PushBatch, Rate, Topic, UnixMillis},
    push::{PushFailure, PushStatus, TargetHealth, Tested},
};

/// The push of a topic.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Push")]
pub struct PushResponse {
    /// The topic whose jobs are sent.
    topic: Topic,
    /// URL to which they are sent.
    url: String,
    /// Maximum number of requests at once, of all servers together.
    concurrency: u16,
    /// Maximum number of requests in a time, of all servers together; null if there is none.
    rate: Option<Rate>,
    /// Seconds for one request.
    timeout: Millis,
    /// Number of stored secrets, which no answer shows.
    secret_count: usize,
    /// Headers of each request, `authorization` and secret ones as `***`; absent if there are none.
    #[serde(skip_serializing_if = "ShownHeaders::is_empty")]
    #[schemars(with = "Option<Headers>")]
    headers: ShownHeaders,
    /// How jobs are collected into one request; null if each has a request of its own.
    batch: Option<ShownBatch>,
    /// Time before the next attempt of jobs without a `backoff` of their own; null for the standard
    /// one.
    backoff: Option<Backoff>,
    /// `running`: requests are sent. `paused`: none are sent until the push is resumed. `open`: the
    /// target fails, and one request a second probes it.
    #[schemars(extend("enum" = ["running", "paused", "open"]))]
    state: &'static str,
    /// Why the push is not `running`, or that it waits for memory; else null. For a paused push
    /// `requested`, `imported`, `failing` or `revoked`.
    reason: Option<String>,
    /// Name of the token that set it; null if it needed none.
    set_by: Option<String>,
    /// Requests that are under way on this server.
    in_flight: usize,
    /// Requests of this server per second.
    rates: Rates,
    /// The last requests of this server that failed, latest first.
    last_failures: Vec<Failure>,
}

#[derive(Serialize)]
struct ShownHeaders {
    #[serde(flatten)]
    others: Headers,
    /// Names of the secret ones.
    #[serde(flatten)]
    hidden: BTreeMap<String, &'static str>,
}

impl ShownHeaders {
    fn is_empty(&self) -> bool {
        self.others.is_empty() && self.hidden.is_empty()
    }
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct ShownBatch {
    /// Maximum number of jobs of a request.
    max: u16,
    /// Seconds that the first job of a request waits for more jobs.
    linger: Millis,
}

/// Requests per second over the last minute.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct Rates {
    /// Requests that succeeded, per second over the last minute.
    delivered: f64,
    /// Requests that failed, per second over the last minute.
    failed: f64,
}

/// A request that failed.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct Failure {
    /// When it failed.
    at: UnixMillis,
    /// Id of the job, or of the first job of a batch.
    id: JobId,
    /// Status of the answer; absent without an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u16")]
    status: Option<u16>,
    /// Why it failed; absent if the token lacks the scope `read`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    error: Option<String>,
}

impl PushResponse {
    /// Shows a push. A caller that `may_read` the jobs of the topic also sees the errors of their
    /// requests.
    pub fn new(topic: Topic, push: &Push, status: PushStatus, may_read: bool) -> Self {
        let failure = |PushFailure { at, id, status, error }| {
            let error = Some(error).filter(|_| may_read);
            Failure { at, id, status, error }
        };
        let mut hidden: BTreeMap<String, &'static str> =
            push.secret_headers.keys().map(|name| (name.clone(), MASK)).collect();
        if push.authorization.is_some() {
            hidden.insert(AUTHORIZATION.to_owned(), MASK);
        }
        let shown = |PushBatch { max, linger }| ShownBatch { max, linger: Millis::new(linger) };
        Self {
            topic,
            url: push.url.clone(),
            concurrency: push.concurrency,
            rate: push.rate,
            timeout: push.timeout(),
            secret_count: push.secrets.len(),
            headers: ShownHeaders { others: push.headers.clone(), hidden },
            batch: push.batch.map(shown),
            backoff: push.backoff.clone(),
            state: status.state.name(),
            reason: status.reason,
            set_by: push.set_by.clone(),
            in_flight: status.in_flight,
            rates: Rates {
                delivered: status.delivered_per_second,
                failed: status.failed_per_second,
            },
            last_failures: status.last_failures.into_iter().map(failure).collect(),
        }
    }
}

/// A test request and its answer.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PushTest")]
pub struct TestResponse {
    /// The request that was sent.
    request: TestRequest,
    /// The answer, or an `error` if there is none.
    response: TestAnswer,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct TestRequest {
    /// The method, always `POST`.
    method: &'static str,
    /// The URL of the push.
    url: String,
    /// Headers of the request; `authorization` and secret ones are shown as `***`.
    headers: BTreeMap<String, String>,
    /// Body of the request, as text.
    body: String,
}

#[derive(Default, Serialize, JsonSchema)]
#[schemars(inline)]
struct TestAnswer {
    /// Status of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u16")]
    status: Option<u16>,
    /// Beginning of the body of the answer; absent if it is empty, or if the endpoint's address is
    /// not public.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    body: Option<String>,
    /// Seconds until the answer was complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "f64")]
    seconds: Option<f64>,
    /// Why the successful answer to a batch accepts no job; absent if it accepts the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    warning: Option<String>,
    /// Why there is no answer; the other fields are absent then.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    error: Option<String>,
}

impl TestResponse {
    pub fn new(push: &Push, tested: Tested) -> Self {
        let response = match tested.answer {
            Ok(answer) => TestAnswer {
                status: Some(answer.status),
                body: answer.body,
                seconds: Some(answer.seconds),
                warning: answer.warning,
                error: None,
            },
            Err(error) => TestAnswer { error: Some(error), ..TestAnswer::default() },
        };
        let request = TestRequest {
            method: "POST",
            url: push.url.clone(),
            headers: tested.headers.into_iter().collect(),
            body: tested.body,
        };
        Self { request, response }
    }
}

/// Health of a target: a scheme, host and port to which topics are pushed.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PushTarget")]
pub struct TargetResponse {
    /// Scheme, host and port.
    target: String,
    /// `closed`: it answers. `open`: it fails, and one request a second probes it. `recovering`: it
    /// answers again, and each success allows one more request at once.
    #[schemars(extend("enum" = ["closed", "open", "recovering"]))]
    state: &'static str,
    /// Topics that are pushed there, up to 20.
    topics: Vec<Topic>,
    /// Requests of this server per second.
    rates: Rates,
    /// Mean time of a request over the last minute in seconds; null without requests.
    mean_seconds: Option<f64>,
}

impl TargetResponse {
    /// Shows a target with up to `topics` of its topics.
    pub fn new(health: TargetHealth, topics: usize) -> Self {
        Self {
            target: health.target,
            state: health.state.name(),
            topics: health.topics.into_iter().take(topics).collect(),
            rates: Rates {
                delivered: health.delivered_per_second,
                failed: health.failed_per_second,
            },
            mean_seconds: health.mean_seconds,
        }
    }
}
