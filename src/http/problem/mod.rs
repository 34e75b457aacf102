//! Refusals and failures in one format: RFC 9457 `application/problem+json`.
//!
//! A handler answers with a [`Problem`]; `edge/finalize.rs` serialises it with the id of the
//! request. `code` is a stable word, part of the API contract.

mod challenge;
mod code;

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    job::{JobId, Living, Refusal, State, Topic},
    queue::{Full, QueueError, Reached},
    schedules::ScheduleError,
    store::{Applied, StoreError},
};

pub use self::{challenge::Challenge, code::Code};

/// A refusal or failure, for the client.
#[derive(Debug, Clone)]
pub struct Problem {
    pub code: Code,
    pub detail: String,
    pub field: Option<String>,
    /// State and topic of the existing job, if the problem is about one.
    pub living: Option<Box<(State, Option<Topic>)>>,
    pub applied: Applied,
    /// The `WWW-Authenticate` of the answer.
    pub challenge: Option<Challenge>,
    /// Underlying error, for the log only.
    pub cause: Option<String>,
}

/// Why a request was refused or failed: RFC 9457.
// `type` is "about:blank" (section 4.2.1): `title` is the status in words, and `code` says more.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub struct Written {
    /// Always `about:blank`.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The status in words.
    title: &'static str,
    /// The status of the answer.
    status: u16,
    /// Explanation for people.
    detail: String,
    /// A stable word for programs.
    #[schemars(with = "Code")]
    code: &'static str,
    /// Path of the faulty field: `delay`, `backoff.max`, `jobs[3].delay`. Absent if the request as
    /// a whole is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    /// Only with `job_exists` and `wrong_state`: the state of the job that has the id.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<State>,
    /// Only with `job_exists`: the topic of the job that has the id.
    #[serde(skip_serializing_if = "Option::is_none")]
    topic: Option<Topic>,
    /// `no`: nothing was changed. `unknown`: the change may have been made.
    #[schemars(extend("enum" = ["no", "unknown"]))]
    applied: &'static str,
    /// Id of the request, as in `X-Request-Id`. Absent in the results of a batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
    /// Only in the results of a batch: the id of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<JobId>,
}

