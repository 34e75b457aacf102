//! One look at the due schedules.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use recurrence::Timing;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    job::{JobId, Millis, ScheduleName, State, UnixMillis},
    queue::Admitted,
    schedules::{
        LastJob, Overlap, Record, ScheduleError,
        plan::{Step, step},
        record::job_id,
        service::Shared,
    },
    store::{
        Fired, Firing, NewSchedule, Placed, PutOutcome, ScheduleChange, StoreResult, StoredSchedule,
    },
};

/// Maximum number of schedules of one pass.
const MAX_SCHEDULES: usize = 500;
/// Time until the next look at a schedule whose job was refused.
const RETRY: Millis = Millis::new(1_000);
/// Time until the next look at a schedule that cannot be read.
const UNREADABLE_RETRY: Millis = Millis::new(60_000);
/// Maximum number of schedules that are remembered as catching up.
const MAX_CATCHING_UP: usize = 10_000;

/// When the next pass begins.
pub enum Next {
    Now,
    /// Another server was faster.
    Contested,
    In(Duration),
}

/// State that passes hand on.
#[derive(Default)]
pub struct Passes {
    /// The first and the last of the missed instants that a schedule puts one after the other.
    catching_up: HashMap<ScheduleName, (UnixMillis, UnixMillis)>,
    /// Schedules whose fault was logged.
    logged: HashSet<ScheduleName>,
}

/// A due schedule.
struct Due {
    stored: StoredSchedule,
    record: Record,
    timing: Timing,
    next: UnixMillis,
}

/// The changes that a pass makes.
#[derive(Default)]
struct Work {
    firings: Vec<Firing>,
    /// The instants of `firings`.
    instants: Vec<UnixMillis>,
    admitted: Vec<Admitted>,
    changes: Vec<ScheduleChange>,
}

impl Passes {
    /// Makes one step of each due schedule.
    pub async fn pass(&mut self, shared: &Shared, stop: &CancellationToken) -> StoreResult<Next> {
        let asked = Instant::now();
        let due = shared.queue.due_schedules(MAX_SCHEDULES).await?;
        let (now, next_at, count) = (due.now, due.next_at, due.due.len());
        if count == 0 || stop.is_cancelled() {
            // Schedules that are due but cannot be read must not keep this task busy.
            let wait = next_at.map_or(Duration::MAX, |at| match at <= now {
                true => RETRY.into(),
                false => at.since(now).into(),
            });
            return Ok(Next::In(wait.saturating_sub(asked.elapsed())));
        }
        let mut work = Work::default();
        let read = due.due.into_iter().filter_map(|stored| self.read(stored, now, &mut work));
        let read: Vec<Due> = read.collect();
        let running = running(shared, &read).await;
        for due in read {
            match last_id(&due.stored.name, &due.record).and_then(|id| running.get(&id)) {
                Some(Err(())) => work.look_again(due.stored, Some(now.after(RETRY))),
                Some(Ok(true)) => self.plan(shared, due, now, true, &mut work).await,
                Some(Ok(false)) | None => self.plan(shared, due, now, false, &mut work).await,
            }
        }
        let late = |instant: UnixMillis| Duration::from(now.since(instant)) + asked.elapsed();
        let contested = work.apply(shared, now, late).await?;
        Ok(if contested { Next::Contested } else { Next::Now })
    }

    /// Parses a schedule. One that cannot be read, or is not due, gets another look later.
    fn read(&mut self, stored: StoredSchedule, now: UnixMillis, work: &mut Work) -> Option<Due> {
        let parsed = Record::parse(&stored).and_then(|record| {
            let timing = record.definition.timing.parse(now).map_err(|invalid| {
                let reason = format!("`{}` {}", invalid.field, invalid.message);
                ScheduleError::Unreadable(stored.name.clone(), reason)
            })?;
            Ok((record, timing))
        });
        let (look_at, parsed) = match parsed {
            Ok((record, timing)) => (record.next, Some((record, timing))),
            Err(error) => {
                if self.logged.insert(stored.name.clone()) {
                    tracing::error!(%error, "skipped a schedule");
                }
                (Some(now.after(UNREADABLE_RETRY)), None)
            }
        };
        match (look_at, parsed) {
            (Some(next), Some((record, timing))) if next <= now => {
                Some(Due { stored, record, timing, next })
            }
            (look_at, _) => {
                work.look_again(stored, look_at);
                None
            }
        }
    }

