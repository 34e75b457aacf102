//! The thread that owns machines and records.
//!
//! It runs all work that has arrived, commits once, and only then delivers the results. So an
//! acknowledged write is on disk, and all callers share one sync. `commit.rs` does this, and
//! handles a batch that fails.

use std::{
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use tokio::sync::oneshot;

use super::{
    health::{Health, Need},
    writer_state::WriterState,
};
use crate::store::{MAX_BATCH, StoreError, StoreResult};

pub struct Work {
    pub need: Need,
    pub job: Job,
}
/// A piece of work. It runs on the writer's state, or gets the error of a refusal. It returns a
/// closure that delivers the result after the commit.
type Job = Box<dyn FnOnce(StoreResult<&mut WriterState>) -> Deliver + Send>;
pub type Deliver = Box<dyn FnOnce(StoreResult<()>) + Send>;

/// Handle of the thread. [`Writer::close`] drops its channel, which ends the thread.
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

    /// Runs `work` on the thread, and returns its result after the commit.
    pub async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut WriterState) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        self.call_with(Need::Writing, work).await
    }

    pub async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut WriterState) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        self.call_with(Need::Nothing, work).await
    }

    /// Runs `work` with this need, or refuses it at once if the disk cannot serve the need.
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
                // Fails if the caller has gone; then the result is not needed.
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
            _ => Err(StoreError::unavailable("the store is closed")),
        }
    }

    /// Waits until the thread has completed all work that has arrived, and has ended.
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
                // On a full disk, only one piece of work is certain to fit into the log.
                let more = if writer.health.is_full() { 0 } else { MAX_BATCH };
                batch.extend(arrivals.try_iter().take(more));
                writer.batch(batch);
                busy = true;
                writer.do_background_work(writer.vacuum.is_overdue(), busy);
            }
            Err(RecvTimeoutError::Timeout) => {
                let may_vacuum = writer.vacuum.rest().is_some_and(|rest| rest.is_zero());
                writer.do_background_work(may_vacuum, busy);
                busy &= !may_vacuum;
            }
            Err(RecvTimeoutError::Disconnected) => return writer.end(),
        }
    }
}

impl WriterState {
    /// Returns the time until the next call of `do_background_work`; `None` if no call is needed.
    fn rest(&self) -> Option<Duration> {
        match self.retry_after() {
            // `do_background_work` does nothing for replaced files.
            None if self.health.is_replaced() => None,
            None => {
                let all = [self.vacuum.rest(), self.ballast.rest(), self.rest_of_counted()];
                all.into_iter().flatten().min()
            }
            failing => failing,
        }
    }

    /// Ends the thread. On a full disk, keeps the log, because the next start may have no room for
    /// a new one.
    fn end(mut self) {
        self.save_counted_at_end();
        if self.health.is_full() && !self.in_doubt && self.records.carry_over().is_ok() {
            self.records.leave_log();
        }
    }

    /// Does the background work that is due: attempts to write, the ballast and, if `may_vacuum`, a
    /// step of the vacuum.
    fn do_background_work(&mut self, may_vacuum: bool, busy: bool) {
        if let Some(rest) = self.retry_after() {
            if rest.is_zero() {
                self.retry_writing();
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
        if self.rest_of_counted().is_some_and(|rest| rest.is_zero()) {
            self.batch(Vec::new());
        }
        if may_vacuum {
            self.vacuum.step(&self.records, busy, self.health.is_full());
        }
    }
}
