//! Runs a batch of work in memory, commits it once, and delivers the results. If the disk refuses
//! some of the work, that work is rolled back in memory, without reading the file.

use std::{
    error::Error,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};

use rusqlite::{ErrorCode, ffi};

use super::{
    ballast::has_room,
    directory::Files,
    health::{Need, failing, full},
    machine::{Machine, Write},
    records::Records,
    room::SPARE_PAGES,
    writer::{Deliver, Work},
    writer_state::WriterState,
};
use crate::store::{Applied, StoreError, StoreResult};

/// Maximum number of attempts to write one batch around damaged jobs. A page has fewer rows.
const MAX_DAMAGED: usize = 256;
/// Number of bytes of the probe that distinguishes a full disk from other failures: SQLite does not
/// report that a quota is used up.
const PROBE_BYTES: u64 = 8 << 20;
/// Interval between attempts to write while writing fails.
const RETRY: Duration = Duration::from_secs(1);
/// Interval at which batches check that the files are in place. Each commit with writes checks it
/// too.
const COMPARE: Duration = Duration::from_millis(100);

/// Number of groups of a batch's writes, by their need: writes that free room, writes that may
/// grow, and writes that add jobs. A group can be refused while the groups before it are committed.
const GROUPS: usize = 3;

/// A position in the work of a batch, to roll back to.
struct Savepoint {
    machines: Vec<usize>,
    writes: usize,
}

struct Failure {
    cause: rusqlite::Error,
    committing: bool,
}

impl Failure {
    /// Returns whether the commit may still be found in the log. This is impossible if a frame
    /// could not be written, and possible if a frame could not be synced.
    fn is_in_doubt(&self) -> bool {
        let surely_not = match &self.cause {
            rusqlite::Error::SqliteFailure(failure, _) => {
                failure.code == ErrorCode::DiskFull
                    || failure.extended_code == ffi::SQLITE_IOERR_WRITE
            }
            _ => false,
        };
        self.committing && !surely_not
    }
}

impl WriterState {
    /// Runs one batch of work, commits it and delivers its results.
    pub fn batch(&mut self, batch: Vec<Work>) {
        if self.compared.elapsed() >= COMPARE {
            self.compare_files();
        }
        let began = Instant::now();
        self.is_alone = batch.len() == 1;
        // Work that needs room comes last: if there is no room, only this work is rolled back.
        let mut groups: [Vec<Work>; GROUPS] = Default::default();
        for work in batch {
            let group = match work.need {
                Need::Nothing | Need::Writing => 0,
                Need::Growing => 1,
                Need::Room => 2,
            };
            groups[group].push(work);
        }
        let done = catch_unwind(AssertUnwindSafe(|| {
            // Comes before `load`, which compares due times with the clock.
            self.follow_clock();
            if self.stale
                && !self.in_doubt
                && let Err(cause) = self.load()
            {
                tracing::error!(%cause, "failed to read the jobs again; trying before the next batch");
            }
            let saves_counted = self.save_counted();
            let done = groups.map(|works| (self.mark(), self.run(works)));
            let (marks, deliver) = split(done);
            let has_writes = !self.writes.is_empty();
            let outcomes = self.commit(&marks);
            if saves_counted && outcomes[0].is_err() {
                self.keep_counted();
            }
            if has_writes {
                self.pace.ended(began.elapsed());
            }
            (outcomes, deliver)
        }));
        // If the batch panicked, its callers see their channels close and report an unknown
        // outcome.
        let Ok((outcomes, deliver)) = done else {
            tracing::error!("a batch panicked; reading the jobs again");
            self.writes.clear();
            self.pending = Default::default();
            self.records.roll_back();
            self.stale = true;
            return;
        };
        for (deliver, outcome) in deliver.into_iter().zip(outcomes) {
            deliver.into_iter().for_each(|deliver| deliver(outcome.clone()));
        }
    }

    fn run(&mut self, works: Vec<Work>) -> Vec<Deliver> {
        let mut deliver = Vec::with_capacity(works.len());
        for Work { need, job } in works {
            let unread = self.stale.then(|| failing("the jobs cannot be read again"));
            let refusal = unread.or_else(|| self.health.refusal(need));
            deliver.push(job(refusal.map_or(Ok(&mut *self), Err)));
        }
        deliver
    }

