//! Schedules in the file: their texts are on disk, and an index of names and times in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use async_trait::async_trait;

use super::{
    FileStore, finished::put, health::Need, machine::Write, records::Records,
    writer_state::WriterState,
};
use crate::{
    job::{Bucket, NewJob, OnConflict, Refusal, ScheduleName, UnixMillis},
    store::{
        DueSchedules, Fired, Firing, MAX_READ_BYTES, MAX_SCHEDULES, NewSchedule, Reply,
        ScheduleChange, ScheduleChanged, SchedulePage, ScheduleStore, SchedulesFound, StoreError,
        StoreResult, StoredSchedule,
    },
};

/// Names of the committed schedules, and when a server must look at each.
#[derive(Default)]
pub struct ScheduleIndex {
    names: BTreeMap<ScheduleName, Option<UnixMillis>>,
    times: BTreeSet<(UnixMillis, ScheduleName)>,
}

/// Result of a look at a schedule of the index.
enum Look {
    Sound(StoredSchedule),
    /// A change of this batch, which may fail, removes it.
    Removed,
    Damaged(ScheduleName),
}

impl ScheduleIndex {
    /// Reads the index from the file; also returns the number of damaged rows.
    pub fn load(records: &Records) -> rusqlite::Result<(Self, u64)> {
        let mut index = Self::default();
        let wrong = records.load_schedules(|name, next_at| index.set(name, Some(next_at)))?;
        Ok((index, wrong.len() as u64))
    }

    /// Follows committed writes.
    pub fn follow<'a>(&mut self, writes: impl Iterator<Item = &'a Write>) {
        for write in writes {
            if let Write::Schedule { name, new } = write {
                self.set(name.clone(), new.as_ref().map(|new| new.next_at));
            }
        }
    }

    fn set(&mut self, name: ScheduleName, new: Option<Option<UnixMillis>>) {
        if let Some(Some(old)) = self.names.remove(&name) {
            self.times.remove(&(old, name.clone()));
        }
        let Some(next_at) = new else { return };
        self.times.extend(next_at.map(|at| (at, name.clone())));
        self.names.insert(name, next_at);
    }

    /// Forgets the time of a schedule until the next start.
    fn never(&mut self, name: &ScheduleName) {
        if let Some(next_at) = self.names.get_mut(name)
            && let Some(at) = next_at.take()
        {
            self.times.remove(&(at, name.clone()));
        }
    }

    /// Returns the names of a page, and one more if others follow.
    fn page(&self, page: &SchedulePage) -> Vec<ScheduleName> {
        let after = page.after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        // All names with the prefix follow each other, beginning with the prefix itself.
        let names = self.names.range::<ScheduleName, _>((after, Bound::Unbounded));
        let names = names.map(|(name, _)| name);
        let before = |name: &&ScheduleName| *name.as_str() < *page.prefix;
        let with_prefix = |name: &&ScheduleName| name.as_str().starts_with(&page.prefix);
        names.skip_while(before).take_while(with_prefix).take(page.limit + 1).cloned().collect()
    }
}

impl WriterState {
    /// Returns a schedule, including the changes of this batch.
    fn schedule(&self, name: &ScheduleName) -> StoreResult<Option<NewSchedule>> {
        self.read_schedule(name).map_err(StoreError::unavailable)
    }

    fn read_schedule(&self, name: &ScheduleName) -> rusqlite::Result<Option<NewSchedule>> {
        let change = self.writes.iter().rev().find_map(|write| match write {
            Write::Schedule { name: changed, new } if changed == name => Some(new.clone()),
            _ => None,
        });
        match change {
            Some(new) => Ok(new),
            None => self.records.schedule(name),
        }
    }

    /// Reads a schedule that the index names. A damaged row must not keep others from firing.
    fn look(&self, name: ScheduleName) -> StoreResult<Look> {
        match self.read_schedule(&name) {
            Ok(Some(NewSchedule { text, .. })) => Ok(Look::Sound(StoredSchedule { name, text })),
            Ok(None) => Ok(Look::Removed),
            Err(cause) if self.records.is_damage(&cause) => {
                tracing::error!(%name, %cause, "skipped a damaged schedule");
                Ok(Look::Damaged(name))
            }
            Err(cause) => Err(StoreError::unavailable(cause)),
        }
    }

