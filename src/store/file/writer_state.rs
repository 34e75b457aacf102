//! All that the writer's thread has: machines and records, and what they need.

use std::{
    error::Error,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use super::{
    ballast::Ballast,
    directory::Files,
    health::Health,
    lock::Lock,
    machine::{Machine, Write},
    pending::Pending,
    records::{ReadError, Record, Records},
    settings_log::SettingsLog,
    vacuum::Vacuum,
};
use crate::{
    job::Buckets,
    store::{Clock, Now, steady::ClockWatch},
};

/// A step of the clock up to this leaves reservations as they are.
const STEP_MICROS: u64 = 100_000;

/// What a piece of work is done on.
pub struct WriterState {
    /// One machine a bucket.
    pub machines: Vec<Machine>,
    pub records: Records,
    pub clock: Clock,
    pub watch: Arc<ClockWatch>,
    /// By how many microseconds the clock was set since the ends of reservations were last
    /// committed: a batch that is undone takes their move back.
    pub clock_set_by: i64,
    /// Room for finishing and deleting when the disk is full.
    pub ballast: Ballast,
    pub vacuum: Vacuum,
    pub health: Arc<Health>,
    pub dir: PathBuf,
    /// Those that are open, and when they were looked for.
    pub files: Files,
    pub compared: Instant,
    /// What the work so far has to write; all of it is written at the commit.
    pub writes: Vec<Write>,
    /// What reads must see of that.
    pub pending: Pending,
    pub settings_log: SettingsLog,
    pub buckets: Buckets,
    pub last_serial: u64,
    /// Rows and pages that do not tell their jobs.
    pub unreadable: u64,
    /// The machines are not what the file says: they must be loaded again before they are used.
    pub stale: bool,
    /// What the file says is not known either: it must be opened again.
    pub in_doubt: bool,
    /// While nothing can be written: when that is tried again.
    pub next_try: Instant,
    /// Held as long as anything here may write: so it is dropped last.
    _lock: Lock,
}

impl WriterState {
    pub fn open(
        (dir, lock, records): (&Path, Lock, Records),
        buckets: Buckets,
        clock: Clock,
    ) -> Result<Self, Box<dyn Error>> {
        // The log's first: the ballast's is no use without it.
        let has_log = records.reserve_log(&dir.join("jobs.db")).is_ok();
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
            files: Files::of(dir)?,
            compared: Instant::now(),
            writes: Vec::new(),
            settings_log: SettingsLog::new(),
            buckets,
            last_serial: 0,
            unreadable: 0,
            pending: Pending::default(),
            stale: true,
            in_doubt: false,
            next_try: Instant::now(),
            _lock: lock,
        };
        if !has_log {
            writer.ballast.throw_off();
            writer.reserve_log();
        }
        if !writer.ballast.is_there() {
            writer.health.fill("there is no room for the reserve");
        }
        writer.load()?;
        Ok(writer)
    }

    /// Takes the reserve of the log; answers whether it is there.
    pub fn reserve_log(&mut self) -> bool {
        let reserved = self.records.reserve_log(&self.dir.join("jobs.db"));
        reserved.inspect_err(|error| tracing::warn!(%error, "no room for the log")).is_ok()
    }

    /// The number of the next new record.
    pub fn next_serial(&mut self) -> u64 {
        self.last_serial += 1;
        self.last_serial
    }

    /// Whether the next new record could be written.
    pub fn try_insert(&mut self) -> rusqlite::Result<()> {
        self.records.try_insert(self.last_serial + 1)
    }

    pub fn now(&self) -> Now {
        let now = self.clock.now();
        Now { believed: self.bounded(now).floor, ..now }
    }

    /// The time by which deadlines are judged: an earlier one after a jump of the clock.
    pub fn believed_now(&self) -> Now {
        self.bounded(self.clock.now())
    }

    fn bounded(&self, now: Now) -> Now {
        match self.clock.given() {
            Some(_) => now,
            None => self.watch.bounded(0, now),
        }
    }

    /// Compares the clock with this process's own. TTRs go by the latter: when the clock was set,
    /// the ends of all reservations move with it.
    pub fn follow_clock(&mut self) {
        if self.clock.given().is_some() {
            return;
        }
        let asked = Instant::now();
        let micros = self.clock.now().micros;
        let by = self.watch.saw(0, micros, asked);
        if by.unsigned_abs() > STEP_MICROS {
            self.clock_set_by = self.clock_set_by.saturating_add(by);
        }
        // Those that are to be read again get a whole TTR then.
        if self.clock_set_by != 0 && !self.stale {
            // Rounded up: nothing ends too soon.
            let by = self.clock_set_by.saturating_add(999).div_euclid(1_000);
            for machine in &mut self.machines {
                machine.move_reservations(by, &mut self.writes);
            }
        }
    }

    /// The rest of a job as it is after the work so far. What is not committed yet is in memory:
    /// the file is read outside of any transaction, where meeting a damaged page harms nothing.
    /// Within one, the engine would refuse every further write.
    pub fn read(&mut self, serial: u64) -> Result<Record, ReadError> {
        self.pending.read(&self.writes, serial, || self.records.read(serial))
    }

    /// The error text of a job that was popped, in the same way.
    pub fn read_error(&mut self, serial: u64) -> Result<Option<String>, ReadError> {
        self.pending.read_error(&self.writes, serial, || self.records.read_error(serial))
    }
}
