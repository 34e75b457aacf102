//! The changes that a pass makes, and the counts of the applied ones.

use std::time::Duration;

use futures::future::join_all;

use super::{
    conflicts::{Resolved, resolve},
    retries::{Retries, Retry},
};
use crate::{
    job::UnixMillis,
    queue::Admitted,
    schedules::{Record, ScheduleError, service::Shared},
    store::{
        Fired, Firing, NewSchedule, ScheduleChange, ScheduleChanged, StoreResult, StoredSchedule,
    },
};

/// The changes that a pass makes.
#[derive(Default)]
pub struct Work {
    firings: Vec<Firing>,
    /// One for each of `firings`.
    tries: Vec<Try>,
    /// The room of the jobs, until the store has them.
    admitted: Vec<Admitted>,
    changes: Vec<ScheduleChange>,
    /// One for each of `changes`.
    counts: Vec<Counts>,
}

/// A try to put the job of an instant.
pub struct Try {
    pub instant: UnixMillis,
    /// Number of missed instants that the step leaves out.
    pub missed: u64,
    pub retry: Retry,
    /// State of the schedule after the put.
    pub advanced: Record,
}

/// Numbers of instants that a step without a put leaves out.
#[derive(Clone, Copy, Default)]
pub struct Counts {
    pub missed: u64,
    pub skipped: u64,
}

impl Work {
    /// Leaves a schedule as it is; a server looks at it at another time.
    pub fn look_again(&mut self, stored: StoredSchedule, next_at: Option<UnixMillis>) {
        let new = NewSchedule { text: stored.text.clone(), next_at };
        self.change(stored, new, Counts::default());
    }

    /// Advances a schedule without a put.
    pub fn advance(&mut self, stored: StoredSchedule, record: &Record, counts: Counts) {
        match record.stored() {
            Ok(new) => self.change(stored, new, counts),
            Err(error) => {
                tracing::error!(name = %stored.name, %error, "a schedule cannot be written");
            }
        }
    }

    fn change(&mut self, stored: StoredSchedule, new: NewSchedule, counts: Counts) {
        let StoredSchedule { name, text } = stored;
        self.changes.push(ScheduleChange { name, old: Some(text), new: Some(new) });
        self.counts.push(counts);
    }

    /// Puts a job and advances its schedule.
    pub fn fire(&mut self, firing: Firing, each: Try, admitted: Admitted) {
        self.firings.push(firing);
        self.tries.push(each);
        self.admitted.push(admitted);
    }

    /// Applies the changes; returns whether another server has made one of them first.
    pub async fn apply(
        mut self,
        shared: &Shared,
        now: UnixMillis,
        late: impl Fn(UnixMillis) -> Duration,
        retries: &mut Retries,
    ) -> StoreResult<bool> {
        let meters = &shared.meters;
        let schedules: Vec<StoredSchedule> =
            self.firings.iter().map(|firing| firing.schedule.clone()).collect();
        let results = shared.queue.fire(std::mem::take(&mut self.firings)).await;
        let tries = std::mem::take(&mut self.tries);
        let outcomes = schedules.iter().zip(&tries).zip(results);
        let outcomes = outcomes.map(async |((schedule, each), result)| match result {
            Ok(Fired::Placed(_)) => Ok((Resolved::Placed, false)),
            Ok(Fired::Stale(_)) => Ok((Resolved::Again, false)),
            Ok(Fired::Taken) => {
                Ok((resolve(shared, schedule, each.instant, &each.advanced).await?, true))
            }
            Err(error) => Err(ScheduleError::from(error)),
        });
        let outcomes = join_all(outcomes).await;
        let mut contested = false;
        for ((schedule, each), outcome) in schedules.into_iter().zip(tries).zip(outcomes) {
            match outcome {
                Ok((Resolved::Placed, is_conflict)) => {
                    meters.fired(late(each.instant));
                    meters.conflicts.inc_by(is_conflict.into());
                    meters.missed.inc_by(each.missed);
                    retries.forget(&schedule.name);
                }
                Ok((Resolved::HasJob(advanced), _)) => {
                    retries.forget(&schedule.name);
                    self.advance(schedule, &advanced, Counts { missed: each.missed, skipped: 0 });
                }
                Ok((Resolved::Again, _)) => contested = true,
                Err(error) => {
                    // The other schedules must not wait for a bucket that fails.
                    tracing::debug!(name = %schedule.name, %error, "a job was not put; trying again");
                    let look_at = retries.look_at(&schedule.name, each.retry, now);
                    self.look_again(schedule, Some(look_at));
                }
            }
        }
        if !self.changes.is_empty() {
            let changed = shared.queue.advance_schedules(self.changes).await?;
            for (counts, changed) in self.counts.into_iter().zip(changed) {
                if changed == ScheduleChanged::Done {
                    meters.missed.inc_by(counts.missed);
                    meters.skipped.inc_by(counts.skipped);
                }
            }
        }
        Ok(contested)
    }
}
