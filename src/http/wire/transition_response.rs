//! Outcomes of transitions in answers.

use std::fmt::{self, Write};

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use schemars::JsonSchema;
use serde::Serialize;

use super::json;
use crate::{
    http::problem::Problem,
    job::{JobId, State, Topic, UnixMillis},
    store::{Placed, Transitioned},
};

/// Outcome of a transition: the answer to most of them, or the result of one job in a batch (then
/// with the status that the answer would have had).
#[derive(Serialize, JsonSchema)]
pub struct TransitionResponse {
    /// The job's id.
    pub id: JobId,
    /// The job's topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    topic: Option<Topic>,
    /// The job's state now; after a delete, its state before.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<State>,
    /// When the job is due, or its next attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    due_at: Option<UnixMillis>,
    /// When the reservation ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    reserved_until: Option<UnixMillis>,
    /// In a batch: the status that the route for one job would answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
}

impl TransitionResponse {
    fn new(id: JobId) -> Self {
        Self { id, topic: None, state: None, due_at: None, reserved_until: None, status: None }
    }

    pub fn placed(id: JobId, topic: Topic, placed: Placed) -> Self {
        let (state, due_at) = (Some(placed.state), Some(placed.due_at));
        let topic = placed.moved_to.unwrap_or(topic);
        Self { topic: Some(topic), state, due_at, ..Self::new(id) }
    }

    pub fn finished(id: JobId) -> Self {
        Self::new(id)
    }

    pub fn moved(id: JobId, moved: &Transitioned) -> Self {
        Self { due_at: Some(moved.due_at), ..Self::buried(id, moved) }
    }

    /// Shows the topic of a job that has moved: it is not the one that the caller knows.
    pub fn buried(id: JobId, moved: &Transitioned) -> Self {
        let topic = moved.dead_from.as_ref().map(|_| moved.topic.clone());
        Self { topic, ..Self::in_state(id, moved.state) }
    }

    pub fn held_until(id: JobId, until: UnixMillis) -> Self {
        Self { reserved_until: Some(until), ..Self::new(id) }
    }

    pub fn in_state(id: JobId, state: State) -> Self {
        Self { state: Some(state), ..Self::new(id) }
    }

    pub fn with_status(self, status: StatusCode) -> Self {
        Self { status: Some(status.as_u16()), ..self }
    }

    /// Returns the JSON that serde writes, with a newline. It is written directly, since no name,
    /// state or time has a character to escape.
    fn line(&self) -> Result<String, fmt::Error> {
        let mut text = String::with_capacity(192);
        write!(text, "{{\"id\":\"{}", self.id.as_str())?;
        let topic = self.topic.as_ref().map(Topic::as_str);
        for (name, value) in [("topic", topic), ("state", self.state.map(State::name))] {
            if let Some(value) = value {
                text.extend(["\",\"", name, "\":\"", value]);
            }
        }
        for (name, time) in [("due_at", self.due_at), ("reserved_until", self.reserved_until)] {
            if let Some(time) = time {
                write!(text, "\",\"{name}\":\"{time}")?;
            }
        }
        text.push('"');
        if let Some(status) = self.status {
            write!(text, ",\"status\":{status}")?;
        }
        text.push_str("}\n");
        Ok(text)
    }
}

impl IntoResponse for TransitionResponse {
    fn into_response(self) -> Response {
        match self.line() {
            Ok(text) => json::response(text),
            Err(_) => Problem::internal().into_response(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_of_a_transition_is_the_json_of_serde() {
        let id: JobId = "a.b:c_d-9".parse().expect("an id");
        let time = UnixMillis::new(1_893_456_000_001);
        let topic = "t".parse().ok();
        for n in 0..32 {
            let has = |bit: u32| n >> bit & 1 == 1;
            let answer = TransitionResponse {
                id: id.clone(),
                topic: Option::clone(&topic).filter(|_| has(0)),
                state: Some(State::Delayed).filter(|_| has(1)),
                due_at: Some(time).filter(|_| has(2)),
                reserved_until: Some(time).filter(|_| has(3)),
                status: Some(201).filter(|_| has(4)),
            };
            let by_serde = json::line(&answer).expect("JSON");
            assert_eq!(answer.line().expect("text").as_bytes(), by_serde);
        }
    }
}
