//! Query strings of requests.

use serde::Serialize;
use serde_json::Value;

/// Returns the fields that have a value as a query with `?`, or nothing.
pub fn query(fields: &impl Serialize) -> String {
    let Ok(Value::Object(fields)) = serde_json::to_value(fields) else { return String::new() };
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (name, value) in fields {
        match value {
            Value::Null | Value::Bool(false) => {}
            Value::String(text) => drop(query.append_pair(&name, &text)),
            other => drop(query.append_pair(&name, &other.to_string())),
        }
    }
    match query.finish() {
        query if query.is_empty() => query,
        query => format!("?{query}"),
    }
}
