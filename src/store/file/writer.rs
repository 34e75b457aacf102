//! The one thread that owns machine and records.
//!
//! It takes whatever work has arrived, does it, commits once, and only then lets the answers out:
//! an acknowledged write is on disk, and everybody shared the sync. How, and what happens to a batch
//! that fails, says `commit.rs`.

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

/// A piece of work, and what it needs of the disk.
pub struct Work {
    pub need: Need,
    pub job: Job,
}
/// Does its part on the writer; what it answers goes out after the commit. Without a writer it just
/// carries the error.
type Job = Box<dyn FnOnce(StoreResult<&mut WriterState>) -> Deliver + Send>;
pub type Deliver = Box<dyn FnOnce(StoreResult<()>) + Send>;

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
