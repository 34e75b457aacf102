//! Forbidden combinations of fields, as JSON Schemas for use in `not`.

use serde_json::{Value, json};

/// Matches if both fields are given and not null.
pub fn both(one: &str, other: &str) -> Value {
    let given = json!({ "not": { "type": "null" } });
    json!({ "required": [one, other], "properties": { one: given, other: given } })
}

/// Matches a change of a job that gives both `delay` and `due_at`, or changes nothing.
pub fn both_or_no_change() -> Value {
    let absent = json!({ "type": "null" });
    let nothing = json!({
        "properties": {
            "delay": absent, "due_at": absent, "ttr": absent, "max_attempts": absent, "finished_retention": absent,
            "priority": absent,
        },
        "not": { "anyOf": [
            { "required": ["body"] }, { "required": ["backoff"] }, { "required": ["headers"] },
            { "required": ["expires_after"] },
        ] },
    });
    json!({ "anyOf": [both("delay", "due_at"), nothing] })
}
