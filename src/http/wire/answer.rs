//! What answers show.

use axum::{body::Bytes, http::StatusCode};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::{
    job::{
        Backoff, Job, JobId, Millis, Pause, PoppedJob, Reservation, State, Topic, TopicDefaults,
        TraceParent, UnixMillis,
    },
    queue::Counters,
    store::{Counts, Damaged, Placed, TopicPeek, Transitioned},
};

/// What became of a job: the answer to most transitions, and one result of a batch (which then
/// has the status that the answer would have had).
#[derive(Serialize)]
pub struct TransitionResponse {
    pub id: JobId,
    #[serde(skip_serializing_if = "Option::is_none")]
    topic: Option<Topic>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<State>,
    #[serde(skip_serializing_if = "Option::is_none")]
    due_at: Option<UnixMillis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reserved_until: Option<UnixMillis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
}

impl TransitionResponse {
    fn of(id: JobId) -> Self {
        Self { id, topic: None, state: None, due_at: None, reserved_until: None, status: None }
    }

    pub fn placed(id: JobId, topic: Topic, placed: Placed) -> Self {
        let (state, due_at) = (Some(placed.state), Some(placed.due_at));
        Self { topic: Some(topic), state, due_at, ..Self::of(id) }
    }

    pub fn finished(id: JobId) -> Self {
        Self::of(id)
    }

    pub fn moved(id: JobId, moved: &Transitioned) -> Self {
        Self { due_at: Some(moved.due_at), ..Self::in_state(id, moved.state) }
    }

    pub fn held_until(id: JobId, until: UnixMillis) -> Self {
        Self { reserved_until: Some(until), ..Self::of(id) }
    }

    pub fn in_state(id: JobId, state: State) -> Self {
        Self { state: Some(state), ..Self::of(id) }
    }

    pub fn with_status(self, status: StatusCode) -> Self {
        Self { status: Some(status.as_u16()), ..self }
    }
}

/// A JSON text, written as it stands.
pub struct Text(pub Bytes);

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_slice(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

/// A job as `GET /jobs/{id}` shows it.
#[derive(Serialize)]
pub struct JobResponse {
    id: JobId,
    topic: Topic,
    state: State,
    body: Text,
    attempt: u32,
    max_attempts: u32,
    due_at: UnixMillis,
    created_at: UnixMillis,
    ttr: Millis,
    backoff: Option<Backoff>,
    reserved_until: Option<UnixMillis>,
    died_at: Option<UnixMillis>,
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<TraceParent>,
}

impl From<Job> for JobResponse {
    fn from(job: Job) -> Self {
        Self {
            id: job.id,
            topic: job.topic,
            state: job.state,
            body: Text(job.body),
            attempt: job.attempt,
            max_attempts: job.max_attempts,
            due_at: job.due_at,
            created_at: job.created_at,
            ttr: job.ttr,
            backoff: job.backoff,
            reserved_until: job.reserved_until,
            died_at: job.died_at,
            error: job.error,
            traceparent: job.traceparent,
        }
    }
}

/// A topic as the list shows it or, with the optional fields, `GET /topics/{topic}`.
#[derive(Serialize)]
pub struct TopicResponse {
    topic: Topic,
    delayed: u64,
    ready: u64,
    reserved: u64,
    dead: u64,
    paused: bool,
    /// When the pause ends by itself.
    paused_until: Option<UnixMillis>,
    next_due_at: Option<UnixMillis>,
    oldest_ready_age: Option<Millis>,
    /// What applies to new jobs that do not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    defaults: Option<TopicDefaults>,
    #[serde(skip_serializing_if = "Option::is_none")]
    since_start: Option<Counters>,
}

impl TopicResponse {
    /// As a list shows it.
    pub fn in_list(topic: Topic, peek: &TopicPeek, pause: Option<Pause>) -> Self {
        let TopicPeek { counts, next_due_at, oldest_ready_age, .. } = *peek;
        let Counts { delayed, ready, reserved, dead } = counts;
        let (paused, paused_until) = (pause.is_some(), pause.and_then(|pause| pause.until));
        Self {
            topic,
            delayed,
            ready,
            reserved,
            dead,
            paused,
            paused_until,
            next_due_at,
            oldest_ready_age,
            defaults: None,
            since_start: None,
        }
    }

    /// The same with what this server has counted.
    pub fn counted(self, since_start: Counters) -> Self {
        Self { since_start: Some(since_start), ..self }
    }

    /// The same with what applies to new jobs that do not say.
    pub fn with_defaults(self, defaults: TopicDefaults) -> Self {
        Self { defaults: Some(defaults), ..self }
    }
}

/// The answer to a pause or a resume.
#[derive(Serialize)]
pub struct Paused {
    pub topic: Topic,
    pub paused: bool,
    /// When the pause ends by itself.
    pub paused_until: Option<UnixMillis>,
}

/// Some topics; the cursor asks for those after them.
#[derive(Serialize)]
pub struct TopicsPage {
    pub topics: Vec<TopicResponse>,
    pub cursor: Option<Topic>,
}

/// How many delayed jobs fall due in each step.
#[derive(Serialize)]
pub struct DueCounts {
    pub from: UnixMillis,
    pub step: Millis,
    pub counts: Vec<u64>,
}

/// Some jobs; the cursor asks for those after them.
#[derive(Serialize)]
pub struct JobsPage {
    pub jobs: Vec<JobResponse>,
    /// Jobs that are there and cannot be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<Damaged>,
    pub cursor: Option<String>,
}

/// The answer to a purge.
#[derive(Serialize)]
pub struct Purged {
    pub purged: u64,
}

/// The answer to a kick of many.
#[derive(Serialize)]
pub struct Kicked {
    pub kicked: u64,
}

/// The answer to a pop.
#[derive(Serialize)]
pub struct PoppedJobs<'a> {
    pub jobs: Vec<PoppedResponse<'a>>,
}

/// A job as a pop hands it out.
#[derive(Serialize)]
pub struct PoppedResponse<'a> {
    id: &'a JobId,
    topic: &'a Topic,
    body: Text,
    attempt: u32,
    max_attempts: u32,
    due_at: UnixMillis,
    created_at: UnixMillis,
    ttr: Millis,
    reservation: Reservation,
    reserved_until: UnixMillis,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<TraceParent>,
}

impl<'a> From<&'a PoppedJob> for PoppedResponse<'a> {
    fn from(job: &'a PoppedJob) -> Self {
        Self {
            id: &job.id,
            topic: &job.topic,
            body: Text(job.body.clone()),
            attempt: job.attempt,
            max_attempts: job.max_attempts,
            due_at: job.due_at,
            created_at: job.created_at,
            ttr: job.ttr,
            reservation: job.reservation,
            reserved_until: job.reserved_until,
            traceparent: job.traceparent,
        }
    }
}
