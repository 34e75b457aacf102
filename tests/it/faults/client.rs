//! A client that records each call, and uses the other server after a failure.

use reqwest::{Method, Response, header::RETRY_AFTER};

use crate::faults::prelude::*;
use crate::faults::{
    answers::{read, refusal},
    load::changed_body,
};

/// Timeout of a request. It is longer than any answer: the wait of a pop, and then twice 5 s for
/// answers of Redis.
const PATIENCE: Duration = Duration::from_secs(15);

pub struct Client {
    history: Arc<History>,
    servers: Vec<String>,
    /// Index of the current server.
    current: usize,
    /// Number of requests so far.
    requests: usize,
    http: reqwest::Client,
}

pub struct Put {
    pub topic: &'static str,
    pub id: Option<Text>,
    pub body: Text,
    pub delay: Duration,
    pub max_attempts: u32,
    pub finished_retention: Duration,
    pub priority: u8,
    pub expires_after: Option<Duration>,
}

/// Parameters of a release.
#[derive(Default)]
pub struct Release {
    pub delay: Duration,
    /// Whether the attempt does not count.
    pub is_uncounted: bool,
    /// Whether the job gets another body.
    pub changes_body: bool,
}

impl Put {
    /// Returns the call at this server, and its body.
    fn into_parts(self, server: usize) -> (Ask, Value) {
        let Self { topic, id, body, delay, max_attempts, expires_after, .. } = self;
        let mut put = json!({"topic": topic, "body": *body, "delay": delay.as_secs_f64(),
            "ttr": TTR.as_secs(), "max_attempts": max_attempts, "priority": self.priority,
            "expires_after": expires_after.map(|after| after.as_secs_f64())});
        if let Some(id) = &id {
            put["id"] = json!(**id);
        }
        if !self.finished_retention.is_zero() {
            put["finished_retention"] = json!(self.finished_retention.as_secs());
        }
        (Ask::Put { topic, server, id, body, delay, max_attempts, expires_after }, put)
    }
}

impl Client {
    /// Creates a client. `number` chooses its first server.
    pub fn new(history: Arc<History>, servers: &[String], number: usize) -> Self {
        let http = crate::support::http::builder().timeout(PATIENCE).build().expect("a client");
        Self {
            history,
            servers: servers.to_vec(),
            current: number % servers.len(),
            requests: 0,
            http,
        }
    }

    pub fn now(&self) -> Time {
        self.history.now()
    }

    pub async fn put(&mut self, put: Put) -> StoreResult {
        let (ask, body) = put.into_parts(self.current);
        self.call("put", ask, Method::POST, "/jobs", body).await
    }

    pub async fn put_batch(&mut self, puts: Vec<Put>) {
        let items = puts.into_iter().map(|put| put.into_parts(self.current)).collect();
        self.batch("batch put", "/batch/jobs", items).await;
    }

    /// Pops jobs. Returns no jobs if the call failed.
    pub async fn pop(&mut self, topic: &'static str, options: &str) -> Vec<Delivery> {
        let path = format!("/topics/{topic}/pop?{options}");
        let kind = if options.contains("wait=") { "waiting pop" } else { "pop" };
        let ask = Ask::Pop { topic, server: self.current };
        match self.call(kind, ask, Method::POST, &path, Value::Null).await {
            StoreResult::Done(Answer::Popped(jobs)) => jobs.into_vec(),
            _ => Vec::new(),
        }
    }

    /// Finishes a job, and retries the request while the outcome is unknown.
    pub async fn finish(&mut self, job: &Delivery) {
        let (id, reservation) = (&job.id, &job.reservation);
        let path = format!("/jobs/{id}/finish");
        let ask = Ask::Finish { id: id.clone(), reservation: reservation.clone() };
        self.insist(ask, Method::POST, &path, json!({"reservation": **reservation})).await;
    }

    /// Finishes several jobs in one request, and retries it while an outcome is unknown.
    pub async fn finish_batch(&mut self, jobs: &[Delivery]) {
        let item = |job: &Delivery| {
            let (id, reservation) = (job.id.clone(), job.reservation.clone());
            let body = json!({"id": *id, "reservation": *reservation});
            (Ask::Finish { id, reservation }, body)
        };
        let items = jobs.iter().map(item).collect();
        let outcomes = self.batch("batch finish", "/batch/finish", items).await;
        for (job, outcome) in jobs.iter().zip(outcomes) {
            if matches!(outcome, StoreResult::Unknown) {
                self.finish(job).await;
            }
        }
    }

