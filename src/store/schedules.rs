//! Schedules in a store. Each is a text by name, which the store does not interpret, and the time
//! at which a server must look at it next.
//!
//! A schedule advances and puts its job in one step, the transition
//! [`fire`](super::verb::Fire). On a cluster, where the job and its schedule are on different
//! servers, the job is put first.

use std::time::Instant;

use async_trait::async_trait;

use super::{Placed, StoreResult};
use crate::job::{NewJob, ScheduleName, UnixMillis};

/// Maximum number of schedules of a store.
pub const MAX_SCHEDULES: usize = 100_000;
/// Number of bytes of texts after which a read of several schedules ends.
pub const MAX_READ_BYTES: usize = 4 << 20;

/// The part of a store that keeps schedules.
#[async_trait]
pub trait ScheduleStore: Send + Sync {
    /// Reads up to `limit` schedules that are due, the earliest first. Ends early with the schedule
    /// whose text reaches [`MAX_READ_BYTES`].
    async fn due_schedules(&self, limit: usize) -> StoreResult<DueSchedules>;

    /// Reads a schedule.
    async fn schedule(&self, name: ScheduleName) -> StoreResult<Option<StoredSchedule>>;

    /// Reads a page of schedules, in the order of their names. Ends early with the schedule whose
    /// text reaches [`MAX_READ_BYTES`].
    async fn schedules(&self, page: SchedulePage) -> StoreResult<SchedulesFound>;

    /// Creates, replaces or removes schedules, each only if its text is still the expected one. The
    /// results are in the order of the changes.
    async fn change_schedules(
        &self,
        changes: Vec<ScheduleChange>,
    ) -> StoreResult<Vec<ScheduleChanged>>;
}

/// Begins the text that a store gives in place of a text that is not UTF-8. It is no JSON.
pub const NOT_UTF_8: &str = "not UTF-8, SHA-1 ";

/// A schedule in a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSchedule {
    /// Unique name.
    pub name: ScheduleName,
    /// Definition and state, as JSON.
    pub text: String,
}

impl StoredSchedule {
    /// Returns the text.
    ///
    /// # Errors
    /// The stored text is not UTF-8.
    pub fn json(&self) -> Result<&str, String> {
        match self.text.starts_with(NOT_UTF_8) {
            true => Err("it is not UTF-8".to_owned()),
            false => Ok(&self.text),
        }
    }
}

/// The schedules that are due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueSchedules {
    /// The store's time with which they were compared. After a forward jump of the store's clock,
    /// this is earlier than the clock.
    pub now: UnixMillis,
    /// The schedules, the earliest first.
    pub due: Vec<StoredSchedule>,
    /// When the next one is due, which may be now; `None` if there is none.
    pub next_at: Option<UnixMillis>,
    /// When this server saw the clock for the first time, or its last jump; `None` if a test sets
    /// the clock.
    pub steady_since: Option<Instant>,
}

/// A page of schedules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchedulePage {
    /// Start of their names.
    pub prefix: String,
    /// The page begins after this name.
    pub after: Option<ScheduleName>,
    /// Maximum number of names that the page examines.
    pub limit: usize,
}

/// The schedules of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchedulesFound {
    /// The schedules. Names whose text is lost or damaged are left out, so there may be none
    /// although others follow.
    pub schedules: Vec<StoredSchedule>,
    /// The last name of the page, after which the next one begins; `None` if no name follows.
    pub more_after: Option<ScheduleName>,
}

impl SchedulesFound {
    /// Takes the first `limit` names, which are one more if others follow; returns them and
    /// `more_after`.
    pub fn cut(names: &mut Vec<ScheduleName>, limit: usize) -> Option<ScheduleName> {
        let is_cut = names.len() > limit;
        names.truncate(limit);
        names.last().filter(|_| is_cut).cloned()
    }
}

/// A change of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleChange {
    /// Name of the schedule.
    pub name: ScheduleName,
    /// The text that it must have now; `None` if there must be none.
    pub old: Option<String>,
    /// New state; `None` removes the schedule.
    pub new: Option<NewSchedule>,
}

/// New state of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSchedule {
    /// Definition and state, as JSON.
    pub text: String,
    /// When a server must look at it; `None` means never.
    pub next_at: Option<UnixMillis>,
}

/// Outcome of a change; the last two changed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScheduleChanged {
    /// The change was applied.
    Done,
    /// The schedule has another text now.
    Stale,
    /// The store has [`MAX_SCHEDULES`] schedules.
    TooMany,
}

/// An instant of a schedule: the job to be put, and the state of the schedule afterwards.
#[derive(Debug, Clone, PartialEq)]
pub struct Firing {
    /// The schedule, with its text now.
    pub schedule: StoredSchedule,
    /// State of the schedule after the put.
    pub new: NewSchedule,
    /// The job.
    pub job: NewJob,
}

/// Outcome of a firing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fired {
    /// The job is new, and the schedule has advanced.
    Placed(Placed),
    /// A job has the id; nothing has changed.
    Taken,
    /// The schedule has another text now. No job was put, except on a cluster, where this job was.
    Stale(Option<Placed>),
}
