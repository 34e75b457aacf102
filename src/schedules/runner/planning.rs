//! Plans the steps of the due schedules of a pass.

use std::collections::HashMap;

use recurrence::Timing;

use super::{
    retries::{Retries, Retry},
    work::{Counts, Try, Work},
};
use crate::{
    job::{Millis, ScheduleName, UnixMillis},
    schedules::{
        LastJob, Overlap, Record,
        plan::{Step, is_missed, last_try, step},
        record::job_id,
        service::Shared,
    },
    store::{Firing, StoredSchedule},
};

/// Time until the next look at a schedule that cannot be read, or whose instant cannot be put. A
/// later version that can read it must find its instant not missed yet.
pub const UNREADABLE_RETRY: Millis = Millis::new(20_000);
/// Maximum number of schedules that are remembered as catching up.
const MAX_CATCHING_UP: usize = 10_000;

/// A due schedule.
pub struct Due {
    pub stored: StoredSchedule,
    pub record: Record,
    pub timing: Timing,
    pub next: UnixMillis,
}

impl Due {
    fn retry(&self, now: UnixMillis) -> Retry {
        let missed = self.record.definition.missed;
        Retry { next: self.next, last_try: last_try(&self.timing, missed, self.next, now) }
    }
}

/// Plans steps, and remembers what one pass hands on to the next.
#[derive(Default)]
pub struct Planner {
    /// The first and the last of the missed instants that a schedule puts one after the other.
    catching_up: HashMap<ScheduleName, (UnixMillis, UnixMillis)>,
    pub retries: Retries,
}

impl Planner {
    /// Leaves a schedule as it is, since the store cannot tell whether its last job has ended.
    pub fn retry(&mut self, due: Due, now: UnixMillis, work: &mut Work) {
        let look_at = self.retries.look_at(&due.stored.name, due.retry(now), now);
        work.look_again(due.stored, Some(look_at));
    }

    /// Plans the step of a due schedule.
    pub async fn plan(
        &mut self,
        shared: &Shared,
        due: Due,
        now: UnixMillis,
        is_running: bool,
        work: &mut Work,
    ) {
        let retry = due.retry(now);
        let Due { stored, record, timing, next } = due;
        let mut catching_up = self.catching_up.get(&stored.name).copied();
        let definition = &record.definition;
        let Step { put, next: following, missed } =
            step(&timing, definition.missed, next, now, record.is_behind, &mut catching_up);
        match catching_up {
            Some(window) if next <= window.1 => {
                if self.catching_up.len() < MAX_CATCHING_UP {
                    self.catching_up.insert(stored.name.clone(), window);
                }
            }
            _ => drop(self.catching_up.remove(&stored.name)),
        }
        if missed > 0
            && is_missed(next, now)
            && let Some(instant) = put
            && self.retries.was_refused(&stored.name, next)
        {
            // Leaves out the earlier instants in a step of its own: they are counted once, even if
            // puts are refused for a long time. A put comes before the next such step, so that it
            // never waits for steps that newer instants make.
            let left_out =
                Record { next: Some(instant), is_behind: true, sought_after: Some(now), ..record };
            return work.advance(stored, &left_out, Counts { missed, skipped: 0 });
        }
        let skips = definition.overlap == Overlap::Skip && is_running;
        let advanced =
            Record { next: following, is_behind: false, sought_after: Some(now), ..record.clone() };
        let Some(instant) = put.filter(|_| !skips) else {
            let counts = Counts { missed, skipped: put.is_some().into() };
            return work.advance(stored, &advanced, counts);
        };
        let due_at = record.due_at(&stored.name, instant);
        let last = Some(LastJob { instant, due_at, mark: None });
        let put_until = Some(record.put_until.map_or(instant, |last| last.max(instant)));
        let advanced = Record { last, put_until, ..advanced };
        let id = job_id(&stored.name, instant, None);
        let (job, new) = match id.and_then(|id| Ok((id, advanced.written(&stored.name)?))) {
            Ok((id, new)) => {
                (shared.queue.scheduled_job(record.put(&stored.name, instant, id)), new)
            }
            Err(error) => {
                tracing::error!(name = %stored.name, %error, "an instant cannot be put");
                return work.look_again(stored, Some(now.after(UNREADABLE_RETRY)));
            }
        };
        match shared.capacity.put(&job.topic, job.body.len(), &shared.queue).await {
            Ok(admitted) => {
                let firing = Firing { schedule: stored, new, job };
                work.fire(firing, Try { instant, missed, retry, advanced }, admitted);
            }
            Err(full) => {
                tracing::debug!(name = %stored.name, ?full, "a scheduled job was refused; trying again");
                let look_at = self.retries.look_at(&stored.name, retry, now);
                work.look_again(stored, Some(look_at));
            }
        }
    }
}