    pub async fn release(&mut self, job: &Delivery, how: Release) {
        let Release { delay, is_uncounted, changes_body } = how;
        let (id, reservation) = (job.id.clone(), job.reservation.clone());
        let path = format!("/jobs/{id}/release");
        let body = changes_body.then(|| changed_body(&job.body, &reservation));
        let mut request = json!({"reservation": *reservation, "delay": delay.as_secs_f64()});
        if is_uncounted {
            request["count_attempt"] = json!(false);
        }
        if let Some(body) = &body {
            request["body"] = json!(**body);
        }
        let ask = Ask::Release { id, reservation, delay, is_counted: !is_uncounted, body };
        self.call("release", ask, Method::POST, &path, request).await;
    }

    /// Extends the reservation to a TTR from now.
    pub async fn touch(&mut self, job: &Delivery) {
        let (id, reservation) = (job.id.clone(), job.reservation.clone());
        let path = format!("/jobs/{id}/touch");
        let body = json!({"reservation": *reservation});
        let ask = Ask::Touch { id, reservation, ttr: job.ttr };
        self.call("touch", ask, Method::POST, &path, body).await;
    }

    pub async fn bury(&mut self, job: &Delivery) {
        let (id, reservation) = (job.id.clone(), job.reservation.clone());
        let path = format!("/jobs/{id}/bury");
        let body = json!({"reservation": *reservation});
        self.call("bury", Ask::Bury { id, reservation }, Method::POST, &path, body).await;
    }

    pub async fn kick(&mut self, id: &Text) {
        let ask = Ask::Kick { id: id.clone() };
        self.insist(ask, Method::POST, &format!("/jobs/{id}/kick"), json!({})).await;
    }

    pub async fn reschedule(&mut self, id: &Text, delay: Duration) {
        let (ask, path) = (Ask::Reschedule { id: id.clone(), delay }, format!("/jobs/{id}"));
        let body = json!({"delay": delay.as_secs_f64()});
        self.call("reschedule", ask, Method::PATCH, &path, body).await;
    }

    pub async fn delete(&mut self, id: &Text) {
        let ask = Ask::Delete { id: id.clone() };
        self.insist(ask, Method::DELETE, &format!("/jobs/{id}"), Value::Null).await;
    }

    /// Deletes a job unless it is reserved. Its id stays taken.
    pub async fn cancel(&mut self, id: &Text) {
        let path = format!("/jobs/{id}?state=delayed,ready&remember={}", RETENTION.as_secs());
        self.insist(Ask::Cancel { id: id.clone() }, Method::DELETE, &path, Value::Null).await;
    }

    pub async fn pause(&mut self, topic: &'static str) {
        let path = format!("/topics/{topic}/pause");
        let ask = Ask::Pause { topic, server: self.current };
        self.call("pause", ask, Method::POST, &path, json!({})).await;
    }

    /// Resumes a topic. Returns whether the resume is certain.
    pub async fn resume(&mut self, topic: &'static str) -> bool {
        let path = format!("/topics/{topic}/resume");
        let outcome =
            self.call("resume", Ask::Resume { topic }, Method::POST, &path, json!({})).await;
        matches!(outcome, StoreResult::Done(_))
    }

    /// Sets where jobs of a topic go when they die. Returns the server that has acknowledged it.
    pub async fn set_dead_to(
        &mut self,
        topic: &'static str,
        target: &'static str,
    ) -> Option<usize> {
        let server = self.current;
        let ask = Ask::SetDeadTo { topic, target, server };
        let (path, body) = (format!("/topics/{topic}"), json!({"dead_to": target}));
        let outcome = self.call("set dead_to", ask, Method::PUT, &path, body).await;
        matches!(outcome, StoreResult::Done(_)).then_some(server)
    }

    /// Returns the index of the current server.
    pub fn server(&self) -> usize {
        self.current
    }

