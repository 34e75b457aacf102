//! Parser of a server's answers.

use crate::faults::prelude::*;

/// Codes of refusals that a job's state may explain. Any other 4xx is a fault.
const REFUSALS: [&str; 7] = [
    "job_dead",
    "job_exists",
    "job_finished",
    "job_not_found",
    "job_reserved",
    "reservation_lost",
    "wrong_state",
];

/// Returns the result that a problem reports. `retry_after` is whether the response has this
/// header.
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

/// Reads the answer to a call; `None` if the answer is malformed.
pub fn read(ask: &Ask, answer: &Value) -> Option<Answer> {
    let time = |field: &str| millis(&answer[field]);
    Some(match ask {
        Ask::Put { id: asked, .. } => {
            let id = text(&answer["id"])?;
            // Shares the text of the requested id, if the answer has the same id.
            let id = asked.clone().filter(|asked| *asked == id).unwrap_or(id);
            Answer::Put { id, due_at: time("due_at")? }
        }
        Ask::Pop { .. } => {
            let jobs: Option<_> = answer["jobs"].as_array()?.iter().map(delivery).collect();
            Answer::Popped(jobs?)
        }
        Ask::Finish { .. } => Answer::Finished,
        Ask::Release { .. } => Answer::Released { due_at: time("due_at")?, fate: fate(answer)? },
        Ask::Delete { .. } | Ask::Cancel { .. } => Answer::Deleted,
        Ask::Touch { .. } => Answer::Touched { reserved_until: time("reserved_until")? },
        Ask::Bury { .. } => {
            Answer::Buried { fate: fate(answer).filter(|fate| *fate != Fate::Alive)? }
        }
        Ask::Kick { .. } => (answer["state"] == "ready").then_some(Answer::Kicked)?,
        Ask::Reschedule { .. } => Answer::Rescheduled { due_at: time("due_at")? },
        Ask::Pause { .. } => (answer["paused"] == true).then_some(Answer::Paused)?,
        Ask::Resume { .. } => (answer["paused"] == false).then_some(Answer::Resumed)?,
        Ask::SetDeadTo { target, .. } => {
            (answer["defaults"]["dead_to"] == *target).then_some(Answer::DeadToSet)?
        }
    })
}

/// Reads the state after a release or a bury. The answer names a topic only if the job has moved.
fn fate(answer: &Value) -> Option<Fate> {
    match (answer["state"].as_str()?, answer.get("topic")) {
        ("ready", Some(topic)) => Some(Fate::Moved(known_topic(topic)?)),
        ("dead", None) => Some(Fate::Dead),
        ("delayed" | "ready", None) => Some(Fate::Alive),
        _ => None,
    }
}

/// Returns the load's topic of this name. No job is in any other topic.
fn known_topic(name: &Value) -> Option<&'static str> {
    TOPICS.into_iter().find(|topic| *name == *topic)
}

fn delivery(job: &Value) -> Option<Delivery> {
    Some(Delivery {
        topic: known_topic(&job["topic"])?,
        id: text(&job["id"])?,
        body: text(&job["body"])?,
        attempt: u32::try_from(job["attempt"].as_u64()?).ok()?,
        reservation: text(&job["reservation"])?,
        due_at: millis(&job["due_at"])?,
        reserved_until: millis(&job["reserved_until"])?,
        ttr: Duration::try_from_secs_f64(job["ttr"].as_f64()?).ok()?,
        expires_at: match job.get("expires_at") {
            Some(time) => Some(millis(time)?),
            None => None,
        },
    })
}

fn text(field: &Value) -> Option<Text> {
    Some(Text::from(field.as_str()?))
}

fn millis(time: &Value) -> Option<i64> {
    Some(time.as_str()?.parse::<Timestamp>().ok()?.as_millisecond())
}
