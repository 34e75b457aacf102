//! Adds a job from another store in the state that it had there.

use std::sync::Arc;

use super::{ErrorText, Machine, Write};
use crate::{
    job::{Event, Job, State, UnixMillis, next},
    store::{
        Reply,
        file::index::{Arrival, Attempt, Size},
    },
};

impl Machine {
    pub fn restore(&mut self, serial: u64, job: Job, writes: &mut Vec<Write>) -> Reply<()> {
        let living = self.index.find(&job.id).map(|slot| self.index.entry(slot).state);
        let state = next(living, Event::Restore(job.state))?.expect("a restore never ends a job");
        let (at, attempt) = (job.at(), attempt(&job));
        self.index.insert(Arrival {
            id: job.id.clone(),
            topic: job.topic.clone(),
            serial,
            state,
            at,
            policy: Arc::new(job.policy.clone().decisive()),
            attempt: attempt.clone().map(Box::new),
            size: Size::of(job.body.len()),
        });
        let (created_at, due_at) = (job.created_at, job.due_at);
        writes.push(Write::Insert { serial, job: job.unpopped(), created_at, due_at });
        if let Some(attempt) = attempt {
            let error = ErrorText::Set(job.error);
            writes.push(Write::Attempt { serial, state, at, attempt, error });
        }
        Ok(())
    }
}

/// Returns the attempt of a popped job. A reserved or dead job always has one: its deadline is
/// stored there.
fn attempt(job: &Job) -> Option<Attempt> {
    let popped = job.attempt > 0 || matches!(job.state, State::Reserved | State::Dead);
    popped.then(|| Attempt {
        number: job.attempt,
        reservation: job.reservation,
        due_at: job.due_at,
        died_at: job.died_at.unwrap_or(UnixMillis::new(0)),
        ttr: if job.state == State::Reserved { job.ttr } else { job.policy.ttr },
        expired: false,
    })
}
