//! JSON of requests and answers: names and shapes of the API contract.

mod action;
mod answer;
mod body;
mod history;
pub mod json;
mod patch;
pub mod policy;
mod pop;
mod push;
mod push_answer;
mod push_fields;
mod put;
mod schedule;
mod schedule_answer;
mod topic;
mod topic_answer;
mod transition_response;

use serde::{Deserialize, Deserializer};

pub use self::{
    action::{
        ActionRequest, ActionRules, Bury, Delete, Finish, IdOnly, Release, RequestPosition, Touch,
    },
    answer::{ChangedJob, JobResponse, JobsPage, PoppedJobs, PoppedResponse},
    patch::PatchJob,
    pop::{MAX_COUNT, MAX_WAIT, PopCount, PopOptions, wait},
    push::PutPush,
    push_answer::{PushResponse, TargetResponse, TestResponse},
    put::PutJob,
    schedule::{Hidden, MAX_CRON_BYTES, PreviewSchedule, PutSchedule},
    schedule_answer::{PreviewResponse, ScheduleResponse, SchedulesPage},
    topic::{PauseTopic, PutTopic},
    topic_answer::{DueCounts, Kicked, Paused, Purged, TopicResponse, TopicsPage},
    transition_response::TransitionResponse,
};

/// Deserialises a field for which null is a value. For all other fields null means absent.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(d: D) -> Result<Option<T>, D::Error> {
    T::deserialize(d).map(Some)
}