    /// Runs `work` and rolls all of it back if it fails.
    pub fn all_or_nothing<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> StoreResult<T>,
    ) -> StoreResult<T> {
        let mark = self.mark();
        let done = work(self);
        if done.is_err() {
            self.roll_back(&mark);
            self.writes.truncate(mark.writes);
        }
        done
    }

    fn mark(&mut self) -> Savepoint {
        let machines = self.machines.iter_mut().map(Machine::mark).collect();
        Savepoint { machines, writes: self.writes.len() }
    }

    fn roll_back(&mut self, mark: &Savepoint) {
        self.pending = Default::default();
        let marks = mark.machines.iter();
        self.machines.iter_mut().zip(marks).for_each(|(machine, mark)| machine.roll_back(*mark));
    }

    /// Commits the batch, or the groups for which the disk has room; returns the result of each
    /// group. A group begins at its mark.
    fn commit(&mut self, marks: &[Savepoint; GROUPS]) -> [StoreResult<()>; GROUPS] {
        self.pending = Default::default();
        let mut rest = mem::take(&mut self.writes);
        let mut groups: [Vec<Write>; GROUPS] = Default::default();
        for group in (1..GROUPS).rev() {
            groups[group] = rest.split_off(marks[group].writes);
        }
        // The first group includes writes that precede all work: reservations that moved with the
        // clock.
        groups[0] = rest;
        let mut outcomes: [StoreResult<()>; GROUPS] = [const { Ok(()) }; GROUPS];
        let (mut left, mut is_retry, mut is_unexplained) = (GROUPS, false, false);
        loop {
            let Err(failure) = self.write(&mut groups[..left]) else {
                let written = groups[..left].iter().any(|writes| !writes.is_empty());
                self.schedules.follow(groups[..left].iter().flatten());
                outcomes[..left].fill(self.committed(written));
                if is_unexplained {
                    // Either only a page that the refused groups need failed, or all writes fail.
                    self.retry_writing();
                }
                return outcomes;
            };
            self.records.roll_back();
            let no_room = self.lacks_room(&failure);
            let last = (1..left).rev().find(|group| !groups[*group].is_empty());
            match last.filter(|_| !failure.is_in_doubt()) {
                // Refuses the last group: there is no room, or one of its pages cannot be written.
                Some(group) => {
                    let refusal = if no_room { full() } else { failing(&failure.cause) };
                    is_unexplained |= !no_room;
                    self.roll_back(&marks[group]);
                    outcomes[group..left].fill(Err(refusal));
                    left = group;
                }
                // `lacks_room` has freed room, so this tries again.
                None if no_room && !is_retry && !failure.is_in_doubt() => is_retry = true,
                None => {
                    outcomes[..left].fill(Err(self.undo(&failure, no_room)));
                    return outcomes;
                }
            }
        }
    }

    /// Writes and commits `groups`; replaces the writes of damaged jobs with their quarantine.
    fn write(&mut self, groups: &mut [Vec<Write>]) -> Result<(), Failure> {
        let writes = || groups.iter().flatten();
        if writes().any(|write| matches!(write, Write::Delete { .. } | Write::Finish { .. })) {
            self.vacuum.notice();
        }
        let is_full = self.health.is_full();
        if is_full {
            groups.iter_mut().flatten().for_each(Write::drop_text);
        }
        let grows = groups.iter().skip(1).any(|writes| !writes.is_empty());
        let failed = |committing| move |cause| Failure { cause, committing };
        write_around_damage(&mut self.records, groups).map_err(failed(false))?;
        let spare = if is_full && grows { SPARE_PAGES } else { 0 };
        self.records.take_room(spare).map_err(failed(false))?;
        self.records.commit().map_err(failed(true))
    }

    /// Settles a committed batch; fails if its files are no longer in place.
    fn committed(&mut self, written: bool) -> StoreResult<()> {
        self.machines.iter_mut().for_each(Machine::keep_changes);
        // While the file is in doubt, batches without a write succeed, and move no reservation.
        if !self.stale {
            self.clock_set_by = 0;
        }
        if written {
            self.compare_files();
        }
        match self.health.is_replaced() && written {
            // The batch is in the open files, which may be in another place now.
            true => Err(StoreError::Replaced { applied: Applied::Unknown }),
            false => Ok(()),
        }
    }

    /// Returns whether a write failed for lack of room. If so, deletes the ballast and checkpoints
    /// the log, so that the whole log can be reused.
    fn lacks_room(&mut self, failure: &Failure) -> bool {
        let lacks = match failure.cause.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => true,
            Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen) => {
                !has_room(&self.dir, PROBE_BYTES)
            }
            _ => false,
        };
        if lacks {
            self.health.fill(&failure.cause.to_string());
            self.vacuum.notice();
            self.ballast.delete_file();
            if !failure.is_in_doubt()
                && let Err(error) = self.records.carry_over()
            {
                tracing::debug!(%error, "failed to checkpoint the log");
            }
        }
        lacks
    }

    /// Rolls back a batch that was not committed, unless it is in doubt; returns the error for its
    /// callers.
    fn undo(&mut self, failure: &Failure, no_room: bool) -> StoreError {
        let cause = &failure.cause;
        tracing::warn!(%cause, "a batch was not committed");
        if failure.is_in_doubt() {
            self.in_doubt = true;
            self.retry_writing();
            return StoreError::unknown(cause);
        }
        for machine in &mut self.machines {
            machine.roll_back(0);
            machine.keep_changes();
        }
        if no_room {
            return full();
        }
        // Either this batch alone failed, or all writes fail.
        self.retry_writing();
        failing(cause)
    }

    /// Tries to write, and records in `health` whether writing works.
    pub fn retry_writing(&mut self) {
        self.next_try = Instant::now() + RETRY;
        match self.try_to_write() {
            Ok(()) => self.health.mend(),
            Err(cause) => self.health.fail(failing(cause)),
        }
    }

    /// Returns the time until the next attempt to write; `None` while writing works.
    pub fn retry_after(&self) -> Option<Duration> {
        let failing = self.health.is_failing() || self.in_doubt;
        failing.then(|| self.next_try.saturating_duration_since(Instant::now()))
    }

    /// Tries to write. After a failed sync, the kernel may have dropped the unsynced pages, or may
    /// report them as synced. So this rewrites and syncs the log with the same content, and loads
    /// the jobs from the result.
    fn try_to_write(&mut self) -> Result<(), Box<dyn Error>> {
        self.compare_files();
        if self.health.is_replaced() {
            // The open files may or may not contain the batch, so the jobs are loaded again.
            self.stale |= mem::take(&mut self.in_doubt);
            return Ok(());
        }
        if self.in_doubt {
            self.stale = true;
            self.records.reopen(&self.dir.join("jobs.db"))?;
            self.files = Files::new(&self.dir)?;
            self.in_doubt = false;
        }
        self.load()?;
        let failed = match self.records.try_to_write() {
            Ok(()) => return Ok(()),
            Err(cause) => Failure { cause, committing: true },
        };
        self.records.roll_back();
        self.in_doubt = failed.is_in_doubt();
        match self.lacks_room(&failed) && !self.in_doubt {
            true => Ok(()),
            false => Err(failed.cause.into()),
        }
    }

    /// Checks that the open files are still in place. Data written to removed files is lost when
    /// the process ends.
    fn compare_files(&mut self) {
        self.compared = Instant::now();
        if !self.files.are_in_place() {
            self.health.fail(StoreError::Replaced { applied: Applied::No });
        }
    }
}

