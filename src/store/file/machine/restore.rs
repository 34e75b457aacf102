//! Adds a job from another store in the state that it had there.

use std::sync::Arc;

use super::{ErrorText, Machine, Write};
use crate::{
    job::{Ending, Event, Job, State, UnixMillis, next},
    store::{
        Reply,
        file::{
            ending,
            index::{Arrival, Attempt, Size},
        },
    },
};

impl Machine {
    pub fn restore(&mut self, serial: u64, job: Job, writes: &mut Vec<Write>) -> Reply<()> {
        let living = self.index.find(&job.id).map(|slot| self.index.entry(slot).state);
        let state = next(living, Event::Restore(job.state))?.expect("a restore never ends a job");
        let popped = job.attempt > 0 || !matches!(job.state, State::Delayed | State::Ready);
        let (at, attempt) = (job.at(), popped.then(|| attempt_of(&job)));
        let result = job.ending.as_ref().and_then(|ending| ending.result.as_ref());
        let length = result.unwrap_or(&job.body).len();
        self.index.insert(Arrival {
            id: job.id.clone(),
            topic: job.topic.clone(),
            serial,
            state,
            at,
            policy: Arc::new(job.policy.clone().decisive()),
            attempt: attempt.clone().filter(|_| job.ending.is_none()).map(Box::new),
            size: Size::of(length),
        });
        let (created_at, mut due_at, mut put) = (job.created_at, job.due_at, job.unpopped());
        if let Some(Ending { at, outcome, result }) = &job.ending {
            (due_at, put.body) = (*at, ending::body(*outcome, result.as_ref()));
        }
        writes.push(Write::Insert { serial, job: put, created_at, due_at });
        if let Some(attempt) = attempt {
            let error = ErrorText::Set(job.error);
            writes.push(Write::Attempt { serial, state, at, attempt, error });
        }
        Ok(())
    }
}

/// Returns the attempt of a job. One that is neither delayed nor ready always has one: its deadline
/// is stored there.
pub fn attempt_of(job: &Job) -> Attempt {
    let ended_at = job.ending.as_ref().map(|ending| ending.at);
    Attempt {
        number: job.attempt,
        reservation: job.reservation,
        due_at: job.due_at,
        died_at: ended_at.or(job.died_at).unwrap_or(UnixMillis::new(0)),
        ttr: if job.state == State::Reserved { job.ttr } else { job.policy.ttr },
        expired: false,
    }
}
