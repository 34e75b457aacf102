//! The schedules of a store: what clients do with them, and the task that puts their jobs.

use std::{fmt::Debug, sync::Arc};

use prometheus_client::registry::Registry;
use recurrence::{Invalid, Timing};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use super::{
    LastJob, Record, SHOWN_INSTANTS, ScheduleError, TimingFields, meters::Meters, record::job_id,
    runner,
};
use crate::{
    job::{JobId, Millis, ScheduleName, State, UnixMillis},
    queue::{Capacity, Queue},
    store::{
        Fired, Firing, NewSchedule, Placed, ScheduleChange, ScheduleChanged, SchedulePage,
        StoredSchedule,
    },
};

/// Attempts of a change that other clients may precede.
const MAX_TRIES: u32 = 10;

/// The schedules of a queue's store.
pub struct Schedules {
    shared: Arc<Shared>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// State that the service shares with its task.
pub struct Shared {
    pub queue: Arc<Queue>,
    pub capacity: Capacity,
    pub meters: Meters,
}

/// A schedule with what can be computed or read about it.
pub struct Shown {
    /// Unique name.
    pub name: ScheduleName,
    /// Definition and state.
    pub record: Record,
    /// The next instants; if it is paused, those after a resume now.
    pub next: Vec<UnixMillis>,
    /// The timing in words.
    pub description: String,
    /// Id and state of the last job; no state if the job is gone.
    pub last: Option<(JobId, Option<State>)>,
}

impl Schedules {
    /// Starts the task that puts the jobs of a queue's schedules, and registers the metrics.
    pub fn start(queue: Arc<Queue>, capacity: Capacity, registry: &mut Registry) -> Arc<Self> {
        let meters = Meters::new(registry);
        let shared = Arc::new(Shared { queue, capacity, meters });
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        tasks.spawn(runner::run(Arc::clone(&shared), stop.clone()));
        Arc::new(Self { shared, tasks, stop })
    }

    /// Returns a guard that ends the task when it is dropped.
    pub fn stop_on_drop(&self) -> DropGuard {
        self.stop.clone().drop_guard()
    }

    /// Ends the task, after the puts under way.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Returns a schedule.
    ///
    /// # Errors
    /// Any [`ScheduleError`] but those of changes.
    pub async fn get(&self, name: &ScheduleName) -> Result<Record, ScheduleError> {
        let stored = self.shared.queue.schedule(name.clone()).await?;
        Record::parse(&stored.ok_or_else(|| ScheduleError::NotFound(name.clone()))?)
    }

    /// Returns a page of schedules by name, `None` for each one that this version cannot read; and
    /// the last name of the page if others follow.
    ///
    /// # Errors
    /// Any error of the store.
    pub async fn list(
        &self,
        page: SchedulePage,
    ) -> Result<(Vec<(ScheduleName, Option<Record>)>, Option<ScheduleName>), ScheduleError> {
        let found = self.shared.queue.schedules(page).await?;
        let parsed = |stored: StoredSchedule| {
            let record = Record::parse(&stored).ok();
            (stored.name, record)
        };
        Ok((found.schedules.into_iter().map(parsed).collect(), found.more_after))
    }

    /// Adds to schedules what can be computed or read about them. Never fails, since it may follow
    /// a change.
    pub async fn show(&self, records: Vec<(ScheduleName, Record)>, now: UnixMillis) -> Vec<Shown> {
        let ids: Vec<Option<JobId>> =
            records.iter().map(|(name, record)| job_id(name, record.last?.instant).ok()).collect();
        let asked: Vec<JobId> = ids.iter().flatten().cloned().collect();
        let states = match asked.is_empty() {
            true => Vec::new(),
            false => self.shared.queue.states(asked).await,
        };
        // A bucket that does not answer hides only the states of its jobs.
        let mut states = states.into_iter().map(|state| state.ok().flatten());
        let shown = records.into_iter().zip(ids).map(|((name, record), id)| {
            let timing = record.definition.timing.parse(now).ok();
            Shown {
                next: timing
                    .as_ref()
                    .map(|timing| upcoming(&record, timing, now))
                    .unwrap_or_default(),
                description: timing.map(|timing| timing.description()).unwrap_or_default(),
                last: id.map(|id| (id, states.next().flatten())),
                name,
                record,
            }
        });
        shown.collect()
    }

