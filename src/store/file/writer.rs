//! The one thread that owns machine and records.
//!
//! It takes whatever work has arrived, does it, commits once, and only then lets the answers out:
//! an acknowledged write is on disk, and everybody shared the sync. How, and what happens to a batch
//! that fails, says `commit.rs`.

use std::{
    error::Error,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use tokio::sync::oneshot;

use crate::{
    job::Buckets,
    store::{Clock, MAX_BATCH, Now, StoreError, StoreResult, steady::ClockWatch},
};

use super::{
    ballast::Ballast,
    directory::Files,
    health::{Health, Need},
    lock::Lock,
    machine::{Machine, Write},
    pending::Pending,
    records::{ReadError, Record, Records},
    settings_log::SettingsLog,
    vacuum::Vacuum,
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

/// A piece of work, and what it needs of the disk.
pub struct Work {
    pub need: Need,
    pub job: Job,
}
/// Does its part on the writer; what it answers goes out after the commit. Without a writer it just
/// carries the error.
type Job = Box<dyn FnOnce(StoreResult<&mut WriterState>) -> Deliver + Send>;
pub type Deliver = Box<dyn FnOnce(StoreResult<()>) + Send>;

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
    fn reserve_log(&mut self) -> bool {
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

/// The way to the thread; without it (after [`Writer::close`]) there is no more work.
pub struct Writer {
    pub health: Arc<Health>,
    work: Mutex<Option<Sender<Work>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    pub fn start(writer: WriterState) -> std::io::Result<Self> {
        let (work, arrivals) = channel();
        let health = Arc::clone(&writer.health);
        let thread = thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || write(writer, &arrivals))?;
        Ok(Self { health, work: Mutex::new(Some(work)), thread: Mutex::new(Some(thread)) })
    }

    /// Has `work` done, and answers when it is committed.
    pub async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut WriterState) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        self.call_with(Need::Writing, work).await
    }

    /// The same, for work that only reads.
    pub async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut WriterState) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        self.call_with(Need::Nothing, work).await
    }

    /// The same, for work of some need. What cannot be done now is refused at once.
    pub async fn call_with<T: Send + 'static>(
        &self,
        need: Need,
        work: impl FnOnce(&mut WriterState) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        if let Some(refusal) = self.health.refusal(need) {
            return Err(refusal);
        }
        let (answer, answered) = oneshot::channel();
        let job = Box::new(move |writer: StoreResult<&mut WriterState>| -> Deliver {
            let done = writer.and_then(work);
            Box::new(move |committed: StoreResult<()>| {
                // The caller may have gone; then its answer is not needed.
                let _ = answer.send(committed.and(done));
            })
        });
        let work = Work { need, job };
        let sent = self.work.lock().expect(UNPOISONED).as_ref().map(|way| way.send(work));
        match sent {
            Some(Ok(())) => {
                let lost = |_| StoreError::unknown("the writer failed; see the log");
                answered.await.unwrap_or_else(|closed| Err(lost(closed)))
            }
            _ => Err(StoreError::away("the store is closed")),
        }
    }

    /// Lets the thread finish what has arrived, and waits for it.
    pub fn close(&self) {
        self.work.lock().expect(UNPOISONED).take();
        let thread = self.thread.lock().expect(UNPOISONED).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the writer had failed before it was closed");
        }
    }
}

const UNPOISONED: &str = "no thread panics while holding this lock";

fn write(mut writer: WriterState, arrivals: &Receiver<Work>) {
    // Whether there was work since the last step of the vacuum.
    let mut busy = false;
    loop {
        let arrived = match writer.rest() {
            Some(rest) => arrivals.recv_timeout(rest),
            None => arrivals.recv().map_err(RecvTimeoutError::from),
        };
        match arrived {
            Ok(first) => {
                let mut batch = vec![first];
                // On a full disk one piece of work must fit into the log by itself.
                let more = if writer.health.is_full() { 0 } else { MAX_BATCH };
                batch.extend(arrivals.try_iter().take(more));
                writer.batch(batch);
                busy = true;
                writer.tend(writer.vacuum.is_overdue(), busy);
            }
            Err(RecvTimeoutError::Timeout) => {
                let tidy = writer.vacuum.rest().is_some_and(|rest| rest.is_zero());
                writer.tend(tidy, busy);
                busy &= !tidy;
            }
            Err(RecvTimeoutError::Disconnected) => return writer.end(),
        }
    }
}

impl WriterState {
    /// How long nothing need be done beside what is asked for; none is for ever.
    fn rest(&self) -> Option<Duration> {
        match self.retry_after() {
            // Nothing is tended any more.
            None if self.health.is_replaced() => None,
            None => [self.vacuum.rest(), self.ballast.rest()].into_iter().flatten().min(),
            failing => failing,
        }
    }

    /// On a full disk the log stays: at the next start there may be no room for another one.
    fn end(self) {
        if self.health.is_full() && !self.in_doubt && self.records.carry_over().is_ok() {
            self.records.leave_log();
        }
    }

    /// Does what is due beside that: `tidy` if the vacuum may take a step.
    fn tend(&mut self, tidy: bool, busy: bool) {
        if let Some(rest) = self.retry_after() {
            if rest.is_zero() {
                self.mend();
            }
            return;
        }
        if self.health.is_replaced() {
            return;
        }
        if self.ballast.step() {
            self.reserve_log();
            self.health.empty();
        }
        if tidy {
            self.vacuum.step(&self.records, busy, self.health.is_full());
        }
    }
}
