//! Requests for many jobs, each with its own result.

use std::time::Duration;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;

use crate::{
    Error, Queue, Refused,
    queue::encode,
    transport::{Answer, parse},
};

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
    let body = encode(&Batch { jobs }, "batch")?;
    let (url, answer) = queue.post_once(&format!("/batch/{verb}"), body).await?;
    results(url, &answer, jobs.len())
}

/// Returns the result of each job of a batch.
///
/// # Errors
///
/// [`Error::Protocol`] if the answer does not have this number of results.
pub(crate) fn results<T: DeserializeOwned>(
    url: String,
    answer: &Answer,
    jobs: usize,
) -> Result<Vec<Result<T, Error>>, Error> {
    let Answers { results } = parse(url.clone(), answer)?;
    if results.len() != jobs {
        let reason = format!("{} results for {jobs} jobs", results.len());
        return Err(Error::Protocol { url, reason });
    }
    Ok(results.iter().map(|result| one(&url, answer.retry_after, result.get())).collect())
}

fn one<T: DeserializeOwned>(
    url: &str,
    retry_after: Option<Duration>,
    result: &str,
) -> Result<T, Error> {
    let mismatch = |error: serde_json::Error| Error::Protocol {
        url: url.to_owned(),
        reason: format!("{error} in {result:?}"),
    };
    let refused: Refused = serde_json::from_str(result).map_err(mismatch)?;
    match refused.status {
        200..300 => serde_json::from_str(result).map_err(mismatch),
        429 | 503 => Err(Error::Refused(Box::new(Refused { retry_after, ..refused }))),
        _ => Err(Error::Refused(Box::new(refused))),
    }
}