    /// Makes a call, and retries it while the outcome is unknown.
    async fn insist(&mut self, ask: Ask, method: Method, path: &str, body: Value) {
        for _ in 0..TRIES {
            let (ask, body) = (ask.clone(), body.clone());
            let outcome = self.call(ask.name(), ask, method.clone(), path, body).await;
            if !matches!(outcome, StoreResult::Unknown) {
                return;
            }
        }
    }

    async fn call(
        &mut self,
        kind: &'static str,
        ask: Ask,
        method: Method,
        path: &str,
        body: Value,
    ) -> StoreResult {
        let start = self.history.now();
        let outcome = match self.send(kind, method, path, body).await {
            Ok(answer) => outcome(&ask, &answer),
            Err(outcome) => outcome,
        };
        self.record(kind, start, vec![(ask, outcome.clone())]).await;
        outcome
    }

    /// Sends one request for several jobs. Returns the results in the order of the jobs.
    async fn batch(
        &mut self,
        kind: &'static str,
        path: &str,
        items: Vec<(Ask, Value)>,
    ) -> Vec<StoreResult> {
        let start = self.history.now();
        let (asks, items): (Vec<Ask>, Vec<Value>) = items.into_iter().unzip();
        let outcomes: Vec<StoreResult> =
            match self.send(kind, Method::POST, path, json!({"jobs": items})).await {
                Ok(answer) => {
                    let results = asks.iter().enumerate().map(|(n, ask)| {
                        let result = &answer["results"][n];
                        match result["status"].as_u64().and_then(|code| u16::try_from(code).ok()) {
                            Some(..300) | None => outcome(ask, result),
                            Some(status) => self.refused(kind, status, result, true),
                        }
                    });
                    results.collect()
                }
                Err(outcome) => vec![outcome; asks.len()],
            };
        self.record(kind, start, asks.into_iter().zip(outcomes.clone()).collect()).await;
        outcomes
    }

    async fn record(&mut self, kind: &'static str, start: Time, asked: Vec<(Ask, StoreResult)>) {
        let failed = self.history.add(kind, start, asked);
        self.requests += 1;
        // Also changes the server after some time without failures, so that no server stays without
        // clients.
        if failed || self.requests.is_multiple_of(32) {
            self.current = (self.current + 1) % self.servers.len();
        }
        if failed {
            // Retries earlier than `Retry-After` says, but not in a busy loop.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Sends a request. Returns the answer if the call was carried out, and otherwise the known
    /// result.
    async fn send(
        &self,
        kind: &'static str,
        method: Method,
        path: &str,
        body: Value,
    ) -> Result<Value, StoreResult> {
        let request = self.http.request(method, format!("{}{path}", self.servers[self.current]));
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let failed = |what: &str| {
            self.history.count_failure(format!("{kind}: {what}"));
            Err(StoreResult::Unknown)
        };
        let response = match request.body(body).send().await {
            Ok(response) => response,
            // No server listens at this address: the request was not sent.
            Err(error) if error.is_connect() => {
                drop(failed("no connection"));
                return Err(StoreResult::Refused("not_sent".into()));
            }
            Err(error) if error.is_timeout() => return failed("no answer in time"),
            Err(_) => return failed("the connection broke"),
        };
        let (status, retry_after) = (response.status().as_u16(), retry_after(&response));
        let Ok(text) = response.text().await else { return failed("the answer is incomplete") };
        let answer: Value = serde_json::from_str(&text).unwrap_or_default();
        if status < 300 {
            return Ok(answer);
        }
        Err(self.refused(kind, status, &answer, retry_after))
    }

    /// Counts a problem and returns its result.
    fn refused(&self, kind: &str, status: u16, problem: &Value, retry_after: bool) -> StoreResult {
        let (code, applied) = (&problem["code"], &problem["applied"]);
        let [code, applied] = [code, applied].map(|field| field.as_str().unwrap_or_default());
        self.history.count_failure(format!("{kind}: {status} {code}, applied {applied:?}"));
        refusal(kind, status, problem, retry_after)
    }
}

fn outcome(ask: &Ask, answer: &Value) -> StoreResult {
    let wrong = || StoreResult::Wrong(format!("{}: {answer}", ask.name()).into());
    read(ask, answer).map_or_else(wrong, StoreResult::Done)
}

fn retry_after(response: &Response) -> bool {
    response.headers().contains_key(RETRY_AFTER)
}
