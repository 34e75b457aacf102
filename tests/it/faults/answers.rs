//! Parser of a server's answers.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::faults::history::{Answer, Ask, Delivery, StoreResult, Text};

/// Refusals that the job's state explains; any other 4xx is a fault.
const REFUSALS: [&str; 7] = [
    "job_dead",
    "job_exists",
    "job_finished",
    "job_not_found",
    "job_reserved",
    "reservation_lost",
    "wrong_state",
];

/// Returns the result that a problem states. `retry_after`: whether the response has that header.
pub fn refusal(kind: &str, status: u16, problem: &Value, retry_after: bool) -> StoreResult {
    let code = problem["code"].as_str().unwrap_or_default();
    match (status, problem["applied"].as_str().unwrap_or_default()) {
        (400..500, "no") if REFUSALS.contains(&code) => StoreResult::Refused(code.into()),
        (507, "no") => StoreResult::Refused(code.into()),
        (503, "no") if retry_after => StoreResult::Refused(code.into()),
        (503, "unknown") if retry_after => StoreResult::Unknown,
        _ => StoreResult::Wrong(format!("{kind} {status} {problem}").into()),
    }
}

/// Reads the answer to a call; none if the answer is malformed.
pub fn read(ask: &Ask, answer: &Value) -> Option<Answer> {
    let time = |field: &str| millis(&answer[field]);
    Some(match ask {
        Ask::Put { id: asked, .. } => {
            let id = text(&answer["id"])?;
            // If the answer names the requested id, shares its text.
            let id = asked.clone().filter(|asked| *asked == id).unwrap_or(id);
            Answer::Put { id, due_at: time("due_at")? }
        }
        Ask::Pop { .. } => {
            let jobs: Option<_> = answer["jobs"].as_array()?.iter().map(delivery).collect();
            Answer::Popped(jobs?)
        }
        Ask::Finish { .. } => Answer::Finished,
        Ask::Release { .. } => Answer::Released { due_at: time("due_at")? },
        Ask::Delete { .. } | Ask::Cancel { .. } => Answer::Deleted,
        Ask::Touch { .. } => Answer::Touched { reserved_until: time("reserved_until")? },
        Ask::Bury { .. } => (answer["state"] == "dead").then_some(Answer::Buried)?,
        Ask::Kick { .. } => (answer["state"] == "ready").then_some(Answer::Kicked)?,
        Ask::Reschedule { .. } => Answer::Rescheduled { due_at: time("due_at")? },
        Ask::Pause { .. } => (answer["paused"] == true).then_some(Answer::Paused)?,
        Ask::Resume { .. } => (answer["paused"] == false).then_some(Answer::Resumed)?,
    })
}

fn delivery(job: &Value) -> Option<Delivery> {
    Some(Delivery {
        id: text(&job["id"])?,
        body: text(&job["body"])?,
        attempt: u32::try_from(job["attempt"].as_u64()?).ok()?,
        reservation: text(&job["reservation"])?,
        due_at: millis(&job["due_at"])?,
        reserved_until: millis(&job["reserved_until"])?,
        ttr: Duration::try_from_secs_f64(job["ttr"].as_f64()?).ok()?,
    })
}

fn text(field: &Value) -> Option<Text> {
    Some(Text::from(field.as_str()?))
}

fn millis(time: &Value) -> Option<i64> {
    Some(time.as_str()?.parse::<Timestamp>().ok()?.as_millisecond())
}
