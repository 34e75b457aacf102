//! The schedules of a store: what clients do with them, and the task that puts their jobs.

use std::{sync::Arc, time::Duration};

use prometheus_client::registry::Registry;
use recurrence::{Invalid, Timing};
use tokio::{sync::Mutex, time::sleep};
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
    store::{Fired, Firing, Placed, ScheduleChange, ScheduleChanged, SchedulePage, StoredSchedule},
};

/// Attempts of a change that other clients may precede.
const MAX_TRIES: u32 = 10;
/// Attempts of a run, which only instants, changes and the runs of other servers may precede.
const MAX_RUN_TRIES: u32 = 100;
/// Bounds of the pause in ms before another attempt.
const AFTER_CONTEST: std::ops::Range<u64> = 1..20;
/// Runs in the same millisecond get later instants, up to this time ahead of the clock.
const MAX_RUNS_AHEAD: Millis = Millis::new(60_000);

/// The schedules of a queue's store.
pub struct Schedules {
    shared: Arc<Shared>,
    /// Held during a run.
    runs: Mutex<()>,
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
        Arc::new(Self { shared, runs: Mutex::new(()), tasks, stop })
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
            records.iter().map(|(name, record)| record.latest()?.id(name).ok()).collect();
        let asked: Vec<JobId> = ids.iter().flatten().cloned().collect();
        let states = match asked.is_empty() {
            true => Vec::new(),
            false => self.shared.queue.states(asked).await,
        };
        // A bucket that does not answer hides only the states of its jobs.
        let mut states = states.into_iter().map(|state| state.ok().flatten());
        let shown = records.into_iter().zip(ids).map(|((name, record), id)| {
            let timing = record.timing().ok();
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
            let new = record.as_ref().map(|record| record.written(name)).transpose()?;
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
    pub async fn run<E: From<ScheduleError>>(
        &self,
        name: &ScheduleName,
        check: impl Fn(&Record) -> Result<(), E>,
    ) -> Result<(JobId, Record, Placed), E> {
        // Each run changes the text that the next one must match.
        let _turn = self.runs.lock().await;
        let now = self.now().await?;
        let mut earliest = now;
        for tried in 0..MAX_RUN_TRIES {
            if tried > 0 {
                sleep(Duration::from_millis(rand::random_range(AFTER_CONTEST))).await;
            }
            let (id, record, run, fired) = self.try_to_run(name, &check, (now, earliest)).await?;
            match fired {
                Fired::Placed(placed) => return Ok((id, record, placed)),
                // Another server has advanced the schedule between the put and the change.
                Fired::Stale(Some(placed)) => {
                    self.note_run(name, run).await;
                    return Ok((id, record, placed));
                }
                Fired::Taken => earliest = run.instant.after(Millis::new(1)),
                Fired::Stale(None) => {}
            }
        }
        Err(ScheduleError::Contended(name.clone()).into())
    }

    /// Tries to put a job of a schedule with the first instant from `earliest` that no other run
    /// has.
    async fn try_to_run<E: From<ScheduleError>>(
        &self,
        name: &ScheduleName,
        check: impl Fn(&Record) -> Result<(), E>,
        (now, earliest): (UnixMillis, UnixMillis),
    ) -> Result<(JobId, Record, LastJob, Fired), E> {
        let stored = self.shared.queue.schedule(name.clone()).await;
        let stored = stored.map_err(ScheduleError::from)?;
        let stored = stored.ok_or_else(|| ScheduleError::NotFound(name.clone()))?;
        let record = Record::parse(&stored)?;
        check(&record)?;
        // A run that is far ahead was made while the clock was.
        let last = record.last_run.as_ref().filter(|last| last.instant.since(now) < MAX_RUNS_AHEAD);
        let instant =
            last.map_or(earliest, |last| last.instant.after(Millis::new(1)).max(earliest));
        let id = job_id(name, instant, None)?;
        let job = self.shared.queue.scheduled_job(record.put(name, instant, id.clone()));
        let (topic, bytes) = (job.topic.clone(), job.body.len());
        let admitted = self.shared.capacity.put(&topic, bytes, &self.shared.queue).await;
        let _admitted = admitted.map_err(ScheduleError::Full)?;
        let run = LastJob { instant, due_at: record.due_at(name, instant), mark: None };
        let new = Record { last_run: Some(run.clone()), ..record.clone() }.written(name)?;
        let firing = Firing { schedule: stored, new, job };
        match self.shared.queue.fire(vec![firing]).await.pop() {
            Some(fired) => Ok((id, record, run, fired.map_err(ScheduleError::from)?)),
            None => Ok((id, record, run, Fired::Stale(None))),
        }
    }

    /// Adds a run whose job is in the store to its schedule. If that fails, an instant may be put
    /// while the job runs.
    async fn note_run(&self, name: &ScheduleName, run: LastJob) {
        let noted = self.change(name, |old, _| {
            let with_run = |old: Record| {
                let last = old.last_run.clone().filter(|last| last.instant > run.instant);
                Record { last_run: last.or_else(|| Some(run.clone())), ..old }
            };
            Ok::<_, ScheduleError>(old?.map(with_run))
        });
        if let Err(error) = noted.await {
            tracing::warn!(%name, %error, "a schedule does not know of its last run");
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

fn upcoming(record: &Record, timing: &Timing, now: UnixMillis) -> Vec<UnixMillis> {
    let first = match record.paused {
        true => record.clone().restarted(timing, now).next,
        false => record.next,
    };
    following(first, timing)
}

/// Returns the first instants, beginning with this one.
fn following(first: Option<UnixMillis>, timing: &Timing) -> Vec<UnixMillis> {
    let next = |at: &UnixMillis| timing.next_after(at.get()).map(UnixMillis::new);
    std::iter::successors(first, next).take(SHOWN_INSTANTS).collect()
}