impl Problem {
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: detail.into(),
            field: None,
            living: None,
            applied: Applied::No,
            challenge: None,
            cause: None,
        }
    }

    /// Refuses the value of a field: `detail` completes "the field …".
    pub fn field(field: impl Into<String>, detail: impl AsRef<str>) -> Self {
        let field = field.into();
        let detail = format!("`{field}` {}", detail.as_ref());
        let problem = Self::new(Code::InvalidField, detail);
        Self { field: Some(field), ..problem }
    }

    /// Refuses the request as a whole: `detail` completes "the request …".
    pub fn request(detail: impl AsRef<str>) -> Self {
        let detail = format!("the request {}", detail.as_ref());
        Self::new(Code::InvalidField, detail)
    }

    /// Prepends the path of the outer field to the field's name.
    pub fn within(self, outer: &str) -> Self {
        let Some(field) = self.field else { return self };
        let whole = format!("{outer}.{field}");
        let detail = self.detail.replacen(&format!("`{field}`"), &format!("`{whole}`"), 1);
        Self { field: Some(whole), detail, ..self }
    }

    pub fn body_too_large(detail: impl Into<String>) -> Self {
        Self::new(Code::BodyTooLarge, detail)
    }

    pub fn shutting_down() -> Self {
        let detail =
            "the server is shutting down; use another server, or retry the request in a moment";
        Self::new(Code::ShuttingDown, detail)
    }

    pub fn internal() -> Self {
        let detail = "the server failed; its log has the cause under this request_id";
        let problem = Self::new(Code::Internal, detail);
        Self { applied: Applied::Unknown, ..problem }
    }

    /// Returns the seconds that a client should wait before it retries the request.
    pub fn retry_after(&self) -> Option<&'static str> {
        let retry = [StatusCode::SERVICE_UNAVAILABLE, StatusCode::TOO_MANY_REQUESTS];
        retry.contains(&self.code.status()).then_some("1")
    }

    /// Refuses a job that the store has but cannot read.
    fn damaged() -> Self {
        let detail = "the stored data of this job is damaged, so it can only be deleted; the list \
                      of its topic's jobs shows the damage";
        Self::new(Code::JobDamaged, detail)
    }

    /// Converts to the answer to the request with this id.
    pub fn of_request(self, id: &str) -> Written {
        Written { request_id: Some(id.to_owned()), ..self.write() }
    }

    /// Converts to the result of one job of a batch.
    pub fn of_job(self, id: Option<JobId>) -> Written {
        Written { id, ..self.write() }
    }

    fn write(self) -> Written {
        let (state, topic) = self.living.map(|living| *living).unzip();
        Written {
            kind: "about:blank",
            title: self.code.status().canonical_reason().unwrap_or("Error"),
            status: self.code.status().as_u16(),
            detail: self.detail,
            code: self.code.name(),
            field: self.field,
            state,
            topic: topic.flatten(),
            applied: match self.applied {
                Applied::No => "no",
                Applied::Unknown => "unknown",
            },
            request_id: None,
            id: None,
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.code.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NotFound => {
                let detail = "no job has this id: it was never put, or it is finished or deleted";
                Self::new(Code::JobNotFound, detail)
            }
            Refusal::Exists(living) => Self {
                living: living
                    .clone()
                    .map(|Living { state, topic }| Box::new((state, Some(topic)))),
                ..Self::new(Code::JobExists, exists(living.as_ref()))
            },
            Refusal::NotReserved => Self::new(
                Code::ReservationLost,
                "no consumer holds this job any more and no `reservation` is given, so there is \
                 nothing to release; kick the job to make it ready now, or PATCH it for another time",
            ),
            Refusal::ReservationLost => Self::new(
                Code::ReservationLost,
                "`reservation` is not the current reservation of this job, which is the one that \
                 the latest pop of this job returned, until the job is released",
            ),
            Refusal::NeverPopped => Self::new(
                Code::NeverPopped,
                "this job has not been popped yet, so no consumer holds it; to remove it, \
                 delete it",
            ),
            Refusal::Reserved => Self::new(
                Code::JobReserved,
                "a consumer holds this job; try again when it is no longer reserved",
            ),
            Refusal::Dead => Self::new(Code::JobDead, "this job is dead; kick it first"),
            Refusal::Finished => Self::new(
                Code::JobFinished,
                "this job is finished; to run it again, put it with `on_conflict` `replace`",
            ),
            Refusal::ResultNotKept => Self {
                field: Some("result".to_owned()),
                ..Self::new(
                    Code::ResultNotKept,
                    "`result` is not allowed, because this job is not kept after its finish: set \
                     `finished_retention` when you put it, or finish it without a result",
                )
            },
            Refusal::WrongState(state) => Self {
                living: Some(Box::new((state, None))),
                ..Self::new(
                    Code::WrongState,
                    format!("this job is {}, so it was not deleted", state.name()),
                )
            },
            Refusal::NoRoom => Self::new(
                Code::StoreFull,
                "the store has no room for this change; a release without `body` and a change that \
                 makes nothing longer still work",
            ),
            Refusal::DueTooFar => Self::field("due_at", "must be at most ten years ahead"),
            Refusal::Contended => Self::new(
                Code::Overloaded,
                "other requests keep changing this job; this one changed nothing; retry it",
            ),
            Refusal::Damaged => Self::damaged(),
            Refusal::NotReady => Self::internal(),
        }
    }
}

