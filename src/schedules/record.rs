//! Records of schedules: definition and state, as a store keeps them.

use recurrence::{Invalid, Timing};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::{Definition, ScheduleError};
use crate::{
    job::{Job, JobId, Millis, OnConflict, PolicyFields, Schedule, ScheduleName, UnixMillis},
    queue::Put,
    store::{NewSchedule, StoredSchedule},
};

/// Largest step back of the clock after which instants that were put are not put again.
const MAX_STEP_BACK: Millis = Millis::new(60_000);

/// A schedule as stores keep it, in JSON: names and values must stay stable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The fields that a client has set.
    #[serde(flatten)]
    pub definition: Definition,
    /// Name of the token that set it; `None` if it needed none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_by: Option<String>,
    /// Whether it is paused.
    #[serde(default, skip_serializing_if = "is_false")]
    pub paused: bool,
    /// The next instant; `None` if it is paused, or has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<UnixMillis>,
    /// Whether instants before `next` were left out since the last put.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_behind: bool,
    /// The last instant whose job was put.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub put_until: Option<UnixMillis>,
    /// The time after which `next` was sought; `None` if an earlier version has written the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sought_after: Option<UnixMillis>,
    /// The job of the last instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<LastJob>,
    /// The last job that it has put at the request of a client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run: Option<LastJob>,
}

/// The last job that a schedule has put.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastJob {
    /// The instant of its put.
    pub instant: UnixMillis,
    /// When it is due.
    pub due_at: UnixMillis,
    /// Last part of its id, if another job had the first parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<String>,
}

impl LastJob {
    /// Returns its id.
    ///
    /// # Errors
    /// See [`job_id`].
    pub fn id(&self, name: &ScheduleName) -> Result<JobId, ScheduleError> {
        job_id(name, self.instant, self.mark.as_deref())
    }
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

    /// Parses the timing.
    ///
    /// # Errors
    /// Fails if another program has changed the stored text; names the field and the reason.
    pub fn timing(&self) -> Result<Timing, String> {
        let parsed = self.definition.timing.parse_known();
        parsed.map_err(|Invalid { field, message }| format!("`{field}` {message}"))
    }

    /// Returns the text for a store. A server looks at the schedule at its next instant.
    ///
    /// # Errors
    /// The definition cannot be written as JSON.
    pub fn stored(&self) -> Result<NewSchedule, serde_json::Error> {
        Ok(NewSchedule { text: serde_json::to_string(self)?, next_at: self.next })
    }

    /// Returns the record of a schedule that a client sets. If its timing stays the same, so does
    /// its next instant.
    ///
    /// # Errors
    /// The timing is invalid.
    pub fn set(
        old: Option<Self>,
        definition: Definition,
        now: UnixMillis,
    ) -> Result<Self, Invalid> {
        let timing = definition.timing.parse_known()?;
        let (is_same, record) = match old {
            Some(old) => (old.definition.timing == definition.timing, Self { definition, ..old }),
            None => (false, Self::new(definition)),
        };
        if is_same {
            return Ok(record);
        }
        record.definition.timing.parse(now)?;
        Ok(match record.paused {
            true => Self { next: None, ..record },
            false => record.restarted(&timing, now),
        })
    }

    fn new(definition: Definition) -> Self {
        Self {
            definition,
            set_by: None,
            paused: false,
            next: None,
            is_behind: false,
            put_until: None,
            sought_after: None,
            last: None,
            last_run: None,
        }
    }

    /// Returns the schedule with the first instant after now, and after the last one that was put.
    pub fn restarted(self, timing: &Timing, now: UnixMillis) -> Self {
        let after = self.put_until.map_or(now, |last| last.max(now));
        let next = timing.next_after(after.get()).map(UnixMillis::new);
        Self { next, is_behind: false, sought_after: Some(after), ..self }
    }

    /// Returns whether the clock was more than a minute ahead of `now` when the schedule advanced.
    /// Then its next instant says nothing about the instants that it has missed since.
    pub fn is_ahead_of(&self, now: UnixMillis) -> bool {
        let latest = self.sought_after.max(self.put_until);
        latest.is_some_and(|latest| latest.since(now) > MAX_STEP_BACK)
    }

    /// Returns the schedule as if the clock had never been ahead: with the first instant after now.
    pub fn without_time_ahead(self, timing: &Timing, now: UnixMillis) -> Self {
        let is_paused = self.paused;
        let record = Self { put_until: None, ..self }.restarted(timing, now);
        Self { next: record.next.filter(|_| !is_paused), ..record }
    }

    /// Returns the text for a store, like [`Record::stored`].
    ///
    /// # Errors
    /// The definition cannot be written as JSON.
    pub fn written(&self, name: &ScheduleName) -> Result<NewSchedule, ScheduleError> {
        let unreadable = |error: serde_json::Error| error.to_string();
        self.stored()
            .map_err(unreadable)
            .map_err(|why| ScheduleError::Unreadable(name.clone(), why))
    }

    /// Returns the ids of the jobs that may run: of the last instant, and of the last run.
    pub fn last_ids(&self, name: &ScheduleName) -> impl Iterator<Item = JobId> {
        [&self.last, &self.last_run].into_iter().flatten().filter_map(|last| last.id(name).ok())
    }

    /// Returns the later of the last job and the last run.
    pub fn latest(&self) -> Option<&LastJob> {
        self.last.iter().chain(&self.last_run).max_by_key(|last| last.instant)
    }

    /// Returns the put of the job of an instant, with the id of the job.
    pub fn put(&self, name: &ScheduleName, instant: UnixMillis, id: JobId) -> Put {
        let definition = &self.definition;
        Put {
            id: Some(id),
            topic: definition.topic.clone(),
            body: definition.body.clone().into(),
            schedule: Schedule::At(self.due_at(name, instant)),
            policy: PolicyFields {
                headers: Some(definition.headers.clone()),
                traceparent: definition.traceparent,
                scheduled_at: Some(instant),
                ..definition.policy.clone()
            },
            on_conflict: OnConflict::Reject,
        }
    }

    /// Returns whether a job that has the id of an instant is the one that the schedule puts then.
    pub fn has_put(&self, instant: UnixMillis, job: &Job) -> bool {
        let topic = &self.definition.topic;
        let is_in_topic = job.topic == *topic || job.policy.dead_from.as_ref() == Some(topic);
        is_in_topic && job.policy.scheduled_at == Some(instant)
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
    record.timing()?;
    Ok(record.next)
}

/// Returns the id of the job of an instant; with a mark if another job has the id without it.
///
/// # Errors
/// Instants with more than 13 digits make the id of a long name too long.
pub fn job_id(
    name: &ScheduleName,
    instant: UnixMillis,
    mark: Option<&str>,
) -> Result<JobId, ScheduleError> {
    let mark = mark.map(|mark| format!(":{mark}")).unwrap_or_default();
    let id = format!("{name}:{}{mark}", instant.get());
    id.parse().map_err(|_| ScheduleError::Unreadable(name.clone(), format!("{id} is no id")))
}