    fn due_schedules(&mut self, limit: usize) -> StoreResult<DueSchedules> {
        let now = self.believed_now().floor;
        let (mut due, mut bytes, mut lost, mut failed) = (Vec::new(), 0, Vec::new(), None);
        let mut times = self.schedules.times.iter().peekable();
        while due.len() + lost.len() < limit
            && bytes < MAX_READ_BYTES
            && let Some((_, name)) = times.next_if(|(at, _)| *at <= now)
        {
            match self.look(name.clone()) {
                Ok(Look::Sound(stored)) => {
                    bytes += stored.text.len();
                    due.push(stored);
                }
                Ok(Look::Removed) => {}
                Ok(Look::Damaged(name)) => lost.push(name),
                Err(error) => failed = Some(error),
            }
        }
        let next_at = times.peek().map(|(at, _)| *at);
        // A damaged schedule must not stay the first one of each look.
        for name in lost {
            self.schedules.never(&name);
        }
        // A schedule that the disk fails to return does not keep others from firing.
        if let Some(error) = failed.filter(|_| due.is_empty()) {
            return Err(error);
        }
        let steady_since = self.watch.steady_since();
        Ok(DueSchedules { now, due, next_at, steady_since })
    }

    fn change_schedule(&mut self, change: ScheduleChange) -> StoreResult<ScheduleChanged> {
        let ScheduleChange { name, old, new } = change;
        let known = self.schedule(&name)?;
        if known.as_ref().map(|known| &known.text) != old.as_ref() {
            return Ok(ScheduleChanged::Stale);
        }
        if let (Some(known), Some(new)) = (&known, &new)
            && known.text == new.text
            && known.next_at.is_some()
            && new.next_at >= known.next_at
        {
            // Only the next look is later. It need not be on disk: after a restart, a server looks
            // at the earlier time.
            self.schedules.set(name, Some(new.next_at));
            return Ok(ScheduleChanged::Done);
        }
        if old.is_none() && new.is_some() && self.schedules.names.len() >= MAX_SCHEDULES {
            return Ok(ScheduleChanged::TooMany);
        }
        self.writes.push(Write::Schedule { name, new });
        Ok(ScheduleChanged::Done)
    }
}

/// Puts the jobs of schedules and advances these schedules.
pub fn fire(
    writer: &mut WriterState,
    bucket: Bucket,
    firings: Vec<Firing>,
) -> StoreResult<Vec<Reply<Fired>>> {
    writer.all_or_nothing(|writer| {
        firings.into_iter().map(|firing| fire_one(writer, bucket, firing)).collect()
    })
}

fn fire_one(writer: &mut WriterState, bucket: Bucket, firing: Firing) -> StoreResult<Reply<Fired>> {
    let Firing { schedule: StoredSchedule { name, text }, new, job } = firing;
    if writer.schedule(&name)?.is_none_or(|schedule| schedule.text != text) {
        return Ok(Ok(Fired::Stale(None)));
    }
    let job = NewJob { on_conflict: OnConflict::Reject, ..job };
    let placed = match put(writer, bucket, vec![job])?.pop() {
        Some(Ok(placed)) => placed,
        Some(Err(Refusal::Exists(_))) | None => return Ok(Ok(Fired::Taken)),
        Some(Err(refusal)) => return Ok(Err(refusal)),
    };
    writer.writes.push(Write::Schedule { name, new: Some(new) });
    Ok(Ok(Fired::Placed(placed)))
}

#[async_trait]
impl ScheduleStore for FileStore {
    async fn due_schedules(&self, limit: usize) -> StoreResult<DueSchedules> {
        self.writer.read(move |writer| writer.due_schedules(limit)).await
    }

    async fn schedule(&self, name: ScheduleName) -> StoreResult<Option<StoredSchedule>> {
        let read = move |writer: &mut WriterState| {
            let found = writer.schedule(&name)?;
            Ok(found.map(|NewSchedule { text, .. }| StoredSchedule { name, text }))
        };
        self.writer.read(read).await
    }

    async fn schedules(&self, page: SchedulePage) -> StoreResult<SchedulesFound> {
        let read = move |writer: &mut WriterState| {
            let mut names = writer.schedules.page(&page);
            let mut more_after = SchedulesFound::cut(&mut names, page.limit);
            let (mut schedules, mut bytes) = (Vec::new(), 0);
            let mut names = names.into_iter().peekable();
            while let Some(name) = names.next() {
                if let Look::Sound(stored) = writer.look(name.clone())? {
                    bytes += stored.text.len();
                    schedules.push(stored);
                }
                if bytes >= MAX_READ_BYTES && names.peek().is_some() {
                    more_after = Some(name);
                    break;
                }
            }
            Ok(SchedulesFound { schedules, more_after })
        };
        self.writer.read(read).await
    }

    async fn change_schedules(
        &self,
        changes: Vec<ScheduleChange>,
    ) -> StoreResult<Vec<ScheduleChanged>> {
        let grows = changes.iter().any(|change| change.new.is_some());
        let need = if grows { Need::Growing } else { Need::Writing };
        let change = move |writer: &mut WriterState| {
            writer.all_or_nothing(|writer| {
                changes.into_iter().map(|change| writer.change_schedule(change)).collect()
            })
        };
        self.writer.call_with(need, change).await
    }
}

#[cfg(test)]
mod tests;
