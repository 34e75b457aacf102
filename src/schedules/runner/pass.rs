//! One look at the due schedules.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use futures::future::join_all;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    clock_errors::ClockErrors,
    planning::{Due, Planner, UNREADABLE_RETRY},
    work::Work,
};
use crate::{
    job::{JobId, ScheduleName, State, Topic, Topics, UnixMillis},
    queue::QueueError,
    schedules::{Overlap, Record, ScheduleError, service::Shared},
    store::{DueSchedules, StoreResult, StoredSchedule, Target},
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
    clock_errors: ClockErrors,
}

impl Passes {
    /// Makes one step of each due schedule, and looks for schedules that a clock error silenced.
    pub async fn pass(&mut self, shared: &Shared, stop: &CancellationToken) -> StoreResult<Next> {
        let asked = Instant::now();
        let due = shared.queue.due_schedules(MAX_SCHEDULES).await?;
        let (now, steady_since) = (due.now, due.steady_since);
        let next = self.make_steps(shared, due, asked, stop).await?;
        let follows = self.clock_errors.examine(shared, now, steady_since).await?;
        Ok(if follows { Next::Now } else { next })
    }

    async fn make_steps(
        &mut self,
        shared: &Shared,
        due: DueSchedules,
        asked: Instant,
        stop: &CancellationToken,
    ) -> StoreResult<Next> {
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
            match running.get(&due.stored.name) {
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
            let unreadable = |reason| ScheduleError::Unreadable(stored.name.clone(), reason);
            let timing = record.timing().map_err(unreadable)?;
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

/// Returns whether schedules that skip instants have a job that has not ended; `Err` if the store
/// could not tell.
async fn running(shared: &Shared, due: &[Due]) -> HashMap<ScheduleName, Result<bool, ()>> {
    let skips = |due: &&Due| due.record.definition.overlap == Overlap::Skip;
    let last_ids = |due: &Due| {
        let (name, topic) = (&due.stored.name, &due.record.definition.topic);
        due.record.last_ids(name).map(|id| (name.clone(), topic.clone(), id)).collect()
    };
    let asked: Vec<(ScheduleName, Topic, JobId)> =
        due.iter().filter(skips).flat_map::<Vec<_>, _>(last_ids).collect();
    if asked.is_empty() {
        return HashMap::new();
    }
    let states = shared.queue.states(asked.iter().map(|(.., id)| id.clone()).collect()).await;
    let each = asked.into_iter().zip(states).map(async |((name, topic, id), state)| match state {
        Err(_) => (name, Err(())),
        Ok(Some(State::Delayed | State::Ready | State::Reserved)) => {
            (name, is_in(shared, topic, id).await)
        }
        Ok(Some(State::Dead | State::Finished) | None) => (name, Ok(false)),
    });
    let mut running = HashMap::new();
    for (name, runs) in join_all(each).await {
        let known = running.entry(name).or_insert(Ok(false));
        *known = match (*known, runs) {
            (Ok(true), _) | (_, Ok(true)) => Ok(true),
            (Err(()), _) | (_, Err(())) => Err(()),
            (Ok(false), Ok(false)) => Ok(false),
        };
    }
    running
}

/// Returns whether a job is still in this topic. One that has died may have moved to another.
async fn is_in(shared: &Shared, topic: Topic, id: JobId) -> Result<bool, ()> {
    match shared.queue.get(Target { id, topics: Topics::ALL }).await {
        Ok(job) => Ok(job.topic == topic),
        Err(QueueError::Refused(_)) => Ok(false),
        Err(_) => Err(()),
    }
}