/// Returns the `detail` for a put whose id another job has.
pub(super) fn exists(living: Option<&Living>) -> String {
    let Some(Living { state, topic }) = living else {
        return "a job has this `id` already".to_owned();
    };
    let advice = match state {
        State::Dead => {
            "a dead job has its `id` until it is kicked, deleted or past its retention; a put to \
             the same topic can keep or replace it (`on_conflict`)"
        }
        State::Finished => {
            "a finished job has its `id` until it is deleted or past its retention; a put to the \
             same topic can keep or replace it (`on_conflict`)"
        }
        State::Reserved => {
            "a consumer holds it; a put to the same topic can keep it (`on_conflict`)"
        }
        State::Delayed | State::Ready => {
            "a put to the same topic can keep or replace it (`on_conflict`)"
        }
    };
    let state = state.name();
    format!("a {state} job of the topic {topic:?} has this `id` already; {advice}")
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let applied = error.applied();
        let unavailable = |detail: &str| Self::new(Code::StoreUnavailable, detail);
        let problem = match (&error, applied) {
            (StoreError::Unavailable { .. }, Applied::No) => {
                unavailable("the store is unavailable; nothing was changed; retry the request")
            }
            (StoreError::Unavailable { .. }, Applied::Unknown) => unavailable(
                "the store did not answer; the change may have been made; check before you retry \
                 the request (a put with an `id` of your own is safe to retry)",
            ),
            (StoreError::Full { .. }, _) => Self::new(
                Code::StoreFull,
                "the store has no room for more jobs; finishing and deleting still work",
            ),
            (StoreError::Unsafe { .. }, _) => Self::new(
                Code::StoreUnsafe,
                "the settings of Redis may lose jobs, so puts are refused until an operator changes them; \
                 the log names the setting; finishing and deleting still work",
            ),
            (StoreError::Replaced { .. }, _) => Self::new(
                Code::StoreReplaced,
                "the store was emptied or replaced, and jobs are lost: an operator must restore it, or \
                 accept the loss with `delay-queue doctor --accept-loss` or POST /store/accept-loss; a \
                 server on files must then be restarted",
            ),
            (StoreError::Unreadable { .. }, _) => Self::internal(),
            (StoreError::Damaged { .. }, _) => Self::damaged(),
        };
        Self { applied, cause: Some(error.to_string()), ..problem }
    }
}

impl From<Full> for Problem {
    fn from(full: Full) -> Self {
        let (code, of, reached) = match full {
            Full::Topic(reached) => (Code::TopicFull, "topic", reached),
            Full::Store(reached) => (Code::StoreFull, "store", reached),
        };
        let (limit, unit, key) = match (reached, full) {
            (Reached::Jobs(limit), _) => (limit, "jobs", "jobs"),
            (Reached::Bytes(limit), Full::Topic(_)) => (limit, "bytes of bodies", "bytes"),
            (Reached::Bytes(limit), Full::Store(_)) => (limit, "bytes", "bytes"),
        };
        let limit = format!("it may have at most {limit} {unit} (limits.{of}_{key})");
        let detail = match full {
            Full::Topic(_) => format!("the topic is full: {limit}"),
            Full::Store(_) => format!(
                "the store has no room for more jobs: {limit}; finishing and deleting still work"
            ),
        };
        Self::new(code, detail)
    }
}

impl From<ScheduleError> for Problem {
    fn from(error: ScheduleError) -> Self {
        let code = match error {
            ScheduleError::Full(full) => return full.into(),
            ScheduleError::Queue(error) => return error.into(),
            ScheduleError::Unreadable(..) => {
                return Self { cause: Some(error.to_string()), ..Self::internal() };
            }
            ScheduleError::NotFound(_) => Code::ScheduleNotFound,
            ScheduleError::TooMany => Code::TooManySchedules,
            ScheduleError::Contended(_) => {
                let problem = Self::new(Code::StoreUnavailable, error.to_string());
                return Self { applied: Applied::Unknown, ..problem };
            }
        };
        Self::new(code, error.to_string())
    }
}

impl From<recurrence::Invalid> for Problem {
    fn from(invalid: recurrence::Invalid) -> Self {
        Self::field(invalid.field, invalid.message)
    }
}

impl From<QueueError> for Problem {
    fn from(error: QueueError) -> Self {
        match error {
            QueueError::Refused(refusal) => refusal.into(),
            QueueError::Store(error) => error.into(),
            QueueError::ReservationRequired => Self::new(
                Code::ReservationRequired,
                "`reservation` is required by this server; send the one that the pop returned",
            ),
        }
    }
}
