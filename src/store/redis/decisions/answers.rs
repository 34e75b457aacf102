//! Answers to callers about edits.

use delay_queue_core::decide::{Edit, Known, Place};

use super::{loaded::Loaded, request::Answer};
use crate::{
    job::{Job, NewJob, Refusal, State, Topic},
    store::{Lapsed, Placed, Readied, Reply, Transitioned},
};

impl Answer<NewJob> for Placed {
    fn new(put: &NewJob, loaded: &Loaded<'_>, job: &Known<'_>, edit: &Edit) -> Reply<Self> {
        let living = (!loaded.is_absent).then_some(job);
        Ok(match edit.place {
            Place::New { state, at } => Self::new(living, state, at),
            _ => Self::kept(job, put),
        })
    }

    fn set_ready(&mut self) {
        self.state = State::Ready;
    }
}

impl Answer<Job> for () {
    fn new(_: &Job, _: &Loaded<'_>, _: &Known<'_>, _: &Edit) -> Reply<Self> {
        Ok(())
    }
}

impl<R> Answer<R> for Transitioned {
    fn new(_: &R, _: &Loaded<'_>, job: &Known<'_>, edit: &Edit) -> Reply<Self> {
        Ok(edit.answer(job))
    }

    fn set_ready(&mut self) {
        self.state = State::Ready;
    }
}

impl<R> Answer<R> for Lapsed {
    fn new(_: &R, _: &Loaded<'_>, job: &Known<'_>, edit: &Edit) -> Reply<Self> {
        Ok(Self { was: job.state, job: edit.answer(job) })
    }
}

impl<R> Answer<R> for Readied {
    fn new(_: &R, _: &Loaded<'_>, job: &Known<'_>, edit: &Edit) -> Reply<Self> {
        Ok(edit.answer(job).into())
    }
}

/// The topic of the job.
impl<R> Answer<R> for Topic {
    fn new(_: &R, _: &Loaded<'_>, job: &Known<'_>, _: &Edit) -> Reply<Self> {
        Ok(job.topic.clone())
    }
}

/// The state before the edit.
impl<R> Answer<R> for State {
    fn new(_: &R, _: &Loaded<'_>, job: &Known<'_>, _: &Edit) -> Reply<Self> {
        Ok(job.state)
    }
}

/// The job after the edit, which leaves it delayed or ready.
impl<R> Answer<R> for Job {
    const HAS_BODY: bool = true;

    fn new(_: &R, loaded: &Loaded<'_>, job: &Known<'_>, edit: &Edit) -> Reply<Self> {
        let Transitioned { topic, state, due_at, .. } = edit.answer(job);
        let (history, _) = loaded.history();
        let before = loaded.job(state, history).ok_or(Refusal::Damaged)?;
        let mut policy = before.policy.clone();
        policy.set(edit.policy.clone());
        Ok(Self { topic, due_at, ttr: policy.ttr, policy, reservation: None, ..before })
    }

    fn set_ready(&mut self) {
        self.state = State::Ready;
    }
}
