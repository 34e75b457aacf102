//! Jobs in answers.

use axum::{body::Bytes, http::StatusCode};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::{
    history::{AttemptResponse, attempts},
    policy::{ShownPolicy, WholePolicy},
};
use crate::{
    http::schema::types,
    job::{
        Consumer, Ending, Job, JobId, Millis, Outcome, PoppedJob, ReservationKey, State,
        TaggedReservation, Topic, UnixMillis,
    },
    store::Damaged,
};

/// JSON text, written unchanged.
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
    /// The job's id.
    id: JobId,
    /// The job's topic.
    topic: Topic,
    state: State,
    /// The body, as it was put; absent if the job is finished or the token lacks the scope `read`.
    #[schemars(with = "types::Anything")]
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<Text>,
    /// Number of pops that count. A kick of a dead job sets it to 0.
    attempt: u32,
    /// When the job is or was due; after a release or an ended TTR, when its next attempt is.
    due_at: UnixMillis,
    /// When the job was put.
    created_at: UnixMillis,
    /// Seconds that a consumer has to finish the job.
    ttr: Millis,
    /// When the reservation ends; null unless the job is reserved.
    reserved_until: Option<UnixMillis>,
    /// When the job became dead; null unless it is dead.
    died_at: Option<UnixMillis>,
    /// The text of the last release or bury; null if the token lacks the scope `read`.
    error: Option<String>,
    /// Name of the consumer that holds the job; absent if it gave none or the job is not reserved.
    #[serde(skip_serializing_if = "Option::is_none")]
    consumer: Option<Consumer>,
    /// The last ten attempts, oldest first, with the running one at the end; absent in lists, and
    /// if the token lacks the scope `read`.
    #[serde(skip_serializing_if = "Option::is_none")]
    history: Option<Vec<AttemptResponse>>,
    #[serde(flatten)]
    #[schemars(with = "Option<ShownEnding>")]
    ending: Option<ShownEnding>,
    #[serde(flatten)]
    policy: WholePolicy,
}

/// The end of a finished job.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct ShownEnding {
    /// When the job was finished or deleted; only if it is finished.
    finished_at: UnixMillis,
    /// `deleted` if the job was deleted and its id is remembered; only if it is finished.
    #[schemars(with = "Outcome")]
    outcome: &'static str,
    /// The result that the consumer gave; absent if it gave none, or the token lacks the scope
    /// `read`.
    #[schemars(with = "types::Anything")]
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Text>,
    /// Whether the store had no room for the result; absent if not.
    #[serde(skip_serializing_if = "is_false")]
    #[schemars(with = "Option<bool>")]
    result_dropped: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl From<Ending> for ShownEnding {
    fn from(ending: Ending) -> Self {
        Self {
            finished_at: ending.at,
            outcome: match ending.outcome {
                Outcome::Finished | Outcome::ResultDropped => "finished",
                Outcome::Deleted => "deleted",
            },
            result: ending.result.map(Text),
            result_dropped: ending.outcome == Outcome::ResultDropped,
        }
    }
}

impl From<Job> for JobResponse {
    fn from(job: Job) -> Self {
        Self {
            history: Some(attempts(&job)),
            consumer: job.consumer,
            id: job.id,
            topic: job.topic,
            state: job.state,
            body: Some(Text(job.body)).filter(|_| job.ending.is_none()),
            attempt: job.attempt,
            due_at: job.due_at,
            created_at: job.created_at,
            ttr: job.ttr,
            reserved_until: job.reserved_until,
            died_at: job.died_at,
            error: job.error,
            ending: job.ending.map(ShownEnding::from),
            policy: job.policy.into(),
        }
    }
}

impl JobResponse {
    /// Removes content that a caller without the scope `read` may not see.
    pub fn without_content(self) -> Self {
        let ending = self.ending.map(|ending| ShownEnding { result: None, ..ending });
        let policy = self.policy.without_content();
        Self { body: None, error: None, history: None, ending, policy, ..self }
    }

    /// Removes the history, which would make a list several times as long.
    pub fn without_history(self) -> Self {
        Self { history: None, ..self }
    }
}

/// Changed job of a batch.
#[derive(Serialize, JsonSchema)]
pub struct ChangedJob {
    #[serde(flatten)]
    job: JobResponse,
    /// The status that the route for one job would answer.
    status: u16,
}

impl ChangedJob {
    pub fn new(job: JobResponse) -> Self {
        Self { job, status: StatusCode::OK.as_u16() }
    }
}

/// Page of a list of jobs.
#[derive(Serialize, JsonSchema)]
pub struct JobsPage {
    /// Jobs; those of one bucket are in the order of their deadlines.
    pub jobs: Vec<JobResponse>,
    /// Stored jobs that cannot be read; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<Damaged>,
    /// Cursor of the next page; null on the last one.
    pub cursor: Option<String>,
}

/// The answer to a pop.
#[derive(Serialize, JsonSchema)]
pub struct PoppedJobs<'a> {
    /// Popped jobs; empty if none is ready.
    pub jobs: Vec<PoppedResponse<'a>>,
}

/// A popped job.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PoppedJob")]
pub struct PoppedResponse<'a> {
    /// The job's id.
    id: &'a JobId,
    /// The topic that it was popped from.
    topic: &'a Topic,
    /// The body, as it was put.
    #[schemars(with = "types::Anything")]
    body: Text,
    /// Number of this attempt, from 1.
    attempt: u32,
    /// When the job was due.
    due_at: UnixMillis,
    /// When the job was put.
    created_at: UnixMillis,
    /// Seconds that this consumer has to finish the job.
    ttr: Millis,
    /// Reservation for finish, release, touch and bury.
    reservation: TaggedReservation,
    /// When the reservation ends.
    reserved_until: UnixMillis,
    #[serde(flatten)]
    policy: ShownPolicy,
}

impl<'a> PoppedResponse<'a> {
    /// Shows a job to its consumer, its reservation tagged with the store's key.
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
