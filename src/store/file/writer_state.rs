//! State of the writer's thread: machines, records, and the state around them.

use std::{
    error::Error,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use super::{
    ballast::Ballast,
    counted::Counted,
    directory::Files,
    health::Health,
    index::Attempt,
    lock::Lock,
    machine::{Machine, Write},
    pace::Pace,
    pending::Pending,
    records::{
        Ahead, ErrorAndHistory, ReadError, Records, StoredEnding, StoredFields, parse_ending,
    },
    schedules::ScheduleIndex,
    settings_log::SettingsLog,
    vacuum::Vacuum,
};
use crate::{
    job::Buckets,
    store::{Clock, Now, clock_watch::ClockWatch},
};

/// Largest change of the clock, in microseconds, that does not move reservations.
const STEP_MICROS: u64 = 100_000;

/// State on which a piece of work runs.
pub struct WriterState {
    /// One machine per bucket.
    pub machines: Vec<Machine>,
    pub records: Records,
    pub clock: Clock,
    pub watch: Arc<ClockWatch>,
    /// Number of microseconds by which the clock was set since the ends of reservations were last
    /// committed. Kept until the commit, because a batch that is rolled back must move the ends
    /// again.
    pub clock_set_by: i64,
    /// Reserves room for finishing and deleting on a full disk.
    pub ballast: Ballast,
    pub vacuum: Vacuum,
    pub health: Arc<Health>,
    pub dir: PathBuf,
    /// The open files, and when `compare_files` last checked that they are in place.
    pub files: Files,
    pub compared: Instant,
    /// Writes of the work so far, which the commit writes.
    pub writes: Vec<Write>,
    /// The part of `writes` that reads must see.
    pub pending: Pending,
    pub pace: Pace,
    pub counted: Counted,
    /// Whether the current batch is a single piece of work.
    pub is_alone: bool,
    pub settings_log: SettingsLog,
    /// Committed schedules.
    pub schedules: ScheduleIndex,
    pub buckets: Buckets,
    pub last_serial: u64,
    /// Jobs that were put later than the clock showed when the jobs were loaded.
    pub ahead: Ahead,
    /// Rows and pages that could not be read at the start. The jobs on them are unknown.
    pub unreadable: u64,
    /// Whether the machines may differ from the file and must be loaded before use.
    pub stale: bool,
    /// Whether the content of the file is unknown too, so that the file must be opened again.
    pub in_doubt: bool,
    /// Time of the next attempt to write, while nothing can be written.
    pub next_try: Instant,
    /// Dropped last, after all fields that may write.
    _lock: Lock,
}

impl WriterState {
    pub fn open(
        (dir, lock, records): (&Path, Lock, Records),
        buckets: Buckets,
        clock: Clock,
    ) -> Result<Self, Box<dyn Error>> {
        // Comes before the ballast, which is of no use without the log.
        let has_log = records.reserve_log(&dir.join("jobs.db")).is_ok();
        let counted = records.counted()?;
        let now = clock.now().floor;
        let mut writer = Self {
            machines: Vec::new(),
            records,
            clock,
            watch: Arc::new(ClockWatch::new(1)),
            clock_set_by: 0,
            ballast: Ballast::new(dir),
            vacuum: Vacuum::new(),
            health: Arc::default(),
            dir: dir.to_owned(),
            files: Files::new(dir)?,
            compared: Instant::now(),
            writes: Vec::new(),
            pace: Pace::new(),
            counted: Counted::new(counted, now),
            is_alone: false,
            settings_log: SettingsLog::new(),
            schedules: ScheduleIndex::default(),
            buckets,
            last_serial: 0,
            ahead: Ahead::default(),
            unreadable: 0,
            pending: Pending::default(),
            stale: true,
            in_doubt: false,
            next_try: Instant::now(),
            _lock: lock,
        };
        if !has_log {
            writer.ballast.delete_file();
            writer.reserve_log();
        }
        if !writer.ballast.is_complete() {
            writer.health.fill("there is no room for the reserve");
        }
        writer.load()?;
        writer.report_ahead();
        Ok(writer)
    }

    /// Logs and counts a clock that is behind the puts of earlier runs.
    fn report_ahead(&self) {
        let Ahead { jobs, by } = self.ahead;
        if jobs > 0 {
            self.watch.note_behind(by);
            let seconds = by.get() / 1_000;
            tracing::error!(
                jobs,
                seconds,
                "jobs were put later than the clock shows: it was ahead then, or it is behind now; those without a \
                 delay are ready, and delayed ones wait for their due times"
            );
        }
    }

    /// Extends the log to its reserve; returns whether there was room.
    pub fn reserve_log(&mut self) -> bool {
        let reserved = self.records.reserve_log(&self.dir.join("jobs.db"));
        reserved.inspect_err(|error| tracing::warn!(%error, "no room for the log")).is_ok()
    }

    pub fn next_serial(&mut self) -> u64 {
        self.last_serial += 1;
        self.last_serial
    }

    /// Checks that the next new record could be written.
    pub fn try_insert(&mut self) -> rusqlite::Result<()> {
        self.records.try_insert(self.last_serial + 1)
    }

    pub fn now(&self) -> Now {
        let now = self.clock.now();
        Now { believed: self.bounded(now).floor, ..now }
    }

    /// Returns the time with which deadlines are compared. After a forward jump of the clock, this
    /// is earlier than the clock.
    pub fn believed_now(&self) -> Now {
        self.bounded(self.clock.now())
    }

    fn bounded(&self, now: Now) -> Now {
        match self.clock.given() {
            Some(_) => now,
            None => self.watch.bounded(0, now),
        }
    }

    /// Compares the wall clock with the monotonic clock, which measures TTRs. If the wall clock was
    /// set, the ends of all reservations move with it.
    pub fn follow_clock(&mut self) {
        if self.clock.given().is_some() {
            return;
        }
        let asked = Instant::now();
        let micros = self.clock.now().micros;
        let by = self.watch.add_reading(0, micros, asked);
        if by.unsigned_abs() > STEP_MICROS {
            self.clock_set_by = self.clock_set_by.saturating_add(by);
        }
        // If the machines are stale, `load` renews the reservations.
        if self.clock_set_by != 0 && !self.stale {
            // Rounded up, so that no reservation ends early.
            let by = self.clock_set_by.saturating_add(999).div_euclid(1_000);
            for machine in &mut self.machines {
                machine.move_reservations(by, &mut self.writes);
            }
        }
    }

    /// Reads the record of a job in its state after the work so far. Uncommitted changes are only
    /// in memory, so this reads the file outside of any transaction. In a transaction that finds a
    /// damaged page, SQLite would refuse all further writes.
    pub fn read(&mut self, serial: u64) -> Result<StoredFields, ReadError> {
        let record = self.pending.read(&self.writes, serial, || self.records.read(serial))?;
        match parse_ending(&record.body) {
            Some(_) => {
                Err(ReadError::new(serial, &"it is finished, and its row in `attempts` is lost"))
            }
            None => Ok(record),
        }
    }

    /// Reads the data of a finished job that only the disk has, after the work so far.
    pub fn read_ending(&mut self, serial: u64) -> Result<StoredEnding, ReadError> {
        let record = self.pending.read(&self.writes, serial, || self.records.read(serial))?;
        let attempt = self.read_attempt(serial)?;
        let (outcome, result) = parse_ending(&record.body)
            .ok_or_else(|| ReadError::new(serial, &"it is finished, and has a body"))?;
        let StoredFields { created_at, policy, .. } = record;
        Ok(StoredEnding { created_at, policy, attempt, outcome, result })
    }

    /// Reads the last attempt of a finished job, after the work so far.
    pub fn read_attempt(&mut self, serial: u64) -> Result<Attempt, ReadError> {
        let read = || self.records.read_attempt(serial);
        self.pending.read_attempt(&self.writes, serial, read)
    }

    /// Returns whether the last error of a popped job contains a text. Parses only rows that
    /// contain it anywhere, since most rows do not.
    pub fn error_contains(&mut self, serial: u64, part: &str) -> Result<bool, ReadError> {
        if !self.pending.changes_attempt(&self.writes, serial)
            && !self.records.error_may_contain(serial, part)?
        {
            return Ok(false);
        }
        Ok(self.read_error_and_history(serial)?.error.is_some_and(|error| error.contains(part)))
    }

    /// Checks that the record of a job can be rewritten.
    pub fn check_rewritable(&mut self, serial: u64) -> Result<(), ReadError> {
        let read = || self.records.read_rewritable(serial);
        self.pending.read(&self.writes, serial, read).map(drop)
    }

    /// Reads the data of a popped job that only the disk has, after the work so far.
    pub fn read_error_and_history(&mut self, serial: u64) -> Result<ErrorAndHistory, ReadError> {
        self.pending.read_error_and_history(&self.writes, serial, || {
            self.records.read_error_and_history(serial)
        })
    }
}
