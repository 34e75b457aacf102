//! One job of the fake and its transitions.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json, value::RawValue};

use super::put::Put;
use crate::{
    Backoff, State, TopicSettings,
    value::{
        millis::Seconds,
        time::{self},
    },
};

const TTR: Duration = Duration::from_secs(60);
const MAX_ATTEMPTS: u32 = 20;
const PRIORITY: u8 = 4;
const DEAD_RETENTION: Duration = Duration::from_secs(14 * 86_400);

#[derive(Debug)]
pub(super) struct Job {
    pub(super) put: Put,
    pub(super) state: Held,
    /// Order of the puts, for jobs that are due at the same time.
    pub(super) number: u64,
    pub(super) attempt: u32,
    pub(super) due_at: SystemTime,
    created_at: SystemTime,
    expires_at: Option<SystemTime>,
    pub(super) ttr: Duration,
    max_attempts: u32,
    pub(super) priority: u8,
    pub(super) finished_retention: Duration,
    dead_retention: Duration,
    dead_to: Option<String>,
    dead_from: Option<String>,
    error: Option<String>,
    /// Reservation of the last pop, which stays valid after its TTR until the next one.
    pub(super) reservation: Option<String>,
}

/// State of a job, with what only that state has.
#[derive(Debug)]
pub(super) enum Held {
    /// Delayed until `due_at`, then ready.
    Waiting,
    Reserved {
        until: SystemTime,
    },
    Dead {
        at: SystemTime,
    },
    Finished {
        at: SystemTime,
        result: Option<Box<RawValue>>,
    },
}

impl Job {
    pub(super) fn new(put: Put, settings: &TopicSettings, now: SystemTime, number: u64) -> Self {
        let backoff = put.backoff.clone().or_else(|| settings.backoff.clone());
        let attempts_of_list = match &backoff {
            Some(Backoff::List(list)) => u32::try_from(list.len()).ok().map(|waits| waits + 1),
            _ => None,
        };
        let due_at = match (put.delay, put.due_at) {
            (Some(delay), _) => now + delay,
            (None, due_at) => due_at.unwrap_or(now).max(now),
        };
        let max_attempts = put.max_attempts.or(settings.max_attempts).or(attempts_of_list);
        let expires_after = put.expires_after.or(settings.expires_after);
        let retention = put.finished_retention.or(settings.finished_retention);
        Job {
            number,
            due_at,
            state: Held::Waiting,
            attempt: 0,
            created_at: now,
            expires_at: expires_after.map(|after| due_at + after),
            ttr: put.ttr.or(settings.ttr).unwrap_or(TTR),
            max_attempts: max_attempts.unwrap_or(MAX_ATTEMPTS),
            priority: put.priority.or(settings.priority).unwrap_or(PRIORITY),
            finished_retention: retention.unwrap_or_default(),
            dead_retention: settings.dead_retention.unwrap_or(DEAD_RETENTION),
            dead_to: settings.dead_to.clone(),
            dead_from: None,
            error: None,
            reservation: None,
            put: Put { backoff, ..put },
        }
    }

    pub(super) fn state(&self, now: SystemTime) -> State {
        match self.state {
            Held::Waiting if self.due_at > now => State::Delayed,
            Held::Waiting => State::Ready,
            Held::Reserved { .. } => State::Reserved,
            Held::Dead { .. } => State::Dead,
            Held::Finished { .. } => State::Finished,
        }
    }

    /// Applies the deadlines that have passed. Returns false if the job is gone.
    pub(super) fn settle(&mut self, now: SystemTime) -> bool {
        if let Held::Reserved { until } = self.state
            && until <= now
        {
            self.end_attempt(until, None, true);
        }
        if let (Held::Waiting, Some(expires_at)) = (&self.state, self.expires_at)
            && expires_at <= now
        {
            self.error = Some("expired".to_owned());
            self.die(expires_at);
        }
        match self.state {
            Held::Dead { at } => at + self.dead_retention > now,
            Held::Finished { at, .. } => at + self.finished_retention > now,
            _ => true,
        }
    }

    pub(super) fn reserve(&mut self, now: SystemTime, reservation: String) {
        self.attempt += 1;
        self.state = Held::Reserved { until: now + self.ttr };
        self.reservation = Some(reservation);
    }

    /// Ends an attempt that did not finish the job.
    pub(super) fn end_attempt(&mut self, at: SystemTime, delay: Option<Duration>, counts: bool) {
        if !counts {
            self.attempt = self.attempt.saturating_sub(1);
        }
        let due_at = at + delay.unwrap_or_else(|| self.backoff());
        if counts && self.max_attempts > 0 && self.attempt >= self.max_attempts {
            self.die(at);
        } else if self.expires_at.is_some_and(|expires_at| expires_at <= due_at) {
            self.error = Some("expired".to_owned());
            self.die(at);
        } else {
            (self.state, self.due_at) = (Held::Waiting, due_at);
        }
    }

    pub(super) fn fail(&mut self, error: Option<String>) {
        self.error = error;
    }

    pub(super) fn die(&mut self, at: SystemTime) {
        match self.dead_to.take() {
            None => self.state = Held::Dead { at },
            Some(topic) => {
                self.dead_from = Some(std::mem::replace(&mut self.put.topic, topic));
                (self.state, self.due_at) = (Held::Waiting, at);
                (self.attempt, self.expires_at, self.reservation) = (0, None, None);
            }
        }
    }

    /// Returns the wait after the attempts so far.
    fn backoff(&self) -> Duration {
        let Some(last) = self.attempt.checked_sub(1) else { return Duration::ZERO };
        match &self.put.backoff {
            None => Duration::ZERO,
            Some(Backoff::List(list)) => {
                list.get(last as usize).or(list.last()).copied().unwrap_or_default()
            }
            Some(Backoff::Exponential { initial, factor, max, .. }) => {
                let seconds = initial.as_secs_f64() * factor.powf(f64::from(last));
                Duration::try_from_secs_f64(seconds).map_or(*max, |wait| wait.min(*max))
            }
        }
    }

    /// Returns the job as a GET shows it.
    pub(super) fn json(&self, now: SystemTime) -> Value {
        let mut job = self.popped();
        job["state"] = json!(self.state(now));
        job["backoff"] = json!(self.put.backoff);
        job["error"] = json!(self.error);
        match &self.state {
            Held::Reserved { until } => job["reserved_until"] = text(*until),
            Held::Dead { at } => job["died_at"] = text(*at),
            Held::Finished { at, result } => {
                job["finished_at"] = text(*at);
                job["body"] = Value::Null;
                job["result"] = json!(result);
            }
            Held::Waiting => {}
        }
        if self.finished_retention > Duration::ZERO {
            job["finished_retention"] = json!(Seconds(self.finished_retention));
        }
        job
    }

    /// Returns the job as a pop shows it.
    pub(super) fn popped(&self) -> Value {
        let Put { id, topic, body, traceparent, headers, .. } = &self.put;
        json!({
            "id": id, "topic": topic, "body": body, "attempt": self.attempt,
            "max_attempts": self.max_attempts, "due_at": text(self.due_at),
            "created_at": text(self.created_at), "ttr": Seconds(self.ttr),
            "priority": self.priority, "traceparent": traceparent, "headers": headers,
            "dead_from": self.dead_from, "expires_at": self.expires_at.map(text),
            "reservation": self.reservation,
        })
    }
}

pub(super) fn text(time: SystemTime) -> Value {
    // Fails beyond the year 9999, which no put reaches.
    json!(time::text(time).unwrap_or_default())
}
