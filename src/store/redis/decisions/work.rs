//! The progress of one part of a call.

use std::collections::HashSet;

use crate::{
    job::{JobId, Refusal, State},
    store::{Applied, Reply, StoreError, StoreResult, Transitioned},
};

/// Maximum number of times that a job is loaded because it has changed.
const ROUNDS: u8 = 3;

/// Codes of `swap.lua`.
const CHANGED: i64 = 0;
const DONE: i64 = 1;
const DONE_AND_READY: i64 = 2;
const FULL: i64 = 3;
const UNUSABLE: i64 = 4;

/// A part of a call: the replies so far.
pub struct Work {
    jobs: Vec<Progress>,
    /// Whether an edit was written, or may have been.
    is_applied: bool,
    error: Option<StoreError>,
}

#[derive(Clone)]
struct Progress {
    reply: Option<Reply<Transitioned>>,
    rounds: u8,
    may_move: bool,
}

impl Work {
    pub fn new(jobs: usize) -> Self {
        let open = Progress { reply: None, rounds: 0, may_move: true };
        Self { jobs: vec![open; jobs], is_applied: false, error: None }
    }

    /// Returns the indexes of the jobs without a reply. A repeated id waits until the job before it
    /// has its reply.
    pub fn pick<'a>(&self, id: impl Fn(usize) -> &'a JobId) -> Vec<usize> {
        if self.error.is_some() {
            return Vec::new();
        }
        let mut seen = HashSet::new();
        let open = (0..self.jobs.len()).filter(|&index| self.jobs[index].reply.is_none());
        open.filter(|&index| self.jobs.len() == 1 || seen.insert(id(index))).collect()
    }

    /// Returns whether the topic of its policy may take a job.
    pub fn may_move(&self, index: usize) -> bool {
        self.jobs[index].may_move
    }

    pub fn settle(&mut self, index: usize, reply: Reply<Transitioned>) {
        self.jobs[index].reply = Some(reply);
    }

    /// Follows the code of an edit.
    pub fn follow(&mut self, index: usize, answer: Transitioned, code: i64) {
        let job = &mut self.jobs[index];
        match code {
            DONE => job.reply = Some(Ok(answer)),
            DONE_AND_READY => job.reply = Some(Ok(Transitioned { state: State::Ready, ..answer })),
            FULL => job.reply = Some(Err(Refusal::NoRoom)),
            UNUSABLE => job.may_move = false,
            CHANGED if job.rounds + 1 < ROUNDS => job.rounds += 1,
            CHANGED => return self.fail(StoreError::unavailable("others keep changing the job")),
            code => return self.fail(StoreError::unreadable(format!("swap reply {code}"))),
        }
        self.is_applied |= matches!(code, DONE | DONE_AND_READY);
    }

    /// Ends the part with an error. Earlier edits of it were written.
    pub fn fail(&mut self, error: StoreError) {
        self.error = Some(match error.applied() {
            Applied::No if self.is_applied => StoreError::unknown(error),
            _ => error,
        });
    }

    pub fn finish(self) -> StoreResult<Vec<Reply<Transitioned>>> {
        match self.error {
            Some(error) => Err(error),
            None => Ok(self.jobs.into_iter().filter_map(|job| job.reply).collect()),
        }
    }
}
