//! What answers show.

use axum::{body::Bytes, http::StatusCode};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::{
    policy::{ShownPolicy, WholePolicy},
    topic::Defaults,
};
use crate::{
    http::schema::types,
    job::{
        Job, JobId, Millis, Pause, PolicyFields, PoppedJob, ReservationKey, State,
        TaggedReservation, Topic, UnixMillis,
    },
    queue::Counters,
    store::{Counts, Damaged, Placed, TopicPeek, Transitioned},
};

/// What became of a job: the answer to most transitions, and one result of a batch (which then
/// has the status that the answer would have had).
#[derive(Serialize, JsonSchema)]
pub struct TransitionResponse {
    /// The job's id.
    pub id: JobId,
    /// The job's topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    topic: Option<Topic>,
    /// The state it is in now; of a delete, the state it was in.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<State>,
    /// When it is due, or its next attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    due_at: Option<UnixMillis>,
    /// When the reservation ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    reserved_until: Option<UnixMillis>,
    /// In a batch: the status that the route for one job would answer.
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

/// A job.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Job")]
pub struct JobResponse {
    /// Its id.
    id: JobId,
    /// Its topic.
    topic: Topic,
    state: State,
    /// The body, as it was put; left out if the token lacks the scope `read`.
    #[schemars(with = "types::Anything")]
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<Text>,
    /// How many times it was popped. A kick of a dead job sets it to 0.
    attempt: u32,
    /// When it is, or was, due; after a release or an expired TTR, when its next attempt is.
    due_at: UnixMillis,
    /// When it was put.
    created_at: UnixMillis,
    /// How long a consumer has, in seconds.
    ttr: Millis,
    /// The end of the TTR, while it is reserved.
    reserved_until: Option<UnixMillis>,
    /// When it became dead, while it is dead.
    died_at: Option<UnixMillis>,
    /// The text of the last release or bury; null if the token lacks the scope `read`.
    error: Option<String>,
    #[serde(flatten)]
    policy: WholePolicy,
}

impl From<Job> for JobResponse {
    fn from(job: Job) -> Self {
        Self {
            id: job.id,
            topic: job.topic,
            state: job.state,
            body: Some(Text(job.body)),
            attempt: job.attempt,
            due_at: job.due_at,
            created_at: job.created_at,
            ttr: job.ttr,
            reserved_until: job.reserved_until,
            died_at: job.died_at,
            error: job.error,
            policy: job.policy.into(),
        }
    }
}

impl JobResponse {
    /// What a caller may see who changes jobs and does not read them.
    pub fn without_content(self) -> Self {
        Self { body: None, error: None, policy: self.policy.without_content(), ..self }
    }
}

/// A topic.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TopicInList")]
pub struct TopicResponse {
    /// Its name.
    topic: Topic,
    /// How many jobs wait for their due time.
    delayed: u64,
    /// How many jobs may be popped.
    ready: u64,
    /// How many jobs consumers hold.
    reserved: u64,
    /// How many jobs are dead.
    dead: u64,
    /// Whether it hands out nothing.
    paused: bool,
    /// When the pause ends by itself; null if it does not.
    paused_until: Option<UnixMillis>,
    /// When the next delayed job is due; null without one.
    next_due_at: Option<UnixMillis>,
    /// For how many seconds the job that became due first has been waiting; null without a ready one.
    oldest_ready_age: Option<Millis>,
    /// What applies to new jobs that do not say. Only in the answer for one topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Defaults>")]
    defaults: Option<PolicyFields>,
    /// What this server has counted since it started. Not in lists of topics.
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
    pub fn with_defaults(self, defaults: PolicyFields) -> Self {
        Self { defaults: Some(defaults), ..self }
    }
}

/// The answer to a pause or a resume.
#[derive(Serialize, JsonSchema)]
pub struct Paused {
    /// Which topic.
    pub topic: Topic,
    /// Whether it hands out nothing now.
    pub paused: bool,
    /// When the pause ends by itself; null if it does not.
    pub paused_until: Option<UnixMillis>,
}

/// Some topics; the cursor asks for those after them.
#[derive(Serialize, JsonSchema)]
pub struct TopicsPage {
    /// By name.
    pub topics: Vec<TopicResponse>,
    /// Of the next page; null on the last one.
    pub cursor: Option<Topic>,
}

/// How many delayed jobs fall due in each step.
#[derive(Serialize, JsonSchema)]
pub struct DueCounts {
    /// When the first step begins.
    pub from: UnixMillis,
    /// How many seconds each step is long.
    pub step: Millis,
    /// A number of jobs for each step.
    pub counts: Vec<u64>,
}

/// Some jobs; the cursor asks for those after them.
#[derive(Serialize, JsonSchema)]
pub struct JobsPage {
    /// Within a bucket, in the order of their deadline.
    pub jobs: Vec<JobResponse>,
    /// Jobs that are there and cannot be read; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<Damaged>,
    /// Of the next page; null on the last one.
    pub cursor: Option<String>,
}

/// The answer to a purge.
#[derive(Serialize, JsonSchema)]
pub struct Purged {
    /// How many jobs were deleted.
    pub purged: u64,
}

/// The answer to a kick of many.
#[derive(Serialize, JsonSchema)]
pub struct Kicked {
    /// How many jobs became ready.
    pub kicked: u64,
}

/// The answer to a pop.
#[derive(Serialize, JsonSchema)]
pub struct PoppedJobs<'a> {
    /// None if none is ready.
    pub jobs: Vec<PoppedResponse<'a>>,
}

/// A job as a pop hands it out.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PoppedJob")]
pub struct PoppedResponse<'a> {
    /// Its id.
    id: &'a JobId,
    /// The topic that it was popped from.
    topic: &'a Topic,
    /// The body, as it was put.
    #[schemars(with = "types::Anything")]
    body: Text,
    /// Which attempt this is, from 1.
    attempt: u32,
    /// When it was due.
    due_at: UnixMillis,
    /// When it was put.
    created_at: UnixMillis,
    /// How many seconds this consumer has.
    ttr: Millis,
    /// What finish, release, touch and bury ask for.
    reservation: TaggedReservation,
    /// When the reservation ends.
    reserved_until: UnixMillis,
    #[serde(flatten)]
    policy: ShownPolicy,
}

impl<'a> PoppedResponse<'a> {
    /// The answer to a consumer; its reservation is tagged by the store's key.
    pub fn new(job: &'a PoppedJob, key: &ReservationKey) -> Self {
        Self {
            id: &job.id,
            topic: &job.topic,
            body: Text(job.body.clone()),
            attempt: job.attempt,
            due_at: job.due_at,
            created_at: job.created_at,
            ttr: job.ttr,
            reservation: key.tag(&job.id, job.reservation),
            reserved_until: job.reserved_until,
            policy: ShownPolicy::from(&job.policy),
        }
    }
}
