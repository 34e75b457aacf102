//! One look at the due schedules.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    planning::{Due, Planner, UNREADABLE_RETRY},
    work::Work,
};
use crate::{
    job::{JobId, ScheduleName, State, UnixMillis},
    schedules::{Overlap, Record, ScheduleError, record::job_id, service::Shared},
    store::{StoreResult, StoredSchedule},
};

/// Maximum number of schedules of one pass.
const MAX_SCHEDULES: usize = 500;
/// Time until the next pass if names are due and none of them has a schedule.
const STRAY_PAUSE: Duration = Duration::from_secs(1);

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
    planner: Planner,
    /// Schedules whose fault was logged.
    logged: HashSet<ScheduleName>,
}

impl Passes {
    /// Makes one step of each due schedule.
    pub async fn pass(&mut self, shared: &Shared, stop: &CancellationToken) -> StoreResult<Next> {
        let asked = Instant::now();
        let due = shared.queue.due_schedules(MAX_SCHEDULES).await?;
        let (now, next_at, count) = (due.now, due.next_at, due.due.len());
        if count == 0 || stop.is_cancelled() {
            // Names that are due but have no schedule must not keep this task busy.
            let wait = next_at.map_or(Duration::MAX, |at| match at <= now {
                true => STRAY_PAUSE,
                false => at.since(now).into(),
            });
            return Ok(Next::In(wait.saturating_sub(asked.elapsed())));
        }
        let mut work = Work::default();
        let read = due.due.into_iter().filter_map(|stored| self.read(stored, now, &mut work));
        let read: Vec<Due> = read.collect();
        let running = running(shared, &read).await;
        let planner = &mut self.planner;
        for due in read {
            match last_id(&due.stored.name, &due.record).and_then(|id| running.get(&id)) {
                Some(Err(())) => planner.retry(due, now, &mut work),
                Some(Ok(true)) => planner.plan(shared, due, now, true, &mut work).await,
                Some(Ok(false)) | None => planner.plan(shared, due, now, false, &mut work).await,
            }
        }
        let late = |instant: UnixMillis| Duration::from(now.since(instant)) + asked.elapsed();
        let contested = work.apply(shared, now, late, &mut planner.retries).await?;
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
