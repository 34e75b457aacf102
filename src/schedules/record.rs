//! Records of schedules: definition and state, as a store keeps them.

use recurrence::{Invalid, Timing};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::{Definition, ScheduleError};
use crate::{
    job::{JobId, Millis, OnConflict, PolicyFields, Schedule, ScheduleName, UnixMillis},
    queue::Put,
    store::{NewSchedule, StoredSchedule},
};

/// A schedule as stores keep it, in JSON: names and values must stay stable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The fields that a client has set.
    #[serde(flatten)]
    pub definition: Definition,
    /// Whether it is paused.
    #[serde(default, skip_serializing_if = "is_false")]
    pub paused: bool,
    /// The next instant; `None` if it is paused, or has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<UnixMillis>,
    /// The last instant whose job was put.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub put_until: Option<UnixMillis>,
    /// The last job that it has put, also at the request of a client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<LastJob>,
}

/// The last job that a schedule has put.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastJob {
    /// The instant of its put.
    pub instant: UnixMillis,
    /// When it is due.
    pub due_at: UnixMillis,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl Record {
    /// Parses the text of a stored schedule.
    ///
    /// # Errors
    /// The text is damaged, or a later version wrote it.
    pub fn parse(stored: &StoredSchedule) -> Result<Self, ScheduleError> {
        let parsed = |text| serde_json::from_str(text).map_err(|error| error.to_string());
        stored
            .json()
            .and_then(parsed)
            .map_err(|reason| ScheduleError::Unreadable(stored.name.clone(), reason))
    }

    /// Returns the text for a store. A server looks at the schedule at its next instant.
    ///
    /// # Errors
    /// The definition cannot be written as JSON.
    pub fn stored(&self) -> Result<NewSchedule, serde_json::Error> {
        Ok(NewSchedule { text: serde_json::to_string(self)?, next_at: self.next })
    }

    /// Returns the first instant after now, and after the last one that was put.
    pub fn first_after(&self, timing: &Timing, now: UnixMillis) -> Option<UnixMillis> {
        let after = self.put_until.map_or(now, |last| last.max(now));
        timing.next_after(after.get()).map(UnixMillis::new)
    }

    /// Returns the put of the job of an instant.
    ///
    /// # Errors
    /// Instants with more than 13 digits make the id of a long name too long.
    pub fn put(&self, name: &ScheduleName, instant: UnixMillis) -> Result<Put, ScheduleError> {
        let definition = &self.definition;
        Ok(Put {
            id: Some(job_id(name, instant)?),
            topic: definition.topic.clone(),
            body: definition.body.clone().into(),
            schedule: Schedule::At(self.due_at(name, instant)),
            policy: PolicyFields {
                headers: Some(definition.headers.clone()),
                traceparent: definition.traceparent,
                scheduled_at: Some(instant),
                ..definition.policy.clone()
            },
            on_conflict: OnConflict::Keep,
        })
    }

    /// Returns when the job of an instant is due. Each instant has one jitter, the same on all
    /// servers.
    pub fn due_at(&self, name: &ScheduleName, instant: UnixMillis) -> UnixMillis {
        let jitter = self.definition.jitter.get();
        let random = xxh3_64(format!("{name}:{}", instant.get()).as_bytes());
        instant.after(Millis::new(random % (jitter + 1)))
    }
}

/// Reads a stored schedule for an examination: returns when a server must look at it; `None` means
/// never.
///
/// # Errors
/// Why the text cannot be read.
pub fn deadline_of(stored: &StoredSchedule) -> Result<Option<UnixMillis>, String> {
    let record: Record = serde_json::from_str(&stored.text).map_err(|error| error.to_string())?;
    // Whether a cron line has instants does not depend on the time from which they are counted.
    let parsed = record.definition.timing.parse(record.next.unwrap_or(UnixMillis::new(0)));
    parsed.map_err(|Invalid { field, message }| format!("`{field}` {message}"))?;
    Ok(record.next)
}

/// Returns the id of the job of an instant.
///
/// # Errors
/// See [`Record::put`].
pub fn job_id(name: &ScheduleName, instant: UnixMillis) -> Result<JobId, ScheduleError> {
    let id = format!("{name}:{}", instant.get());
    id.parse().map_err(|_| ScheduleError::Unreadable(name.clone(), format!("{id} is no id")))
}
