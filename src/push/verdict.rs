//! Verdicts: how the answer of an endpoint decides about each job of a request.

use std::time::Duration;

use bytes::Bytes;
use guarded_client::{Answer, Failure};
use http::{HeaderMap, StatusCode, header::RETRY_AFTER};
use jiff::fmt::rfc2822;
use serde_json::value::RawValue;

use super::{
    report::{JobResult, Report},
    target::Health,
};
use crate::job::{JobId, MAX_RESULT_BYTES, Millis, UnixMillis, beginning, check_json};

/// Maximum size of the part of an answer that a job's error repeats.
const MAX_QUOTE_BYTES: usize = 1 << 10;
const SHORTEST_PAUSE: Millis = Millis::new(1_000);
const LONGEST_PAUSE: Millis = Millis::new(86_400_000);

/// Next transition of a job after its request.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// The endpoint accepted the job: it is finished, with this JSON text as its result if one is
    /// kept.
    Accepted(Option<Bytes>),
    /// The endpoint will never accept the job: it is buried.
    Refused(String),
    /// The endpoint cannot take the job now: it is released, and the attempt does not count.
    Later {
        /// Time that the answer asks to wait; by default that of the gate.
        after: Option<Millis>,
        /// Reason.
        error: String,
    },
    /// The attempt failed and counts.
    Failed(String),
}

impl Verdict {
    /// Returns whether the endpoint cannot take the job now.
    pub fn is_later(&self) -> bool {
        matches!(self, Self::Later { .. })
    }

    /// Returns the reason why the job was not accepted.
    fn error(&self) -> Option<&str> {
        match self {
            Self::Accepted(_) => None,
            Self::Refused(error) | Self::Later { error, .. } | Self::Failed(error) => Some(error),
        }
    }
}

/// Verdicts of all jobs of a request.
#[derive(Debug)]
pub struct Judged {
    /// Verdict of each job, in the order of the request.
    pub verdicts: Vec<Verdict>,
    /// How the endpoint is.
    pub health: Health,
    /// Status of the answer; `None` without an answer.
    pub status: Option<u16>,
}

impl Judged {
    /// Returns the index and the error of the first job that was not accepted.
    pub fn failure(&self) -> Option<(usize, &str)> {
        self.verdicts.iter().enumerate().find_map(|(index, one)| Some((index, one.error()?)))
    }

    /// Judges the answer to the request of one job.
    pub fn of_one(answer: Result<Answer, Failure>, now: UnixMillis) -> Self {
        Self::new(answer, 1, now, |answer| vec![Verdict::Accepted(result(answer))])
    }

    /// Judges the answer to the request of a batch.
    pub fn of_batch(answer: Result<Answer, Failure>, ids: &[&JobId], now: UnixMillis) -> Self {
        Self::new(answer, ids.len(), now, |answer| by_job(answer, ids, now))
    }

    fn new(
        answer: Result<Answer, Failure>,
        count: usize,
        now: UnixMillis,
        accepted: impl FnOnce(&Answer) -> Vec<Verdict>,
    ) -> Self {
        let (verdict, health, status) = match answer {
            Ok(answer) if answer.status.is_success() => {
                let (verdicts, status) = (accepted(&answer), Some(answer.status.as_u16()));
                let is_busy = verdicts.iter().all(Verdict::is_later);
                let health = if is_busy { Health::Busy } else { Health::Available };
                return Self { verdicts, health, status };
            }
            Ok(answer) => {
                let error = described(answer.status, quote(&answer).as_deref());
                let after = retry_after(&answer.headers, now);
                let verdict = of_status(answer.status, after, error);
                let is_unavailable = is_unavailable(answer.status);
                let health = if is_unavailable { Health::Busy } else { Health::Available };
                (verdict, health, Some(answer.status.as_u16()))
            }
            Err(Failure::NotSent(error)) => {
                (Verdict::Later { after: None, error }, Health::Unreachable, None)
            }
            Err(Failure::TimedOut(error)) => (Verdict::Failed(error), Health::Busy, None),
            Err(Failure::Lost(error) | Failure::Compressed(error)) => {
                (Verdict::Failed(error), Health::Unknown, None)
            }
        };
        Self { verdicts: vec![verdict; count], health, status }
    }
}

/// Statuses of a target that cannot take requests now.
fn is_unavailable(status: StatusCode) -> bool {
    matches!(status.as_u16(), 429 | 502 | 503 | 504)
}