fn split<A, B>(pairs: [(A, B); GROUPS]) -> ([A; GROUPS], [B; GROUPS]) {
    let [(a, x), (b, y), (c, z)] = pairs;
    ([a, b, c], [x, y, z])
}

/// Writes `groups` in one transaction. If a write finds a damaged page, its job is quarantined, and
/// the other jobs are written without it. Each attempt needs a new transaction, because SQLite
/// accepts no more writes in a transaction that has found damage.
fn write_around_damage(records: &mut Records, groups: &mut [Vec<Write>]) -> rusqlite::Result<()> {
    let (mut most, mut by_ranges) = (MAX_DAMAGED, true);
    loop {
        let mut write = |writes: &[Write]| {
            let written = records.write(writes, by_ranges);
            written.map_err(|(index, cause)| (writes[index].changes(), cause))
        };
        let Err((serial, cause)) = groups.iter().try_for_each(|writes| write(writes)) else {
            return Ok(());
        };
        if mem::take(&mut by_ranges) && records.is_damage(&cause) {
            // Writing each row with its own statement shows which job is damaged.
            records.roll_back();
            continue;
        }
        most -= 1;
        let serial = serial.filter(|_| most > 0 && records.is_damage(&cause));
        let Some(serial) = serial else { return Err(cause) };
        tracing::error!(serial, %cause, "quarantined a job: its rows cannot be written");
        records.roll_back();
        let of_it = |write: &Write| write.changes() == Some(serial);
        for writes in &mut *groups {
            let fate = writes.iter().filter(|write| of_it(write)).map(Write::fate).max();
            writes.retain(|write| !of_it(write));
            writes.extend(fate.map(|fate| Write::Quarantine { serial, fate }));
        }
    }
}
