//! Schedules in answers.

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    answer::Text,
    schedule::{Hidden, UTC},
};
use crate::{
    http::schema::{schedule, types},
    job::{
        Backoff, Headers, JobId, Millis, Priority, ScheduleName, State, Topic, TraceParent,
        UnixMillis,
    },
    schedules::{Definition, Missed, Overlap, Shown},
};

/// A schedule.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Schedule")]
pub struct ScheduleResponse {
    /// Unique name.
    name: ScheduleName,
    /// Topic of its jobs.
    topic: Topic,
    /// Cron line; absent if the schedule has `every`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    cron: Option<String>,
    /// Time zone of the cron line; absent if the line names its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    timezone: Option<String>,
    /// Seconds between two instants; absent if the schedule has `cron`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Millis")]
    every: Option<Millis>,
    /// One of the instants of `every`, if it was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "UnixMillis")]
    anchor: Option<UnixMillis>,
    /// Earliest instant, if it was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "UnixMillis")]
    start: Option<UnixMillis>,
    /// End of the instants, if it was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "UnixMillis")]
    end: Option<UnixMillis>,
    /// Longest time in seconds from an instant to the due time of its job.
    jitter: Millis,
    /// Behaviour while the last job has not ended.
    #[schemars(with = "schedule::OverlapWord")]
    overlap: Overlap,
    /// Behaviour at instants that are more than a minute overdue.
    #[schemars(with = "schedule::MissedWord")]
    missed: Missed,
    /// Body of each job; absent if it is hidden.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "types::Anything")]
    body: Option<Text>,
    /// Seconds that a consumer has; absent for the topic's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Millis")]
    ttr: Option<Millis>,
    /// Number of pops before a job is dead; absent for the topic's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32")]
    max_attempts: Option<u32>,
    /// Time before the next attempt; absent for the topic's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Backoff")]
    backoff: Option<Backoff>,
    /// Seconds that a finished job is kept; absent for the topic's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Millis")]
    finished_retention: Option<Millis>,
    /// Priority; absent for the topic's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Priority")]
    priority: Option<Priority>,
    /// Seconds from the due time to the expiry; absent for the topic's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Millis")]
    expires_after: Option<Millis>,
    /// Headers of each job; absent if there are none.
    #[serde(skip_serializing_if = "Headers::is_empty")]
    #[schemars(with = "Option<Headers>")]
    headers: Headers,
    /// The `traceparent` of each job; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "TraceParent")]
    traceparent: Option<TraceParent>,
    /// Fields that are left out since the token may not read the topic; absent if it may.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<Hidden>")]
    hidden: Option<[Hidden; 2]>,
    /// The timing in words.
    description: String,
    /// Name of the token that set it; null if it needed none.
    set_by: Option<String>,
    /// Whether it is paused, so that its instants are skipped.
    paused: bool,
    /// The next five instants; fewer if it ends before. While it is paused, those after a resume
    /// now.
    next: Vec<UnixMillis>,
    /// The last job that it has put; null if there is none.
    last: Option<LastResponse>,
}

/// The last job of a schedule.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct LastResponse {
    /// The job's id.
    id: JobId,
    /// When it was due at its put.
    due_at: UnixMillis,
    /// The job's state; null if it is gone.
    state: Option<State>,
}

/// A page of schedules.
#[derive(Serialize, JsonSchema)]
pub struct SchedulesPage {
    /// Schedules by name.
    pub schedules: Vec<ScheduleResponse>,
    /// Cursor of the next page; null on the last one.
    pub cursor: Option<String>,
}

/// The instants of a timing.
#[derive(Serialize, JsonSchema)]
pub struct PreviewResponse {
    /// The first five instants after now; fewer if it ends before.
    pub next: Vec<UnixMillis>,
    /// The timing in words.
    pub description: String,
}

impl ScheduleResponse {
    /// Returns the answer for a token that may not read the topic of the schedule.
    pub fn without_content(self) -> Self {
        Self { body: None, headers: Headers::default(), hidden: Some(Hidden::ALL), ..self }
    }
}

impl From<Shown> for ScheduleResponse {
    fn from(shown: Shown) -> Self {
        let Shown { name, record, next, description, last } = shown;
        let due_at = record.latest().map(|last| last.due_at);
        let Definition { topic, timing, jitter, overlap, missed, body, policy, headers, .. } =
            record.definition;
        let names_zone = |cron: &String| cron.trim_start().starts_with("CRON_TZ");
        let default_zone = timing.cron.as_ref().filter(|cron| !names_zone(cron));
        let default_zone = default_zone.map(|_| UTC.to_owned());
        Self {
            name,
            topic,
            timezone: timing.timezone.or(default_zone),
            cron: timing.cron,
            every: timing.every,
            anchor: timing.anchor,
            start: timing.start,
            end: timing.end,
            jitter,
            overlap,
            missed,
            body: Some(Text(body.into())),
            ttr: policy.ttr,
            max_attempts: policy.max_attempts,
            backoff: policy.backoff.flatten(),
            finished_retention: policy.finished_retention,
            priority: policy.priority,
            expires_after: policy.expires_after.flatten(),
            headers,
            traceparent: record.definition.traceparent,
            hidden: None,
            description,
            set_by: record.set_by,
            paused: record.paused,
            next,
            last: last.zip(due_at).map(|((id, state), due_at)| LastResponse { id, due_at, state }),
        }
    }
}
