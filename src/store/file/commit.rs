//! A batch: its work is done in memory, committed once, and answered. What the disk refuses is taken
//! back in memory as well, without reading anything.

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
    writer::{Deliver, Work, WriterState},
};
use crate::store::{Applied, StoreError, StoreResult};

/// Most jobs of one batch whose damage is written around; one page has fewer rows.
const MAX_DAMAGED: usize = 256;
/// How often it is tried to write, while nothing can be written.
const RETRY: Duration = Duration::from_secs(1);
/// How often the files are looked for while nothing is written.
const COMPARE: Duration = Duration::from_millis(100);

/// A point in the work of a batch.
struct Mark {
    machines: Vec<usize>,
    writes: usize,
}

/// A write that failed.
struct Failure {
    cause: rusqlite::Error,
    committing: bool,
}

impl Failure {
    /// Whether it may yet be found in the log. A frame that could not be written is not there; one
    /// that could not be synced may be.
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
    /// Does one batch of work and lets its answers out.
    pub fn batch(&mut self, batch: Vec<Work>) {
        if self.compared.elapsed() >= COMPARE {
            self.compare_files();
        }
        // What needs room comes last: without room it is taken back, and the rest stays.
        let (needy, others): (Vec<Work>, Vec<Work>) =
            batch.into_iter().partition(|work| work.need == Need::Room);
        let done = catch_unwind(AssertUnwindSafe(|| {
            // First: jobs that are read again are judged by a clock that was looked at.
            self.follow_clock();
            if self.stale
                && !self.in_doubt
                && let Err(cause) = self.load()
            {
                tracing::error!(%cause, "failed to read the jobs again; trying before the next batch");
            }
            let others = self.run(others);
            let mark = self.mark();
            let needy = self.run(needy);
            let (committed, placed) = self.commit(&mark);
            (others, committed, needy, placed)
        }));
        // Those who wait for a batch that panicked see their channel close: outcome unknown.
        let Ok((others, committed, needy, placed)) = done else {
            tracing::error!("a batch panicked; reading the jobs again");
            self.writes.clear();
            self.pending = Default::default();
            self.records.roll_back();
            self.stale = true;
            return;
        };
        others.into_iter().for_each(|deliver| deliver(committed.clone()));
        needy.into_iter().for_each(|deliver| deliver(placed.clone()));
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

    /// Work that leaves nothing behind when it fails.
    pub fn all_or_nothing<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> StoreResult<T>,
    ) -> StoreResult<T> {
        let mark = self.mark();
        let done = work(self);
        if done.is_err() {
            self.take_back(&mark);
            self.writes.truncate(mark.writes);
        }
        done
    }

    fn mark(&mut self) -> Mark {
        let machines = self.machines.iter_mut().map(Machine::mark).collect();
        Mark { machines, writes: self.writes.len() }
    }

    fn take_back(&mut self, mark: &Mark) {
        self.pending = Default::default();
        let marks = mark.machines.iter();
        self.machines.iter_mut().zip(marks).for_each(|(machine, mark)| machine.take_back(*mark));
    }

    /// Commits what was done. Answers what became of it, and of what was done since the mark: that
    /// needs room.
    fn commit(&mut self, mark: &Mark) -> (StoreResult<()>, StoreResult<()>) {
        self.pending = Default::default();
        let mut others = mem::take(&mut self.writes);
        let mut needy = others.split_off(mark.writes);
        let both = |outcome: StoreResult<()>| (outcome.clone(), outcome);
        let failure = match self.write([&mut others, &mut needy]) {
            Ok(()) => return both(self.committed(!others.is_empty() || !needy.is_empty())),
            Err(failure) => failure,
        };
        self.records.roll_back();
        let no_room = self.lacks_room(&failure);
        if failure.is_in_doubt() || (!no_room && needy.is_empty()) {
            return both(Err(self.undo(&failure, no_room)));
        }
        // What brings jobs is refused, for want of room or for a page that takes no more.
        let refused = || if no_room { full() } else { failing(&failure.cause) };
        self.take_back(mark);
        match self.write([&mut others, &mut Vec::new()]) {
            Ok(()) => {
                let committed = self.committed(!others.is_empty());
                if !no_room {
                    // Was it a page that only they need, or can nothing be written?
                    self.mend();
                }
                (committed, Err(refused()))
            }
            Err(failure) => {
                self.records.roll_back();
                let no_room = self.lacks_room(&failure);
                (Err(self.undo(&failure, no_room)), Err(refused()))
            }
        }
    }

    /// Writes and commits; what was written around is changed in `groups` too.
    fn write(&mut self, groups: [&mut Vec<Write>; 2]) -> Result<(), Failure> {
        let deletes = |write: &Write| matches!(write, Write::Delete { .. });
        if groups.iter().any(|writes| writes.iter().any(deletes)) {
            self.vacuum.notice();
        }
        let failed = |committing| move |cause| Failure { cause, committing };
        write_around_damage(&mut self.records, groups).map_err(failed(false))?;
        self.records.commit().map_err(failed(true))
    }

