//! Values of the examples.

use serde_json::{Value, json};

pub const RESERVATION: &str = "5f0c9d1e2b3a4800d2c85fd14a0b9e36";

pub fn job(state: &str) -> Value {
    let mut job = listed_job(state);
    job["history"] = json!([]);
    job
}

pub fn listed_job(state: &str) -> Value {
    json!({
        "id": "call:1", "topic": "callbacks", "state": state, "body": { "shop": 7 }, "attempt": 0,
        "max_attempts": 4, "priority": 7, "finished_retention": 86400,
        "due_at": "2030-01-31T12:02:00.000Z", "expires_after": 172_800,
        "expires_at": "2030-02-02T12:02:00.000Z", "created_at": "2030-01-31T12:00:00.000Z",
        "ttr": 90, "backoff": [120, 600, 3600],
        "reserved_until": null, "died_at": null, "error": null,
    })
}

pub fn topic() -> Value {
    json!({
        "topic": "callbacks", "delayed": 1, "ready": 0, "reserved": 0, "dead": 0, "finished": 0, "paused": false,
        "paused_until": null, "next_due_at": "2030-01-31T12:02:00.000Z", "oldest_ready_age": null,
    })
}

pub fn since_start() -> Value {
    json!({ "put": 1, "popped": 0, "finished": 0, "timed_out": 0, "dead": 0, "moved": 0, "gone": 0 })
}