/// Returns the verdict of a status that is not a success.
fn of_status(status: StatusCode, after: Option<Millis>, error: String) -> Verdict {
    match status {
        StatusCode::GONE => Verdict::Refused(error),
        status if is_unavailable(status) => Verdict::Later { after, error },
        _ => Verdict::Failed(error),
    }
}

fn described(status: StatusCode, detail: Option<&str>) -> String {
    let status = format!("the endpoint answered {status}");
    detail.map_or(status.clone(), |detail| format!("{status}: {detail}"))
}

/// Returns the beginning of the answer, unless the endpoint has an address that is not public: a
/// push must not show what only the server can read.
pub fn quote(answer: &Answer) -> Option<String> {
    let start = &answer.body[..answer.body.len().min(MAX_QUOTE_BYTES)];
    let text =
        String::from_utf8_lossy(start).trim_end_matches(char::REPLACEMENT_CHARACTER).to_owned();
    Some(text).filter(|text| answer.is_public && !text.is_empty())
}

/// Returns the wait that an answer asks for, from a second to a day: a number of seconds, or a date
/// (RFC 9110, section 10.2.3).
fn retry_after(headers: &HeaderMap, now: UnixMillis) -> Option<Millis> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = match text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => {
            let seconds: u64 = text.parse().unwrap_or(LONGEST_PAUSE.get());
            Millis::new(seconds.saturating_mul(1_000))
        }
        false => {
            let date = rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
            UnixMillis::new(u64::try_from(date.as_millisecond()).ok()?).since(now)
        }
    };
    Some(wait.clamp(SHORTEST_PAUSE, LONGEST_PAUSE)).filter(|_| !text.is_empty())
}

/// Returns the result in an answer: its body, if it is JSON that readers of the job accept, and the
/// endpoint has a public address.
fn result(answer: &Answer) -> Option<Bytes> {
    let body = Some(&answer.body).filter(|_| answer.is_whole && answer.is_public)?;
    let json: &RawValue = serde_json::from_slice(body).ok()?;
    let text = json.get();
    let is_kept = text != "null" && text.len() <= MAX_RESULT_BYTES && check_json(text).is_ok();
    is_kept.then(|| body.slice_ref(text.as_bytes()))
}

/// Returns the verdict of each job of a batch from a successful answer: from its report, or one for
/// all jobs if it has none.
fn by_job(answer: &Answer, ids: &[&JobId], now: UnixMillis) -> Vec<Verdict> {
    let mut results = match Report::read(answer) {
        Report::Absent => return vec![Verdict::Accepted(None); ids.len()],
        Report::Unusable(error) => return vec![Verdict::Failed(error); ids.len()],
        Report::Results(results) => results,
    };
    let after = retry_after(&answer.headers, now);
    let verdict = |id: &&JobId| match results.remove(*id) {
        Some(result) => of_result(result, after, answer.is_public),
        None => Verdict::Failed("the answer has no result of this job".to_owned()),
    };
    ids.iter().map(verdict).collect()
}

fn of_result(
    JobResult { status, error, .. }: JobResult,
    after: Option<Millis>,
    is_public: bool,
) -> Verdict {
    let Ok(status) = StatusCode::from_u16(status) else {
        return Verdict::Failed(format!("the answer has the status {status} for this job"));
    };
    if status.is_success() {
        return Verdict::Accepted(None);
    }
    let detail = error.filter(|_| is_public);
    let detail = detail.as_deref().map(|detail| beginning(detail, MAX_QUOTE_BYTES));
    of_status(status, after, described(status, detail))
}

/// Returns the maximum size of an answer that is read: 64 KiB, and 2 KiB for each job of a batch,
/// which is enough for its id and an error.
pub fn answer_bytes(batch: Option<usize>) -> usize {
    (64 << 10) + (2 << 10) * batch.unwrap_or_default()
}

/// Returns the wait after a counted failure of a job without a backoff, spread by a tenth.
/// `position` is from 0 to 1.
pub fn default_backoff(attempt: u32, position: f64) -> Millis {
    const SECONDS: [u32; 9] = [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400];
    let index = (attempt.max(1) as usize).min(SECONDS.len()) - 1;
    let wait = f64::from(SECONDS[index]) * (0.9 + 0.2 * position);
    Millis::new(u64::try_from(Duration::from_secs_f64(wait).as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
