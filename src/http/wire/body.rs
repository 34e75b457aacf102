//! Checks the bodies and results of jobs (`job/json.rs`).

use axum::body::Bytes;
use serde_json::value::RawValue;

use crate::{
    config::Limits,
    http::problem::{Code, Problem},
    job::{MAX_RESULT_BYTES, check_json, json_pointer},
};

/// Checks a body and returns it as a slice of `content`, the request that contains it.
pub fn body(
    raw: Option<&RawValue>,
    content: &Bytes,
    limits: Limits,
) -> Result<Option<Bytes>, Problem> {
    let Some(raw) = raw else { return Ok(None) };
    check_body(raw, limits)?;
    Ok(Some(content.slice_ref(raw.get().as_bytes())))
}

/// Checks the body that a release gives to its job.
pub fn new_body(raw: Option<Box<RawValue>>, limits: Limits) -> Result<Option<Bytes>, Problem> {
    let Some(raw) = raw else { return Ok(None) };
    check_body(&raw, limits)?;
    Ok(Some(Box::<str>::from(raw).into_string().into()))
}

/// Checks a body.
pub fn check_body(raw: &RawValue, limits: Limits) -> Result<(), Problem> {
    let (length, limit) = (raw.get().len(), limits.max_body_bytes);
    if length > limit {
        let detail =
            format!("`body` must have at most {limit} bytes (limits.max_body_bytes), got {length}");
        return Err(Problem { field: Some("body".to_owned()), ..Problem::body_too_large(detail) });
    }
    check_field("body", raw)
}

/// Checks the result of a job, which its readers must be able to read too.
pub fn result(raw: Option<Box<RawValue>>) -> Result<Option<Bytes>, Problem> {
    let Some(raw) = raw else { return Ok(None) };
    let length = raw.get().len();
    if length > MAX_RESULT_BYTES {
        let detail = format!("`result` must have at most {MAX_RESULT_BYTES} bytes, got {length}");
        let problem = Problem::new(Code::ResultTooLarge, detail);
        return Err(Problem { field: Some("result".to_owned()), ..problem });
    }
    check_field("result", &raw)?;
    Ok(Some(Box::<str>::from(raw).into_string().into()))
}

fn check_field(field: &str, raw: &RawValue) -> Result<(), Problem> {
    check_json(raw.get()).map_err(|fault| {
        let place = json_pointer(raw.get(), fault.at);
        let detail = format!("{} (at {place:?}, byte {})", fault.violation, fault.at);
        Problem::field(field, detail)
    })
}
