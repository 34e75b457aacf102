//! Schedules that advanced while the clock was ahead. No server would look at them until the clock
//! shows that time again. So each server examines all schedules once the clock has been steady for
//! a minute since the start, and since each jump.

use std::time::Instant;

use crate::{
    job::{ScheduleName, UnixMillis},
    schedules::{Record, service::Shared},
    store::{
        NewSchedule, STEADY_FOR, ScheduleChange, ScheduleChanged, SchedulePage, StoreResult,
        StoredSchedule,
    },
};

/// Number of schedules that are examined between two looks at the due ones.
const PAGE: usize = 100;

/// The last examination of this server.
#[derive(Default)]
pub struct ClockErrors {
    /// The time since which the clock is steady.
    steady_since: Option<Instant>,
    /// The examination continues after this name.
    after: Option<ScheduleName>,
    is_done: bool,
}

/// A change of a schedule, and the record that it had if the clock was ahead when it advanced.
type Correction = (ScheduleChange, Option<Record>);

impl ClockErrors {
    /// Examines one page of schedules if an examination is due. Returns whether others follow.
    pub async fn examine(
        &mut self,
        shared: &Shared,
        now: UnixMillis,
        steady_since: Option<Instant>,
    ) -> StoreResult<bool> {
        if self.steady_since != steady_since {
            *self = Self { steady_since, ..Self::default() };
        }
        let is_steady = steady_since.is_some_and(|since| since.elapsed() >= STEADY_FOR);
        if self.is_done || !is_steady {
            return Ok(false);
        }
        let page = SchedulePage { prefix: String::new(), after: self.after.clone(), limit: PAGE };
        let found = shared.queue.schedules(page).await?;
        let corrections = found.schedules.into_iter().filter_map(|stored| correction(stored, now));
        apply(shared, corrections.collect()).await?;
        self.is_done = found.more_after.is_none();
        self.after = found.more_after;
        Ok(!self.is_done)
    }
}

/// Returns what to change in a schedule; `None` if it advanced by the right time.
fn correction(stored: StoredSchedule, now: UnixMillis) -> Option<Correction> {
    let look_at = |next_at| Some(NewSchedule { text: stored.text.clone(), next_at: Some(next_at) });
    let (new, ahead) = match Record::parse(&stored) {
        Ok(record) if record.is_ahead_of(now) => {
            let timing = record.timing().ok()?;
            (record.clone().without_time_ahead(&timing, now).stored().ok(), Some(record))
        }
        // A server may have set the time of the next try when the clock was ahead.
        Ok(Record { next: Some(next), .. }) if next <= now => (look_at(next), None),
        Ok(_) => return None,
        Err(_) => (look_at(now), None),
    };
    let StoredSchedule { name, text } = stored;
    Some((ScheduleChange { name, old: Some(text), new: Some(new?) }, ahead))
}

async fn apply(shared: &Shared, corrections: Vec<Correction>) -> StoreResult<()> {
    if corrections.is_empty() {
        return Ok(());
    }
    let (changes, ahead): (Vec<ScheduleChange>, Vec<_>) = corrections.into_iter().unzip();
    let names: Vec<ScheduleName> = changes.iter().map(|change| change.name.clone()).collect();
    let changed = shared.queue.advance_schedules(changes).await?;
    for ((name, ahead), changed) in names.iter().zip(ahead).zip(changed) {
        if let Some(Record { next, put_until, .. }) = ahead
            && changed == ScheduleChanged::Done
        {
            shared.meters.clock_ahead.inc();
            tracing::warn!(
                %name,
                ?next,
                ?put_until,
                "the clock was ahead when a schedule advanced; it goes on with the first instant after now"
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
