//! Every route with every method: what it takes, and how it answers.

mod batches;
mod consumers;
mod jobs;
mod server;
mod tokens;
mod topics;

use serde_json::{Value, json};

use super::{operation::Operation, schemas::Schemas};
use crate::{
    http::schema::types,
    job::{JobId, MAX_DURATION, Millis, State, Topic},
};

/// All of them, in the order of their groups.
pub fn all(schemas: &mut Schemas) -> Vec<Operation> {
    let mut all = jobs::operations(schemas);
    all.extend(consumers::operations(schemas));
    all.extend(batches::operations(schemas));
    all.extend(topics::operations(schemas));
    all.extend(tokens::operations(schemas));
    all.extend(server::operations(schemas));
    all
}

impl Operation {
    /// `{id}` in the path.
    fn with_id(self, schemas: &mut Schemas) -> Self {
        let schema = schemas.request::<JobId>();
        self.in_path("id", &schema, "The job's id.", "call:1")
    }

    /// `{topic}` in the path.
    fn with_topic(self, schemas: &mut Schemas) -> Self {
        let schema = schemas.request::<Topic>();
        self.in_path("topic", &schema, "The topic.", "callbacks")
    }

    /// How many of something.
    fn with_limit(self, default: u64, most: u64, text: &str) -> Self {
        let schema =
            json!({ "type": "integer", "minimum": 1, "maximum": most, "default": default });
        self.in_query("limit", false, &schema, text)
    }

    fn with_cursor(self, text: &str) -> Self {
        self.in_query("cursor", false, &json!({ "type": "string" }), text)
    }

    fn with_state(self, schemas: &mut Schemas, required: bool, text: &str) -> Self {
        let schema = schemas.request::<State>();
        self.in_query("state", required, &schema, text)
    }

    fn with_time(self, name: &str, text: &str) -> Self {
        self.in_query(name, false, &types::time_in_query().to_value(), text)
    }

    fn with_duration(self, name: &str, text: &str) -> Self {
        let schema = types::duration_in_query(Millis::ZERO, MAX_DURATION);
        self.in_query(name, false, &schema.to_value(), text)
    }

    /// A body that says nothing, as clients send it that always send one.
    fn may_take_nothing(self) -> Self {
        let nothing: Value = json!({ "type": "object", "additionalProperties": false });
        self.may_take(&nothing, &json!({}))
    }
}

/// The job of the examples.
fn job(state: &str) -> Value {
    json!({
        "id": "call:1", "topic": "callbacks", "state": state, "body": { "shop": 7 }, "attempt": 0,
        "max_attempts": 4, "due_at": "2030-01-31T12:02:00.000Z",
        "created_at": "2030-01-31T12:00:00.000Z", "ttr": 90, "backoff": [120, 600, 3600],
        "reserved_until": null, "died_at": null, "error": null,
    })
}

/// The topic of the examples, as lists have it.
fn topic() -> Value {
    json!({
        "topic": "callbacks", "delayed": 1, "ready": 0, "reserved": 0, "dead": 0, "paused": false, "paused_until": null,
        "next_due_at": "2030-01-31T12:02:00.000Z", "oldest_ready_age": null,
    })
}

/// The counts of the examples.
fn since_start() -> Value {
    json!({ "put": 1, "popped": 0, "finished": 0, "expired": 0, "dead": 0, "gone": 0 })
}