    /// It is on disk, if the disk's files are still these.
    fn committed(&mut self, written: bool) -> StoreResult<()> {
        self.machines.iter_mut().for_each(Machine::settle);
        self.clock_set_by = 0;
        if written {
            self.compare_files();
        }
        match self.health.is_replaced() && written {
            // It is in the files that are open, wherever those are now.
            true => Err(StoreError::Replaced { applied: Applied::Unknown }),
            false => Ok(()),
        }
    }

    /// Whether a write failed for want of room. Then there is some now, for what frees more.
    fn lacks_room(&mut self, failure: &Failure) -> bool {
        let lacks = match failure.cause.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => true,
            Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen) => !has_room(&self.dir),
            _ => false,
        };
        if lacks {
            self.health.fill(&failure.cause.to_string());
            self.vacuum.notice();
            if !self.ballast.throw_off()
                && let Err(error) = self.records.empty_log()
            {
                tracing::debug!(%error, "failed to empty the log");
            }
        }
        lacks
    }

    /// Takes back all of a batch that was not committed; what its callers are told.
    fn undo(&mut self, failure: &Failure, no_room: bool) -> StoreError {
        let cause = &failure.cause;
        tracing::warn!(%cause, "a batch was not committed");
        if failure.is_in_doubt() {
            self.in_doubt = true;
            self.mend();
            return StoreError::unknown(cause);
        }
        for machine in &mut self.machines {
            machine.take_back(0);
            machine.settle();
        }
        if no_room {
            return full();
        }
        // Was it this batch, or can nothing be written?
        self.mend();
        failing(cause)
    }

    /// Tries to write, so that it shows whether anything can be written.
    pub fn mend(&mut self) {
        self.next_try = Instant::now() + RETRY;
        match self.try_to_write() {
            Ok(()) => self.health.mend(),
            Err(cause) => self.health.fail(failing(cause)),
        }
    }

    /// How long until it is worth trying again, while nothing can be written.
    pub fn retry_after(&self) -> Option<Duration> {
        let failing = self.health.is_failing() || self.in_doubt;
        failing.then(|| self.next_try.saturating_duration_since(Instant::now()))
    }

    /// After a sync that failed nothing is known of what it should have synced: the system may have
    /// dropped it, or call it synced. So the log is written and synced once more, as it is, and the
    /// jobs are read anew from what is found then.
    fn try_to_write(&mut self) -> Result<(), Box<dyn Error>> {
        self.compare_files();
        if self.health.is_replaced() {
            // What is open is read again: it may have the batch or not.
            self.stale |= mem::take(&mut self.in_doubt);
            return Ok(());
        }
        if self.in_doubt {
            self.stale = true;
            self.records.reopen(&self.dir.join("jobs.db"))?;
            self.files = Files::of(&self.dir)?;
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

    /// Are the files those that were opened? What is written into others is lost with the process.
    fn compare_files(&mut self) {
        self.compared = Instant::now();
        if !self.files.are_in_place() {
            self.health.fail(StoreError::Replaced { applied: Applied::No });
        }
    }
}

/// Writes into one transaction. A write that meets a damaged page concerns one job: that job is set
/// aside, and the others are written without it. Begins anew each time, since the engine takes no
/// more writes into a transaction that has met damage.
fn write_around_damage(
    records: &mut Records,
    groups: [&mut Vec<Write>; 2],
) -> rusqlite::Result<()> {
    let [first, second] = groups;
    let (mut most, mut by_ranges) = (MAX_DAMAGED, true);
    loop {
        let mut write = |writes: &[Write]| {
            let written = records.write(writes, by_ranges);
            written.map_err(|(index, cause)| (writes[index].changes(), cause))
        };
        let Err((serial, cause)) = write(first).and_then(|()| write(second)) else {
            return Ok(());
        };
        if mem::take(&mut by_ranges) && records.is_damage(&cause) {
            // Which job it is shows one by one.
            records.roll_back();
            continue;
        }
        most -= 1;
        let serial = serial.filter(|_| most > 0 && records.is_damage(&cause));
        let Some(serial) = serial else { return Err(cause) };
        tracing::error!(serial, %cause, "set a job aside: its rows cannot be written");
        records.roll_back();
        let of_it = |write: &Write| write.changes() == Some(serial);
        let ends = |write: &Write| of_it(write) && matches!(write, Write::Delete { .. });
        for writes in [&mut *first, &mut *second] {
            let (any, gone) = (writes.iter().any(of_it), writes.iter().any(ends));
            writes.retain(|write| !of_it(write));
            if any {
                writes.push(Write::Aside { serial, gone });
            }
        }
    }
}
