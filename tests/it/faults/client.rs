//! A client that records each call, and uses the other server when one fails.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use reqwest::{Method, Response, header::RETRY_AFTER};
use serde_json::{Value, json};

use crate::faults::{
    history::{Answer, Ask, Delivery, History, StoreResult, Text, Time},
    load::{TRIES, TTR},
};

/// Longer than a server may take: the wait of a pop, then 5 s for an answer of Redis, twice.
const PATIENCE: Duration = Duration::from_secs(15);

/// Refusals that a job's state explains; any other 4xx is a fault.
const REFUSALS: [&str; 3] = ["job_exists", "job_not_found", "reservation_lost"];

/// One client.
pub struct Client {
    history: Arc<History>,
    servers: Vec<String>,
    /// The server it uses now.
    current: usize,
    http: reqwest::Client,
}

impl Client {
    /// Client number `number` begins with the server of that number, in turn.
    pub fn new(history: Arc<History>, servers: &[String], number: usize) -> Self {
        let http = reqwest::Client::builder().timeout(PATIENCE).build().expect("a client");
        Self { history, servers: servers.to_vec(), current: number % servers.len(), http }
    }

    pub fn now(&self) -> Time {
        self.history.now()
    }

    pub async fn put(
        &mut self,
        topic: &str,
        id: Option<Text>,
        body: Text,
        delay: Duration,
        max_attempts: u32,
    ) -> StoreResult {
        let mut put = json!({"topic": topic, "body": *body, "delay": delay.as_secs_f64(),
            "ttr": TTR.as_secs(), "max_attempts": max_attempts});
        if let Some(id) = &id {
            put["id"] = json!(**id);
        }
        let ask = Ask::Put { id, body, delay, max_attempts };
        self.call(ask, Method::POST, "/jobs", put).await
    }

    /// The jobs; none also if the call failed.
    pub async fn pop(&mut self, topic: &str, options: &str) -> Vec<Delivery> {
        let path = format!("/topics/{topic}/pop?{options}");
        let ask = Ask::Pop { waits: options.contains("wait=") };
        match self.call(ask, Method::POST, &path, Value::Null).await {
            StoreResult::Done(Answer::Popped(jobs)) => jobs.into_vec(),
            _ => Vec::new(),
        }
    }

    /// Asks again while the outcome is unknown, as a client does that wants to know.
    pub async fn finish(&mut self, job: &Delivery) {
        let (id, reservation) = (&job.id, &job.reservation);
        let path = format!("/jobs/{id}/finish");
        for _ in 0..TRIES {
            let ask = Ask::Finish { id: id.clone(), reservation: reservation.clone() };
            let body = json!({"reservation": **reservation});
            if !matches!(self.call(ask, Method::POST, &path, body).await, StoreResult::Unknown) {
                return;
            }
        }
    }

    pub async fn release(&mut self, job: &Delivery, delay: Duration) {
        let (id, reservation) = (job.id.clone(), job.reservation.clone());
        let path = format!("/jobs/{id}/release");
        let body = json!({"reservation": *reservation, "delay": delay.as_secs_f64()});
        self.call(Ask::Release { id, reservation, delay }, Method::POST, &path, body).await;
    }

    /// Likewise.
    pub async fn delete(&mut self, id: &Text) {
        let path = format!("/jobs/{id}");
        for _ in 0..TRIES {
            let ask = Ask::Delete { id: id.clone() };
            if !matches!(
                self.call(ask, Method::DELETE, &path, Value::Null).await,
                StoreResult::Unknown
            ) {
                return;
            }
        }
    }

    async fn call(&mut self, ask: Ask, method: Method, path: &str, body: Value) -> StoreResult {
        let start = self.history.now();
        let outcome = self.send(&ask, method, path, body).await;
        if self.history.add(start, ask, outcome.clone()) {
            self.current = (self.current + 1) % self.servers.len();
            // Harsher than Retry-After asks, but no hot loop on a store that is away.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        outcome
    }

    async fn send(&self, ask: &Ask, method: Method, path: &str, body: Value) -> StoreResult {
        let request = self.http.request(method, format!("{}{path}", self.servers[self.current]));
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let failed = |what: &str| {
            self.history.count_failure(format!("{}: {what}", ask.name()));
            StoreResult::Unknown
        };
        let response = match request.body(body).send().await {
            Ok(response) => response,
            // No server listens there: the request was not sent.
            Err(error) if error.is_connect() => {
                failed("no connection");
                return StoreResult::Refused("not_sent".into());
            }
            Err(error) if error.is_timeout() => return failed("no answer in time"),
            Err(_) => return failed("the connection broke"),
        };
        let (status, retry_after) = (response.status().as_u16(), retry_after(&response));
        let Ok(text) = response.text().await else { return failed("the answer broke off") };
        if status < 300 {
            let answer = serde_json::from_str(&text).unwrap_or_default();
            return read(ask, &answer).map_or_else(
                || StoreResult::Wrong(format!("{status} {text}").into()),
                StoreResult::Done,
            );
        }
        let problem: Value = serde_json::from_str(&text).unwrap_or_default();
        let code = problem["code"].as_str().unwrap_or_default();
        let applied = problem["applied"].as_str().unwrap_or_default();
        failed(&format!("{status} {code}, applied {applied:?}"));
        match (status, applied) {
            (400..500, "no") if REFUSALS.contains(&code) => StoreResult::Refused(code.into()),
            (507, "no") => StoreResult::Refused(code.into()),
            (503, "no") if retry_after => StoreResult::Refused(code.into()),
            (503, "unknown") if retry_after => StoreResult::Unknown,
            _ => StoreResult::Wrong(format!("{} {status} {text}", ask.name()).into()),
        }
    }
}

fn retry_after(response: &Response) -> bool {
    response.headers().contains_key(RETRY_AFTER)
}

/// The answer to what was asked; none if it is not what it must be.
fn read(ask: &Ask, answer: &Value) -> Option<Answer> {
    let text = |field: &Value| Some(Text::from(field.as_str()?));
    let time = |field: &Value| Some(field.as_str()?.parse::<Timestamp>().ok()?.as_millisecond());
    Some(match ask {
        Ask::Put { id: asked, .. } => {
            let id = text(&answer["id"])?;
            // The one that is there already, if that is it.
            let id = asked.clone().filter(|asked| *asked == id).unwrap_or(id);
            Answer::Put { id, due_at: time(&answer["due_at"])? }
        }
        Ask::Pop { .. } => {
            let delivery = |job: &Value| {
                Some(Delivery {
                    id: text(&job["id"])?,
                    body: text(&job["body"])?,
                    attempt: u32::try_from(job["attempt"].as_u64()?).ok()?,
                    reservation: text(&job["reservation"])?,
                    due_at: time(&job["due_at"])?,
                    reserved_until: time(&job["reserved_until"])?,
                    ttr: Duration::try_from_secs_f64(job["ttr"].as_f64()?).ok()?,
                })
            };
            let jobs: Option<_> = answer["jobs"].as_array()?.iter().map(delivery).collect();
            Answer::Popped(jobs?)
        }
        Ask::Finish { .. } => Answer::Finished,
        Ask::Release { .. } => Answer::Released { due_at: time(&answer["due_at"])? },
        Ask::Delete { .. } => Answer::Deleted,
    })
}
