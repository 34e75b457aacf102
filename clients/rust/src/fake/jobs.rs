//! All jobs of the fake, and the calls that change them.

use std::{
    collections::{BTreeMap, HashSet},
    time::SystemTime,
};

use serde_json::{Value, json};

use super::{
    job::{Held, Job, text},
    put::{Call, Problem, Put},
};
use crate::{OnConflict, State, TopicSettings, job::Popped, worker::Verb};

/// Longest result of a job, in bytes.
const MAX_RESULT: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Jobs {
    pub(super) now: SystemTime,
    pub(super) jobs: BTreeMap<String, Job>,
    pub(super) settings: BTreeMap<String, TopicSettings>,
    numbers: u64,
}

pub(super) type Answer = Result<(u16, Value), Problem>;

impl Jobs {
    pub(super) fn new(now: SystemTime) -> Self {
        Jobs { now, jobs: BTreeMap::new(), settings: BTreeMap::new(), numbers: 0 }
    }

    /// Applies the deadlines that have passed.
    pub(super) fn settle(&mut self) {
        let now = self.now;
        self.jobs.retain(|_, job| job.settle(now));
    }

    pub(super) fn put(&mut self, put: Put) -> Answer {
        put.check()?;
        let now = self.now;
        let mut status = 201;
        if let Some(job) = self.jobs.get(&put.id) {
            let state = job.state(now);
            let is_same = job.put.topic == put.topic;
            match put.on_conflict {
                Some(OnConflict::Keep) if is_same => return Ok((200, answer(job, now))),
                Some(OnConflict::Replace) if is_same => {
                    if state == State::Reserved {
                        return Err(Problem::new(409, "job_reserved", "a consumer holds the job"));
                    }
                    status = if state == State::Finished { 201 } else { 200 };
                }
                _ => {
                    let problem = Problem::new(409, "job_exists", "a job has this `id` already");
                    return Err(problem.with(name(state), &job.put.topic));
                }
            }
        }
        self.numbers += 1;
        let default = TopicSettings::default();
        let settings = self.settings.get(&put.topic).unwrap_or(&default);
        let job = Job::new(put, settings, now, self.numbers);
        let answer = answer(&job, now);
        self.jobs.insert(job.put.id.clone(), job);
        Ok((status, answer))
    }

    pub(super) fn get(&self, id: &str) -> Answer {
        let job = self.jobs.get(id).ok_or_else(|| Problem::absent(id))?;
        Ok((200, job.json(self.now)))
    }

    /// Deletes a job in one of these states; in any, if there are none.
    pub(super) fn delete(&mut self, id: &str, states: &[&str]) -> Answer {
        let job = self.jobs.get(id).ok_or_else(|| Problem::absent(id))?;
        let state = name(job.state(self.now));
        if !states.is_empty() && !states.contains(&state) {
            let problem = Problem::new(409, "wrong_state", format!("the job is {state}"));
            return Err(problem.with(state, &job.put.topic));
        }
        self.jobs.remove(id);
        Ok((200, json!({"id": id, "state": state})))
    }

    /// Reserves the next ready job of these topics, earlier topics first if their order counts.
    pub(super) fn pop(
        &mut self,
        topics: &[&str],
        without: &HashSet<String>,
        in_order: bool,
    ) -> Option<Value> {
        let now = self.now;
        let place = |job: &Job| topics.iter().position(|topic| *topic == job.put.topic);
        let job = self
            .jobs
            .values_mut()
            .filter(|job| job.state(now) == State::Ready && !without.contains(&job.put.id))
            .filter(|job| place(job).is_some())
            .min_by_key(|job| {
                let place = if in_order { place(job) } else { None };
                (place, u8::MAX - job.priority, job.due_at, job.number)
            })?;
        job.reserve(now, format!("{:016x}", rand::random::<u64>()));
        let until = text(now + job.ttr);
        let mut popped = job.popped();
        popped["reserved_until"] = until;
        Some(popped)
    }

    pub(super) fn pop_next(
        &mut self,
        topics: &[&str],
        without: &HashSet<String>,
    ) -> Option<Popped> {
        let job = self.pop(topics, without, false)?;
        Some(serde_json::from_str(&job.to_string()).expect("the fake answers as the server"))
    }

    pub(super) fn touch(&mut self, call: &Call) -> Answer {
        let now = self.now;
        let job = self.held(call)?;
        match &mut job.state {
            Held::Reserved { until } => {
                *until = now + job.ttr;
                Ok((200, json!({"id": call.id, "reserved_until": text(*until)})))
            }
            _ => Err(Problem::new(409, "reservation_lost", "the TTR has ended")),
        }
    }

    pub(super) fn end(&mut self, verb: Verb, call: Call) -> Answer {
        let now = self.now;
        let job = self.held(&call)?;
        match verb {
            Verb::Finish => return self.finish(call),
            Verb::Release => {
                job.fail(call.error);
                job.end_attempt(now, call.delay, call.count_attempt != Some(false));
            }
            Verb::Bury => {
                job.fail(call.error);
                job.die(now);
            }
        }
        Ok((200, answer(job, now)))
    }

    fn finish(&mut self, call: Call) -> Answer {
        let now = self.now;
        let job = self.held(&call)?;
        let length = call.result.as_ref().map_or(0, |result| result.get().len());
        if length > MAX_RESULT {
            return Err(Problem::new(413, "result_too_large", "the result has more than 64 KiB"));
        }
        if job.finished_retention.is_zero() {
            if length > 0 {
                let detail = "the job has no `finished_retention`, so its result is not kept";
                return Err(Problem::new(422, "result_not_kept", detail));
            }
            self.jobs.remove(&call.id);
        } else {
            job.state = Held::Finished { at: now, result: call.result };
        }
        Ok((204, json!({"id": call.id})))
    }

    /// Returns the job whose last reservation this is.
    fn held(&mut self, call: &Call) -> Result<&mut Job, Problem> {
        let job = self.jobs.get_mut(&call.id).ok_or_else(|| Problem::absent(&call.id))?;
        if matches!(job.state, Held::Finished { .. }) {
            return Err(Problem::new(409, "job_finished", "the job is finished"));
        }
        if job.reservation.as_ref() != Some(&call.reservation) {
            return Err(Problem::new(
                409,
                "reservation_lost",
                "the reservation is not the current one",
            ));
        }
        Ok(job)
    }
}

fn answer(job: &Job, now: SystemTime) -> Value {
    json!({
        "id": job.put.id, "topic": job.put.topic, "state": job.state(now),
        "due_at": text(job.due_at),
    })
}

pub(super) fn name(state: State) -> &'static str {
    match state {
        State::Delayed => "delayed",
        State::Ready => "ready",
        State::Reserved => "reserved",
        State::Dead => "dead",
        State::Finished => "finished",
        State::Unknown => "unknown",
    }
}
