//! Adds a job from another store in the state that it had there.

use std::sync::Arc;

use bytes::Bytes;
use delay_queue_core::decide;

use super::{ErrorText, HistoryChange, Machine, Write};
use crate::{
    job::{History, Job, Outcome, State, UnixMillis},
    store::{
        Reply,
        file::index::{Arrival, Attempt, Size},
    },
};

impl Machine {
    pub fn restore(&mut self, serial: u64, job: Job, writes: &mut Vec<Write>) -> Reply<()> {
        let living = self.index.find(&job.id).map(|slot| self.known(slot, &job.id));
        decide::restore(living.as_ref(), &job)?;
        let (state, at, attempt) = (job.state, job.at(), attempt(&job));
        let result = job.ending.as_ref().and_then(|ending| ending.result.clone());
        let size = Size::from_bytes(result.as_ref().map_or(job.body.len(), Bytes::len));
        self.index.insert(Arrival {
            id: job.id.clone(),
            topic: job.topic.clone(),
            serial,
            state,
            at,
            policy: Arc::new(job.policy.clone().decisive()),
            attempt: attempt.clone().map(Box::new),
            size,
        });
        let (created_at, due_at) = (job.created_at, job.due_at);
        let history = HistoryChange::restore(History::from_job(&job));
        writes.push(Write::Insert { serial, job: job.unpopped(), created_at, due_at });
        if state == State::Finished {
            let attempt = attempt.expect(ENDED);
            let outcome = job.ending.map_or(Outcome::Finished, |ending| ending.outcome);
            let retention = None;
            writes.push(Write::Finish { serial, at, attempt, outcome, result, retention, history });
        } else if let Some(attempt) = attempt {
            let error = ErrorText::Set(job.error);
            writes.push(Write::Attempt { serial, state, at, attempt, error, history });
        }
        Ok(())
    }
}

const ENDED: &str = "a finished job has an attempt";

/// Returns the attempt of a job that was popped, has a history, or has moved. A reserved, dead or
/// finished job always has an attempt, because its deadline is stored there.
fn attempt(job: &Job) -> Option<Attempt> {
    let has_due_time = matches!(job.state, State::Delayed | State::Ready);
    let ended = job.ending.as_ref().map(|ending| ending.at);
    let has_moved = job.policy.dead_from.is_some();
    let popped = job.was_popped() || !has_due_time || !job.history.is_empty() || has_moved;
    popped.then(|| Attempt {
        number: job.attempt,
        is_snoozed: job.is_snoozed,
        reservation: job.reservation,
        died_at: ended.or(job.died_at).unwrap_or(UnixMillis::new(0)),
        was_kicked: true,
        ..Attempt::none(
            job.due_at,
            if job.state == State::Reserved { job.ttr } else { job.policy.ttr },
        )
    })
}
