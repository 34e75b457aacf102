//! The progress of one part of a call.

use std::time::Duration;

use super::request::{Answer, Request};
use crate::{
    job::Refusal,
    store::{Applied, Reply, StoreError, StoreResult},
};

/// Maximum number of times that a job is loaded because it has changed. Each time, another request
/// or a timer has changed it.
const ROUNDS: u32 = 20;

/// Maximum pause before a job is loaded again. Other jobs of the call wait, too.
const MAX_PAUSE: Duration = Duration::from_millis(8);

/// Maximum number of bytes of new bodies and results that a part of a call has before its last job.
const MAX_CALL_BYTES: usize = 512 << 10;

/// Codes of `swap.lua`.
const CHANGED: i64 = 0;
const DONE: i64 = 1;
const DONE_AND_READY: i64 = 2;
const FULL: i64 = 3;
const UNUSABLE: i64 = 4;

/// A part of a call: the replies so far.
pub struct Work<R: Request> {
    jobs: Vec<Progress<R::Answer>>,
    /// Whether an edit was written, or may have been.
    is_applied: bool,
    error: Option<StoreError>,
}

struct Progress<A> {
    reply: Option<Reply<A>>,
    rounds: u32,
    may_move: bool,
    has_room: bool,
}

impl<R: Request> Work<R> {
    pub fn new(jobs: usize) -> Self {
        let open = || Progress { reply: None, rounds: 0, may_move: true, has_room: true };
        let jobs = std::iter::repeat_with(open).take(jobs).collect();
        Self { jobs, is_applied: false, error: None }
    }

    /// Returns the indexes of requests without a reply, up to the number that the bytes of one call
    /// allow.
    pub fn pick(&self, requests: &[R]) -> Vec<usize> {
        if self.error.is_some() {
            return Vec::new();
        }
        let mut bytes = 0;
        let open = (0..self.jobs.len()).filter(|&index| self.jobs[index].reply.is_none());
        let fits = open.take_while(|&index| {
            let fits = bytes <= MAX_CALL_BYTES;
            bytes += requests[index].length();
            fits
        });
        fits.collect()
    }

    /// Returns whether a job was loaded and had changed before it was written.
    pub fn has_changed(&self, index: usize) -> bool {
        self.jobs[index].rounds > 0
    }

    /// Returns how long to wait before jobs that have changed more than once are loaded again. The
    /// time is random, so that several servers that change one job do not meet each time.
    pub fn pause(&self) -> Duration {
        let open = self.jobs.iter().filter(|job| job.reply.is_none() && self.error.is_none());
        match open.map(|job| job.rounds).max().unwrap_or(0) {
            0 | 1 => Duration::ZERO,
            rounds => {
                MAX_PAUSE.mul_f64(f64::from(rounds) / f64::from(ROUNDS)).mul_f64(rand::random())
            }
        }
    }

    /// Returns whether the topic of its policy may take a job.
    pub fn may_move(&self, index: usize) -> bool {
        self.jobs[index].may_move
    }

    /// Returns whether Redis may have room for what a request brings.
    pub fn has_room(&self, index: usize) -> bool {
        self.jobs[index].has_room
    }

    pub fn settle(&mut self, index: usize, reply: Reply<R::Answer>) {
        self.jobs[index].reply = Some(reply);
    }

    /// Follows the code of an edit.
    pub fn follow(&mut self, index: usize, mut answer: R::Answer, code: i64) {
        let job = &mut self.jobs[index];
        match code {
            DONE => job.reply = Some(Ok(answer)),
            DONE_AND_READY => {
                answer.set_ready();
                job.reply = Some(Ok(answer));
            }
            // The request may do without what it brings.
            FULL if R::ADDS_JOBS => {
                self.fail(StoreError::Full { cause: "it has no room for more jobs".into() });
            }
            UNUSABLE if R::ADDS_JOBS => {
                self.fail(StoreError::unavailable("a key of the topic has another type"));
            }
            FULL if job.has_room => job.has_room = false,
            FULL => job.reply = Some(Err(Refusal::NoRoom)),
            UNUSABLE => job.may_move = false,
            CHANGED if job.rounds + 1 < ROUNDS => job.rounds += 1,
            CHANGED => job.reply = Some(Err(Refusal::Contended)),
            code => self.fail(StoreError::unreadable(format!("swap reply {code}"))),
        }
        self.is_applied |= matches!(code, DONE | DONE_AND_READY);
    }

    /// Ends the part with an error.
    pub fn fail(&mut self, error: StoreError) {
        self.error.get_or_insert(error);
    }

    /// Returns the replies. A timer learns what was applied, even if a later round has failed: it
    /// will find the other jobs again.
    pub fn finish(self) -> StoreResult<Vec<Reply<R::Answer>>> {
        match self.error {
            Some(error) if self.is_applied && !R::IS_CONFIRMED => {
                tracing::debug!(%error, "acted on some of the overdue jobs");
            }
            Some(error) if self.is_applied && error.applied() == Applied::No => {
                return Err(StoreError::unknown(error));
            }
            Some(error) => return Err(error),
            None => {}
        }
        Ok(self.jobs.into_iter().filter_map(|job| job.reply).collect())
    }
}
