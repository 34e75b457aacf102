//! The one thread that owns machine and records.
//!
//! It takes whatever work has arrived, does it, commits once, and only then lets the answers out:
//! an acknowledged write is on disk, and everybody shared the sync. If anything of a batch fails,
//! all of it is undone, its callers are told so, and the machine is built anew from the file.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread::{self, JoinHandle},
    time::Instant,
};

use tokio::sync::oneshot;

use crate::{
    job::{Buckets, TopicSettings},
    store::{Applied, Clock, MAX_BATCH, Now, Outcome, StoreError, steady::ClockWatch},
};

use super::{
    ballast::Ballast,
    index::Arrival,
    lock::Lock,
    machine::{Machine, Write},
    pending::{Pending, settings_after},
    records::{ReadError, Record, Records},
    tidier::Tidier,
};

/// A step of the clock up to this leaves reservations as they are.
const STEP_MICROS: u64 = 100_000;

/// What a piece of work is done on.
pub(super) struct Desk {
    /// One machine a bucket.
    pub(super) machines: Vec<Machine>,
    pub(super) records: Records,
    clock: Clock,
    pub(super) watch: Arc<ClockWatch>,
    /// Room for finishing and deleting when the disk is full.
    pub(super) ballast: Ballast,
    tidier: Tidier,
    /// What the work so far has to write; all of it is written at the commit.
    pub(super) writes: Vec<Write>,
    /// What reads must see of that.
    pending: Pending,
    buckets: Buckets,
    last_serial: u64,
    /// The machines say more than the file: they must be loaded again before they are used.
    stale: bool,
    /// Held as long as anything here may write: so it is dropped last.
    _lock: Lock,
}

/// Does its part on the desk; what it answers goes out after the commit. Without a desk it just
/// carries the error.
type Work = Box<dyn FnOnce(Result<&mut Desk, StoreError>) -> Deliver + Send>;
type Deliver = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

impl Desk {
    pub(super) fn open(
        (lock, ballast, records): (Lock, Ballast, Records),
        buckets: Buckets,
        clock: Clock,
    ) -> rusqlite::Result<Self> {
        let mut desk = Self {
            machines: Vec::new(),
            records,
            clock,
            watch: Arc::new(ClockWatch::new(1)),
            ballast,
            tidier: Tidier::new(),
            writes: Vec::new(),
            buckets,
            last_serial: 0,
            pending: Pending::default(),
            stale: true,
            _lock: lock,
        };
        desk.load()?;
        Ok(desk)
    }

    /// The number of the next new record.
    pub(super) fn next_serial(&mut self) -> u64 {
        self.last_serial += 1;
        self.last_serial
    }

    pub(super) fn now(&self) -> Now {
        self.clock.now()
    }

    /// The time by which deadlines are judged: an earlier one after a jump of the clock.
    pub(super) fn believed_now(&self) -> Now {
        let now = self.now();
        match self.clock.given() {
            Some(_) => now,
            None => self.watch.bounded(0, now),
        }
    }

    /// Compares the clock with this process's own. TTRs go by the latter: when the clock was set,
    /// the ends of all reservations move with it.
    fn follow_clock(&mut self) {
        if self.clock.given().is_some() {
            return;
        }
        let asked = Instant::now();
        let micros = self.clock.now().micros;
        let by = self.watch.saw(0, micros, asked);
        if by.unsigned_abs() > STEP_MICROS {
            for machine in &mut self.machines {
                machine.move_reservations(by / 1_000, &mut self.writes);
            }
        }
    }

    /// The rest of a job as it is after the work so far. What is not committed yet is in memory:
    /// the file is read outside of any transaction, where meeting a damaged page harms nothing.
    /// Within one, the engine would refuse every further write.
    pub(super) fn read(&mut self, serial: u64) -> Result<Record, ReadError> {
        self.pending.read(&self.writes, serial, || self.records.read(serial))
    }

    /// What is set for topics after the work so far.
    pub(super) fn settings(&self) -> rusqlite::Result<TopicSettings> {
        Ok(settings_after(&self.writes, self.records.topics()?))
    }

    /// Writes what has gathered and commits it.
    fn commit(&mut self) -> Result<(), StoreError> {
        self.pending = Pending::default();
        let writes = std::mem::take(&mut self.writes);
        if writes.iter().any(|write| matches!(write, Write::Delete { .. })) {
            self.tidier.notice();
        }
        let written = write_around_damage(&mut self.records, writes);
        written.map_err(|cause| failed(&cause, Applied::No))?;
        self.records.commit().map_err(|cause| failed(&cause, Applied::Unknown))
    }

    /// Undoes what is not committed, in the file and in the machines.
    fn undo(&mut self, error: &StoreError) {
        self.writes.clear();
        self.pending = Pending::default();
        self.records.roll_back();
        self.stale = true;
        if matches!(error, StoreError::Full { .. }) && self.ballast.throw_off() {
            self.records.make_room();
        }
        if let Err(cause) = self.load() {
            tracing::error!(%cause, "failed to read the jobs again; trying before the next batch");
        }
    }

