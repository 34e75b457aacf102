//! Answers of a server, and the jobs in them.

use reqwest::{StatusCode, header::HeaderMap};

use crate::api::prelude::*;

#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
    /// Method, path and body of the request, for messages.
    pub request: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// Asserts a problem with this status and code. Returns its JSON.
    #[track_caller]
    pub fn problem(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.status, status, "{}: {}", self.request, self.text);
        assert_eq!(self.headers["content-type"], "application/problem+json");
        let problem = self.json();
        assert_eq!(problem["code"], code, "{problem}");
        assert_eq!(problem["status"], status, "{problem}");
        assert_eq!(problem["request_id"], *self.headers["x-request-id"].to_str().expect("text"));
        for member in ["type", "title", "detail", "applied"] {
            assert!(problem[member].is_string(), "{member} is missing: {problem}");
        }
        problem
    }

    /// Asserts that the request was refused for this field. Returns the problem.
    #[track_caller]
    pub fn invalid(&self, field: &str) -> Value {
        let problem = self.problem(422, "invalid_field");
        assert_eq!(problem["field"], field, "{}: {problem}", self.request);
        problem
    }

    /// Asserts that the store was unavailable, and what is known of the effect.
    #[track_caller]
    pub fn unavailable(&self, applied: &str) {
        let problem = self.problem(503, "store_unavailable");
        assert_eq!(problem["applied"], applied, "{}: {problem}", self.request);
    }

    /// Asserts success with this status. Returns the JSON.
    #[track_caller]
    pub fn ok(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}: {}", self.request, self.text);
        self.json()
    }

    /// Asserts success without a body.
    #[track_caller]
    pub fn is_done(&self) {
        assert_eq!(self.status, 204, "{}: {}", self.request, self.text);
    }

    /// Returns the results of a batch.
    #[track_caller]
    pub fn results(&self) -> Vec<Value> {
        self.ok(200)["results"].as_array().expect("results").clone()
    }

    #[track_caller]
    pub fn jobs(&self) -> Vec<Value> {
        let answer = self.ok(200);
        assert_eq!(self.headers["cache-control"], "no-store");
        answer["jobs"].as_array().expect("jobs").clone()
    }
}

pub fn id_of(job: &Value) -> &str {
    job["id"].as_str().expect("an id")
}

/// Returns the request with which the consumer of a popped job acts on it.
pub fn held(popped: &Value) -> Value {
    json!({"reservation": popped["reservation"]})
}

/// Returns an object with these fields added or replaced.
pub fn with(object: &Value, fields: Value) -> Value {
    let mut object = object.clone();
    object.as_object_mut().expect("an object").extend(fields.as_object().expect("fields").clone());
    object
}

/// Asserts the values of some fields. A missing field is equal to null.
#[track_caller]
pub fn assert_shows(shown: &Value, fields: Value) {
    for (field, expected) in fields.as_object().expect("fields") {
        assert_eq!(shown[field], *expected, "{field}: {shown}");
    }
}

pub fn time(object: &Value, field: &str) -> Timestamp {
    let text = object[field].as_str().unwrap_or_else(|| panic!("no {field}: {object}"));
    text.parse().expect("a time")
}

/// Returns the value of a series, if the metrics contain it.
pub fn value_of(metrics: &str, series: &str) -> Option<f64> {
    let mut lines = metrics.lines().filter_map(|line| line.strip_prefix(series));
    Some(lines.find_map(|rest| rest.strip_prefix(' '))?.parse().expect("a number"))
}

/// Returns the reservation of a popped job.
pub fn reservation_of(job: &Value) -> String {
    job["reservation"].as_str().expect("a reservation").to_owned()
}