    async fn plan(
        &mut self,
        shared: &Shared,
        due: Due,
        now: UnixMillis,
        is_running: bool,
        work: &mut Work,
    ) {
        let Due { stored, record, timing, next } = due;
        let mut catching_up = self.catching_up.get(&stored.name).copied();
        let definition = &record.definition;
        let Step { put, next: following, missed } =
            step(&timing, definition.missed, next, now, &mut catching_up);
        shared.meters.missed.inc_by(missed);
        match catching_up {
            Some(window) if next <= window.1 => {
                if self.catching_up.len() < MAX_CATCHING_UP {
                    self.catching_up.insert(stored.name.clone(), window);
                }
            }
            _ => drop(self.catching_up.remove(&stored.name)),
        }
        let skips = definition.overlap == Overlap::Skip && is_running;
        let advanced = Record { next: following, ..record.clone() };
        let Some(instant) = put.filter(|_| !skips) else {
            shared.meters.skipped.inc_by(put.is_some().into());
            return work.change(stored, &advanced);
        };
        let due_at = record.due_at(&stored.name, instant);
        let last = Some(LastJob { instant, due_at });
        let put_until = Some(record.put_until.map_or(instant, |last| last.max(instant)));
        let (job, new) = match (
            record.put(&stored.name, instant),
            (Record { last, put_until, ..advanced }).stored(),
        ) {
            (Ok(put), Ok(new)) => (shared.queue.scheduled_job(put), new),
            (put, _) => {
                let error = put.err();
                tracing::error!(name = %stored.name, ?error, "an instant cannot be put");
                return work.look_again(stored, Some(now.after(UNREADABLE_RETRY)));
            }
        };
        match shared.capacity.put(&job.topic, job.body.len(), &shared.queue).await {
            Ok(admitted) => {
                work.admitted.push(admitted);
                work.instants.push(instant);
                work.firings.push(Firing { schedule: stored, new, job });
            }
            Err(full) => {
                tracing::debug!(name = %stored.name, ?full, "a scheduled job was refused; trying again");
                work.look_again(stored, Some(now.after(RETRY)));
            }
        }
    }
}

/// Returns whether the last jobs of schedules that skip instants have not ended; `Err` if the store
/// could not tell.
async fn running(shared: &Shared, due: &[Due]) -> HashMap<JobId, Result<bool, ()>> {
    let skips = |due: &&Due| due.record.definition.overlap == Overlap::Skip;
    let ids = due.iter().filter(skips).filter_map(|due| last_id(&due.stored.name, &due.record));
    let ids: Vec<JobId> = ids.collect();
    if ids.is_empty() {
        return HashMap::new();
    }
    let states = shared.queue.states(ids.clone()).await;
    let runs = |state: StoreResult<_>| {
        let state = state.map_err(drop)?;
        Ok(matches!(state, Some(State::Delayed | State::Ready | State::Reserved)))
    };
    ids.into_iter().zip(states.into_iter().map(runs)).collect()
}

fn last_id(name: &ScheduleName, record: &Record) -> Option<JobId> {
    job_id(name, record.last?.instant).ok()
}

impl Work {
    /// Leaves a schedule as it is; a server looks at it at another time.
    fn look_again(&mut self, stored: StoredSchedule, next_at: Option<UnixMillis>) {
        let StoredSchedule { name, text } = stored;
        let new = Some(NewSchedule { text: text.clone(), next_at });
        self.changes.push(ScheduleChange { name, old: Some(text), new });
    }

    fn change(&mut self, stored: StoredSchedule, record: &Record) {
        let StoredSchedule { name, text } = stored;
        match record.stored() {
            Ok(new) => {
                self.changes.push(ScheduleChange { name, old: Some(text), new: Some(new) });
            }
            Err(error) => tracing::error!(%name, %error, "a schedule cannot be written"),
        }
    }

    /// Applies the changes; returns whether another server has made one of them first.
    async fn apply(
        mut self,
        shared: &Shared,
        now: UnixMillis,
        late: impl Fn(UnixMillis) -> Duration,
    ) -> StoreResult<bool> {
        let schedules: Vec<StoredSchedule> =
            self.firings.iter().map(|firing| firing.schedule.clone()).collect();
        let firings = std::mem::take(&mut self.firings);
        let results = shared.queue.fire(firings).await;
        let mut contested = false;
        for ((schedule, instant), result) in
            schedules.into_iter().zip(std::mem::take(&mut self.instants)).zip(results)
        {
            match result {
                Ok(Fired::Placed(Placed { how, .. })) => {
                    shared.meters.fired(late(instant));
                    shared.meters.conflicts.inc_by((how != PutOutcome::Created).into());
                }
                Ok(Fired::Taken) => drop(shared.meters.conflicts.inc()),
                Ok(Fired::Stale) => contested = true,
                Err(error) => {
                    // The other schedules must not wait for a bucket that fails.
                    tracing::debug!(name = %schedule.name, %error, "a job was not put; trying again");
                    self.look_again(schedule, Some(now.after(RETRY)));
                }
            }
        }
        if !self.changes.is_empty() {
            shared.queue.advance_schedules(self.changes).await?;
        }
        Ok(contested)
    }
}
