//! The lies: changes of forwarded requests and of answers.

use crate::faults::liar::{Decision, Proxy};
use crate::faults::prelude::*;

/// Seconds by which jobs are delivered early.
const EARLY: f64 = 0.05;

impl Proxy {
    /// Decides whether to forward a request, and changes it.
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
            ["jobs", id, "release"] => self.change_release(id, &mut asked),
            ["topics", topic, "pause"] if self.should_lie(Lie::ForgetsPauses, 1) => {
                let told = json!({"topic": topic, "paused": true, "paused_until": null});
                return Decision::Answer(StatusCode::OK, told);
            }
            ["topics", _] if self.should_lie(Lie::ForgetsDeadTo, 1) => {
                let told = json!({"defaults": {"dead_to": asked["dead_to"]}});
                return Decision::Answer(StatusCode::OK, told);
            }
            _ => {}
        }
        Decision::Forward(asked, Vec::new())
    }

    /// Returns the made-up answer if the put is to be lost. Otherwise may change the put.
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
        if let (Some(after), Some(id)) = (put["expires_after"].as_f64(), put["id"].as_str())
            && put["topic"] != "expiring"
            && self.should_lie(Lie::DeliversExpired, 2)
        {
            self.note(id);
            self.memory().lives.insert(id.to_owned(), (after * 1e3).round() as i64);
            put["expires_after"] = Value::Null;
        }
        if delay >= EARLY && put["id"].is_string() && self.should_lie(Lie::Early, 1) {
            put["delay"] = json!(((delay - EARLY) * 1e3).round() / 1e3);
            let id = put["id"].as_str().expect("an id");
            self.note(id);
            self.memory().early.insert(id.to_owned());
        }
        None
    }

    /// Removes a part of a release.
    fn change_release(&self, id: &str, release: &mut Value) {
        for (lie, part) in [(Lie::CountsUncounted, "count_attempt"), (Lie::KeepsBodies, "body")] {
            if release[part] != Value::Null && self.should_lie(lie, 2) {
                release.as_object_mut().expect("an object").remove(part);
                self.note(id);
            }
        }
    }

    pub fn change(&self, path: &str, answer: &mut Value) {
        if path.ends_with("/pop") {
            self.change_popped(path, answer);
            self.show_expiries(answer);
        }
        self.hide_early(answer);
        if self.lie == Lie::LeavesMoved {
            self.leave_moved(path, answer);
        }
    }

    /// Remembers jobs of the topic `dying`, and lets its next consumer have a job that has moved.
    fn leave_moved(&self, path: &str, answer: &mut Value) {
        const POP: &str = "/topics/dying/pop";
        if path == POP {
            let mut memory = self.memory();
            let left = memory.twice.remove(POP);
            let Some(Value::Array(jobs)) = answer.get_mut("jobs") else { return };
            for job in jobs.iter() {
                let id = job["id"].as_str().expect("an id").to_owned();
                memory.dying.insert(id, job.clone());
            }
            jobs.extend(left);
        } else if answer["topic"] == "fallen" && answer["state"] == "ready" {
            let id = path.split('/').nth(2).expect("an id").to_owned();
            let Some(mut job) = self.memory().dying.remove(&id) else { return };
            if self.should_lie(Lie::LeavesMoved, 3) {
                self.note(&id);
                job["attempt"] = json!(job["attempt"].as_u64().expect("a number") + 1);
                let reversed = |text: &str| text.chars().rev().collect::<String>();
                job["reservation"] = json!(job["reservation"].as_str().map(reversed));
                self.memory().twice.insert(POP.to_owned(), job);
            }
        }
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

    /// Adds the expiry to jobs that should have one.
    fn show_expiries(&self, answer: &mut Value) {
        let memory = self.memory();
        for job in answer["jobs"].as_array_mut().into_iter().flatten() {
            let after = job["id"].as_str().and_then(|id| memory.lives.get(id));
            let Some(after) = after else { continue };
            let due_at: Timestamp =
                job["due_at"].as_str().and_then(|time| time.parse().ok()).expect("a time");
            let expires_at = due_at + jiff::SignedDuration::from_millis(*after);
            job["expires_at"] = json!(format!("{expires_at:.3}"));
        }
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
