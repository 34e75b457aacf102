//! Routes of the fake: the requests that this crate sends.

use std::{
    collections::HashSet,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use percent_encoding::percent_decode_str;
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use tokio::sync::Notify;

use super::{
    jobs::{self, Jobs, name},
    put::{Call, Problem, parse},
};
use crate::{
    TopicSettings,
    job::Popped,
    transport::{Answer, Request},
    worker::Verb,
};

#[derive(Debug)]
pub(crate) struct Server {
    jobs: Mutex<Jobs>,
    /// Wakes waiting calls after each change.
    changed: Notify,
}

#[derive(Deserialize)]
struct Batch {
    jobs: Vec<Box<RawValue>>,
}

impl Server {
    pub(super) fn new(now: SystemTime) -> Self {
        Server { jobs: Mutex::new(Jobs::new(now)), changed: Notify::new() }
    }

    fn jobs(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> SystemTime {
        self.jobs().now
    }

    pub(super) fn advance(&self, duration: Duration) {
        let mut jobs = self.jobs();
        jobs.now += duration;
        jobs.settle();
        drop(jobs);
        self.changed.notify_waiters();
    }

    pub(super) fn pop_next(&self, topics: &[&str], without: &HashSet<String>) -> Option<Popped> {
        self.jobs().pop_next(topics, without)
    }

    /// Answers a request. A pop that waits ends with the first job, as the clock does not move by
    /// itself; a get does not wait.
    pub(crate) async fn answer(&self, request: Request) -> Answer {
        let waits = request.path.contains("/pop?") && !request.path.contains("wait=0ms");
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let (status, json) = match self.route(&request) {
                Ok(answer) => answer,
                Err(problem) => (problem.status, problem.json),
            };
            if !waits || json != json!({"jobs": []}) {
                self.changed.notify_waiters();
                return Answer { status, retry_after: None, body: json.to_string().into_bytes() };
            }
            changed.await;
        }
    }

    fn route(&self, request: &Request) -> jobs::Answer {
        let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
        let parts: Vec<String> = path
            .split('/')
            .skip(1)
            .map(|part| percent_decode_str(part).decode_utf8_lossy().into_owned())
            .collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let parameter = |wanted: &str| {
            query.split('&').filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == wanted)
        };
        let body = request.body.as_deref().unwrap_or_default();
        let mut jobs = self.jobs();
        match (&request.method, parts.as_slice()) {
            (&Method::POST, ["jobs"]) => jobs.put(parse(body)?),
            (&Method::POST, ["batch", verb]) => batch(&mut jobs, verb, &parse::<Batch>(body)?),
            (&Method::GET, ["jobs", id]) => jobs.get(id),
            (&Method::DELETE, ["jobs", id]) => {
                let states =
                    parameter("state").map_or(vec![], |(_, list)| list.split(',').collect());
                jobs.delete(id, &states)
            }
            (&Method::POST, ["jobs", id, "touch"]) => {
                jobs.touch(&Call { id: (*id).to_owned(), ..parse(body)? })
            }
            (&Method::GET, ["topics", topics, "pop"]) => {
                let count = parameter("count").and_then(|(_, count)| count.parse().ok());
                let topics: Vec<&str> = topics.split(',').collect();
                let next = || jobs.pop(&topics, &HashSet::new(), true);
                let popped: Vec<Value> =
                    std::iter::from_fn(next).take(count.unwrap_or(1)).collect();
                Ok((200, json!({"jobs": popped})))
            }
            (&Method::GET, ["topics", topic]) => Ok((200, shown(&jobs, topic))),
            (&Method::PUT, ["topics", topic]) => {
                jobs.settings.insert((*topic).to_owned(), parse::<TopicSettings>(body)?);
                Ok((200, shown(&jobs, topic)))
            }
            _ => Err(Problem::new(404, "route_not_found", format!("the fake has no {path}"))),
        }
    }
}

fn batch(jobs: &mut Jobs, verb: &str, batch: &Batch) -> jobs::Answer {
    let verb = [Verb::Finish, Verb::Release, Verb::Bury].into_iter().find(|v| v.name() == verb);
    let results = batch.jobs.iter().map(|json| {
        let json = json.get().as_bytes();
        let answer = match verb {
            Some(verb) => parse(json).and_then(|call| jobs.end(verb, call)),
            None => parse(json).and_then(|put| jobs.put(put)),
        };
        match answer {
            Ok((status, mut result)) => {
                result["status"] = json!(status);
                result
            }
            Err(problem) => problem.json,
        }
    });
    let results: Vec<Value> = results.collect();
    Ok((200, json!({"results": results})))
}

fn shown(jobs: &Jobs, topic: &str) -> Value {
    let mut shown = json!({
        "topic": topic, "delayed": 0, "ready": 0, "reserved": 0, "dead": 0, "finished": 0,
        "paused": false, "defaults": jobs.settings.get(topic).cloned().unwrap_or_default(),
    });
    for job in jobs.jobs.values().filter(|job| job.put.topic == topic) {
        let state = name(job.state(jobs.now));
        shown[state] = json!(shown[state].as_u64().unwrap_or_default() + 1);
    }
    shown
}
