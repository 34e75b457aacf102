//! The lies, each in the requests passed on and in the answers.

use std::time::Duration;

use axum::http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Decision, Lie, Proxy};

/// Seconds by which jobs are delivered early.
const EARLY: f64 = 0.05;

impl Proxy {
    /// Decides whether a request is passed on, and changes it.
    pub fn request(&self, path: &str, mut asked: Value) -> Decision {
        match path.split('/').collect::<Vec<_>>()[1..] {
            ["jobs"] => {
                if let Some(told) = self.put(&mut asked) {
                    return Decision::Answer(StatusCode::CREATED, told);
                }
            }
            ["batch", "jobs"] => return batch(asked, 201, |job| self.put(job)),
            ["batch", "finish"] => {
                let forget = |job: &mut Value| {
                    let forgets = self.should_lie(Lie::ForgetsFinishes, 20);
                    forgets.then(|| {
                        self.note(job["id"].as_str().expect("an id"));
                        json!({"id": job["id"]})
                    })
                };
                return batch(asked, 204, forget);
            }
            ["jobs", id, "finish"] if self.should_lie(Lie::ForgetsFinishes, 20) => {
                self.note(id);
                return Decision::Answer(StatusCode::NO_CONTENT, Value::Null);
            }
            ["topics", topic, "pause"] if self.should_lie(Lie::ForgetsPauses, 1) => {
                let told = json!({"topic": topic, "paused": true, "paused_until": null});
                return Decision::Answer(StatusCode::OK, told);
            }
            _ => {}
        }
        Decision::Forward(asked, Vec::new())
    }

    /// Returns the made-up answer to a put that is lost; otherwise may change the put.
    fn put(&self, put: &mut Value) -> Option<Value> {
        let delay = put["delay"].as_f64().unwrap_or_default();
        if self.should_lie(Lie::LosesJobs, 1000) {
            let made = || format!("46116860184273{}", 10_000 + self.lie_count());
            let id = put["id"].as_str().map_or_else(made, str::to_owned);
            self.note(&id);
            #[expect(clippy::disallowed_methods, reason = "it makes its answer up")]
            let due_at = Timestamp::now() + Duration::from_secs_f64(delay);
            let state = if delay > 0.0 { "delayed" } else { "ready" };
            return Some(json!({"id": id, "topic": put["topic"], "state": state,
                "due_at": format!("{due_at:.3}")}));
        }
        if delay >= EARLY && put["id"].is_string() && self.should_lie(Lie::Early, 1) {
            put["delay"] = json!(((delay - EARLY) * 1e3).round() / 1e3);
            let id = put["id"].as_str().expect("an id");
            self.note(id);
            self.memory().early.insert(id.to_owned());
        }
        None
    }

    pub fn change(&self, path: &str, answer: &mut Value) {
        if path.ends_with("/pop") {
            self.change_popped(path, answer);
        }
        self.hide_early(answer);
    }

    fn change_popped(&self, path: &str, answer: &mut Value) {
        let Some(Value::Array(jobs)) = answer.get_mut("jobs") else { return };
        for job in jobs.iter_mut() {
            if self.should_lie(Lie::MiscountsAttempts, 20) {
                self.note(job["id"].as_str().expect("an id"));
                job["attempt"] = json!(job["attempt"].as_u64().expect("a number") + 1);
            }
        }
        if self.lie != Lie::TwoHolders {
            return;
        }
        let given = self.memory().twice.remove(path);
        if let Some(job) = jobs.first().filter(|_| given.is_none()).cloned()
            && self.should_lie(Lie::TwoHolders, 10)
        {
            self.note(job["id"].as_str().expect("an id"));
            self.memory().twice.insert(path.to_owned(), job);
        }
        jobs.extend(given);
    }

    /// Changes the times of early jobs to the times that clients expect.
    fn hide_early(&self, answer: &mut Value) {
        if self.lie != Lie::Early {
            return;
        }
        let memory = self.memory();
        let later = |job: &mut Value| {
            if !job["id"].as_str().is_some_and(|id| memory.early.contains(id)) {
                return;
            }
            for field in ["due_at", "reserved_until"] {
                let Some(time) = job[field].as_str().map(str::to_owned) else { continue };
                let time: Timestamp = time.parse().expect("a time");
                let told = time + Duration::from_secs_f64(EARLY);
                job[field] = json!(format!("{told:.3}"));
            }
        };
        for list in ["jobs", "results"] {
            let jobs = answer.get_mut(list).and_then(Value::as_array_mut);
            jobs.into_iter().flatten().for_each(later);
        }
        if answer["id"].is_string() {
            later(answer);
        }
    }
}

/// Returns the batch without the items that `made_up` answers.
fn batch(
    mut asked: Value,
    status: u16,
    made_up: impl FnMut(&mut Value) -> Option<Value>,
) -> Decision {
    let jobs = asked["jobs"].as_array_mut().expect("jobs");
    let mut told: Vec<Option<Value>> = jobs.iter_mut().map(made_up).collect();
    for told in told.iter_mut().flatten() {
        told["status"] = json!(status);
    }
    let mut each = told.iter();
    jobs.retain(|_| each.next().expect("as many").is_none());
    if jobs.is_empty() {
        return Decision::Answer(StatusCode::OK, json!({"results": told}));
    }
    Decision::Forward(asked, told)
}