    /// Builds the machines from the file, if they are stale.
    fn load(&mut self) -> rusqlite::Result<()> {
        if self.stale {
            let buckets = self.buckets;
            self.machines = buckets.all().map(|_| Machine::default()).collect();
            let machines = &mut self.machines;
            let now = self.clock.now();
            let take = |job: Arrival| machines[buckets.of(&job.id).index()].load(now, job);
            let loaded = self.records.load(now.floor, take)?;
            self.last_serial = loaded.last_serial;
            for job in loaded.damaged {
                machines[buckets.of(&job.id).index()].load_damaged(now, job);
            }
            machines.iter_mut().for_each(Machine::loaded);
            self.stale = false;
        }
        Ok(())
    }

    /// Does one batch of work and lets its answers out.
    fn batch(&mut self, batch: Vec<Work>) {
        if self.ballast.is_wanted() {
            self.records.make_room();
            self.ballast.try_again();
        }
        let loaded = self.load().map_err(|cause| failed(&cause, Applied::No));
        let done = catch_unwind(AssertUnwindSafe(|| {
            self.follow_clock();
            let mut deliver = Vec::with_capacity(batch.len());
            for work in batch {
                deliver.push(work(loaded.clone().map(|()| &mut *self)));
            }
            let committed = loaded.and_then(|()| self.commit());
            (deliver, committed)
        }));
        // Those who wait for a batch that panicked see their channel close: outcome unknown.
        let (deliver, committed) = done.unwrap_or_else(|_| {
            let cause = "the writer failed in the middle of a batch; see the log";
            (Vec::new(), Err(StoreError::unknown(cause)))
        });
        if let Err(error) = &committed {
            tracing::error!(%error, "undid a batch");
            self.undo(error);
        }
        for deliver in deliver {
            deliver(committed.clone());
        }
    }
}

/// Writes into one transaction. A write that meets a damaged page concerns one job: that job is set
/// aside, and the others are written without it. Begins anew each time, since the engine takes no
/// more writes into a transaction that has met damage.
fn write_around_damage(records: &mut Records, mut writes: Vec<Write>) -> rusqlite::Result<()> {
    let mut most = MAX_DAMAGED;
    while let Err((index, cause)) = records.write(&writes) {
        most -= 1;
        let serial = writes[index].changes().filter(|_| most > 0 && records.is_damage(&cause));
        let Some(serial) = serial else { return Err(cause) };
        tracing::error!(serial, %cause, "set a job aside: its rows cannot be written");
        records.roll_back();
        let of_it = |write: &Write| write.changes() == Some(serial);
        let gone = writes.iter().any(|write| of_it(write) && matches!(write, Write::Delete { .. }));
        writes.retain(|write| !of_it(write));
        writes.push(Write::Aside { serial, gone });
    }
    Ok(())
}

/// What a failed write means to the callers. A commit that fails for want of room has changed
/// nothing; any other failed commit may yet be found in the log.
fn failed(cause: &rusqlite::Error, applied: Applied) -> StoreError {
    match cause.sqlite_error_code() {
        Some(rusqlite::ErrorCode::DiskFull) => StoreError::Full { cause: cause.to_string().into() },
        _ => StoreError::Unavailable { applied, cause: cause.to_string().into() },
    }
}

/// Most jobs of one batch whose damage is written around; one page has fewer rows.
const MAX_DAMAGED: usize = 256;

/// The way to the thread; without it (after [`Writer::close`]) there is no more work.
pub(super) struct Writer {
    work: Mutex<Option<Sender<Work>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    pub(super) fn start(desk: Desk) -> std::io::Result<Self> {
        let (work, arrivals) = channel();
        let thread = thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || write(desk, &arrivals))?;
        Ok(Self { work: Mutex::new(Some(work)), thread: Mutex::new(Some(thread)) })
    }

    /// Has `work` done, and answers when it is committed.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Desk) -> Outcome<T> + Send + 'static,
    ) -> Outcome<T> {
        let (answer, answered) = oneshot::channel();
        let work: Work = Box::new(move |desk| {
            let done = desk.and_then(work);
            Box::new(move |committed| {
                // The caller may have gone: then nobody needs the answer.
                let _ = answer.send(committed.and(done));
            })
        });
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
    pub(super) fn close(&self) {
        self.work.lock().expect(UNPOISONED).take();
        let thread = self.thread.lock().expect(UNPOISONED).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the writer had failed before it was closed");
        }
    }
}

const UNPOISONED: &str = "nobody panics while holding this lock";

fn write(mut desk: Desk, arrivals: &Receiver<Work>) {
    // Whether there was work since the last step of the tidier.
    let mut busy = false;
    loop {
        let arrived = match desk.tidier.rest() {
            Some(rest) => arrivals.recv_timeout(rest),
            None => arrivals.recv().map_err(RecvTimeoutError::from),
        };
        match arrived {
            Ok(first) => {
                let mut batch = vec![first];
                batch.extend(arrivals.try_iter().take(MAX_BATCH));
                desk.batch(batch);
                busy = true;
                if desk.tidier.is_overdue() {
                    desk.tidier.step(&desk.records, busy);
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                desk.tidier.step(&desk.records, busy);
                busy = false;
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
