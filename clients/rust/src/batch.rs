//! Requests for many jobs, each with its own result.

use std::time::Duration;

use reqwest::Method;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;

use crate::{Error, Queue, Refused, queue::encode};

/// Jobs of one request.
pub(crate) const MAX_JOBS: usize = 1_000;
/// Bytes of one request: half of what the server takes by default.
pub(crate) const MAX_BYTES: usize = 4 << 20;

#[derive(Serialize)]
struct Batch<'a, J> {
    jobs: &'a [J],
}

#[derive(Deserialize)]
struct Answers {
    results: Vec<Box<RawValue>>,
}

/// Sends a request for these jobs once.
///
/// # Errors
///
/// The error that concerns all of them.
pub(crate) async fn send<J: Serialize, T: DeserializeOwned>(
    queue: &Queue,
    verb: &str,
    jobs: &[J],
) -> Result<Vec<Result<T, Error>>, Error> {
    let path = format!("/batch/{verb}");
    let body = encode(&Batch { jobs }, "batch")?;
    let answers: Answers = queue.call_once(Method::POST, &path, Some(body), Duration::ZERO).await?;
    if answers.results.len() != jobs.len() {
        let reason = format!("{} results for {} jobs", answers.results.len(), jobs.len());
        return Err(Error::Protocol { url: path, reason });
    }
    Ok(answers.results.iter().map(|result| one(&path, result.get())).collect())
}

fn one<T: DeserializeOwned>(path: &str, result: &str) -> Result<T, Error> {
    let mismatch = |error: serde_json::Error| Error::Protocol {
        url: path.to_owned(),
        reason: format!("{error} in {result:?}"),
    };
    let refused: Refused = serde_json::from_str(result).map_err(mismatch)?;
    match refused.status {
        200..300 => serde_json::from_str(result).map_err(mismatch),
        _ => Err(Error::Refused(Box::new(refused))),
    }
}