    /// Changes a schedule: `change` gets the present record, or the error that it cannot be read,
    /// and the store's time. It returns the new record; `None` removes the schedule. It is called
    /// again if another client was faster. Returns the new record and the time.
    ///
    /// # Errors
    /// The refusal of `change`, or any [`ScheduleError`].
    pub async fn change<E: From<ScheduleError>>(
        &self,
        name: &ScheduleName,
        mut change: impl FnMut(
            Result<Option<Record>, ScheduleError>,
            UnixMillis,
        ) -> Result<Option<Record>, E>,
    ) -> Result<(Option<Record>, UnixMillis), E> {
        let now = self.now().await?;
        for _ in 0..MAX_TRIES {
            let stored = self.shared.queue.schedule(name.clone()).await;
            let stored = stored.map_err(ScheduleError::from)?;
            let old = stored.as_ref().map(Record::parse).transpose();
            let record = change(old, now)?;
            let new = record.as_ref().map(|record| written(name, record)).transpose()?;
            let old = stored.map(|stored| stored.text);
            let change = ScheduleChange { name: name.clone(), old, new };
            let changed = self.shared.queue.change_schedules(vec![change]).await;
            match changed.map_err(ScheduleError::from)?.first() {
                Some(ScheduleChanged::Done) => return Ok((record, now)),
                Some(ScheduleChanged::TooMany) => return Err(ScheduleError::TooMany.into()),
                Some(ScheduleChanged::Stale) | None => {}
            }
        }
        Err(ScheduleError::Contended(name.clone()).into())
    }

    /// Puts a job of a schedule now; its next instant stays. `check` gets the record and may refuse
    /// the put.
    ///
    /// # Errors
    /// The refusal of `check`, or any [`ScheduleError`].
    pub async fn run<E: From<ScheduleError> + Debug>(
        &self,
        name: &ScheduleName,
        check: impl Fn(&Record) -> Result<(), E>,
    ) -> Result<(JobId, Record, Placed), E> {
        // One instant for all attempts: a repeated put keeps the job of the first one.
        let mut instant = self.now().await?;
        // An attempt may have put the job or advanced the schedule, and yet not be the last one.
        let mut has_changed = false;
        for _ in 0..MAX_TRIES {
            let (id, record, fired) = match self.try_to_run(name, &check, instant).await {
                Err(error) if has_changed => {
                    tracing::warn!(%name, ?error, "a job may have been put, but an attempt failed");
                    break;
                }
                tried => tried?,
            };
            match fired {
                Fired::Placed(placed) => return Ok((id, record, placed)),
                Fired::Taken => (instant, has_changed) = (instant.after(Millis::new(1)), true),
                Fired::Stale => has_changed |= self.shared.queue.fires_in_two_steps(),
            }
        }
        Err(ScheduleError::Contended(name.clone()).into())
    }

    /// Tries to put a job of a schedule with this instant.
    async fn try_to_run<E: From<ScheduleError>>(
        &self,
        name: &ScheduleName,
        check: impl Fn(&Record) -> Result<(), E>,
        instant: UnixMillis,
    ) -> Result<(JobId, Record, Fired), E> {
        let stored = self.shared.queue.schedule(name.clone()).await;
        let stored = stored.map_err(ScheduleError::from)?;
        let stored = stored.ok_or_else(|| ScheduleError::NotFound(name.clone()))?;
        let record = Record::parse(&stored)?;
        check(&record)?;
        let job = self.shared.queue.scheduled_job(record.put(name, instant)?);
        let (id, topic, bytes) = (job.id.clone(), job.topic.clone(), job.body.len());
        let admitted = self.shared.capacity.put(&topic, bytes, &self.shared.queue).await;
        let _admitted = admitted.map_err(ScheduleError::Full)?;
        let last = Some(LastJob { instant, due_at: record.due_at(name, instant) });
        let new = written(name, &Record { last, ..record.clone() })?;
        let firing = Firing { schedule: stored, new, job };
        match self.shared.queue.fire(vec![firing]).await.pop() {
            Some(fired) => Ok((id, record, fired.map_err(ScheduleError::from)?)),
            None => Ok((id, record, Fired::Stale)),
        }
    }

    /// Returns the first instants of a timing, and describes it.
    ///
    /// # Errors
    /// The inner result: the timing is invalid.
    pub async fn preview(
        &self,
        timing: &TimingFields,
    ) -> Result<Result<(Vec<UnixMillis>, String), Invalid>, ScheduleError> {
        let now = self.now().await?;
        Ok(timing.parse(now).map(|timing| {
            let first = timing.next_after(now.get()).map(UnixMillis::new);
            (following(first, &timing), timing.description())
        }))
    }

    /// Returns the store's time, as far as it is believed.
    pub async fn now(&self) -> Result<UnixMillis, ScheduleError> {
        Ok(self.shared.queue.due_schedules(0).await?.now)
    }
}

fn written(name: &ScheduleName, record: &Record) -> Result<NewSchedule, ScheduleError> {
    record.stored().map_err(|error| ScheduleError::Unreadable(name.clone(), error.to_string()))
}

fn upcoming(record: &Record, timing: &Timing, now: UnixMillis) -> Vec<UnixMillis> {
    let first = match record.paused {
        true => record.first_after(timing, now),
        false => record.next,
    };
    following(first, timing)
}

/// Returns the first instants, beginning with this one.
fn following(first: Option<UnixMillis>, timing: &Timing) -> Vec<UnixMillis> {
    let next = |at: &UnixMillis| timing.next_after(at.get()).map(UnixMillis::new);
    std::iter::successors(first, next).take(SHOWN_INSTANTS).collect()
}
