//! Requests that `delay-queue-core` decides, and their answers.

use bytes::Bytes;
use delay_queue_core::{
    Now,
    decide::{self, Edit, Known},
};

use super::loaded::Loaded;
use crate::{
    job::{Change, Job, JobId, Refusal, State, Topic, Topics},
    store::{Bury, Delete, Finish, Guarded, Lapsed, Readied, Release, Reply, Target, Transitioned},
};

/// A request to change one job.
pub trait Request: Guarded + Sync {
    /// The answer to the caller if the change is made.
    type Answer: Answer;

    /// Whether its caller waits for the confirmation that `store.ack` demands.
    const IS_CONFIRMED: bool = true;

    fn id(&self) -> &JobId;

    /// Decides the request; without an edit, the job stays as it is.
    ///
    /// # Errors
    /// Those of its decision.
    fn decide(&self, job: &Known<'_>, now: Now) -> Reply<Option<Edit>>;

    /// Returns whether a job stays in the set of the jobs that expire only if it is to expire.
    fn is_expiry(&self) -> bool {
        false
    }

    /// Returns the body that the request brings.
    fn body(&self) -> Option<&Bytes> {
        None
    }

    /// Returns the number of bytes that the request brings.
    fn length(&self) -> usize {
        self.body().map_or(0, Bytes::len)
    }
}

/// The answer about an edit.
pub trait Answer: Sized + Send + Sync {
    /// Whether bodies must be loaded for it.
    const HAS_BODY: bool = false;

    /// # Errors
    /// `Damaged` if the job lacks the record that the answer shows.
    fn new(loaded: &Loaded<'_>, job: &Known<'_>, edit: &Edit) -> Reply<Self>;

    /// Follows a due time that passed before the edit was written.
    fn set_ready(&mut self) {}
}

impl Request for Release {
    type Answer = Transitioned;

    fn id(&self) -> &JobId {
        &self.held.id
    }

    fn decide(&self, job: &Known<'_>, now: Now) -> Reply<Option<Edit>> {
        decide::release(job, now, self)
    }

    fn body(&self) -> Option<&Bytes> {
        self.body.as_ref()
    }
}

impl Request for Bury {
    type Answer = Transitioned;

    fn id(&self) -> &JobId {
        &self.held.id
    }

    fn decide(&self, job: &Known<'_>, now: Now) -> Reply<Option<Edit>> {
        decide::bury(job, now, self)
    }
}

/// The bury of a job whose record a pop found to be damaged.
pub struct BuryDamaged(pub Bury);

impl Guarded for BuryDamaged {
    fn topics(&self) -> &Topics {
        self.0.topics()
    }
}

impl Request for BuryDamaged {
    type Answer = Transitioned;

    fn id(&self) -> &JobId {
        self.0.id()
    }

    fn decide(&self, job: &Known<'_>, now: Now) -> Reply<Option<Edit>> {
        decide::bury_damaged(job, now, &self.0)
    }
}

impl Request for Target {
    type Answer = Readied;

    fn id(&self) -> &JobId {
        &self.id
    }

    fn decide(&self, job: &Known<'_>, now: Now) -> Reply<Option<Edit>> {
        decide::kick(job, now, self)
    }
}

impl Request for (Target, Change) {
    type Answer = Job;

    fn id(&self) -> &JobId {
        &self.0.id
    }

    fn decide(&self, job: &Known<'_>, now: Now) -> Reply<Option<Edit>> {
        decide::change(job, now, &self.0, &self.1)
    }

    fn body(&self) -> Option<&Bytes> {
        self.1.body.as_ref()
    }
}

/// A deadline of a job that has passed.
pub struct Overdue {
    pub id: JobId,
    /// Whether it is the expiry; otherwise the end of a TTR.
    pub is_expiry: bool,
}

impl Guarded for Overdue {
    fn topics(&self) -> &Topics {
        &Topics::ALL
    }
}

impl Request for Overdue {
    type Answer = Lapsed;

    /// If a failover undoes the edit, a timer makes it again.
    const IS_CONFIRMED: bool = false;

    fn id(&self) -> &JobId {
        &self.id
    }

    fn is_expiry(&self) -> bool {
        self.is_expiry
    }

    fn decide(&self, job: &Known<'_>, now: Now) -> Reply<Option<Edit>> {
        match decide::overdue(job, now) {
            // Otherwise timers and pops would find it again and again.
            Err(Refusal::WrongState(State::Delayed | State::Ready)) if self.is_expiry => {
                Ok(Some(match job.is_sound() {
                    true => job.restated(),
                    false => decide::quarantined(now),
                }))
            }
            decided => decided,
        }
    }
}

impl Request for Finish {
    type Answer = Topic;

    fn id(&self) -> &JobId {
        &self.held.id
    }

    fn decide(&self, job: &Known<'_>, now: Now) -> Reply<Option<Edit>> {
        decide::finish(job, now, self)
    }

    fn length(&self) -> usize {
        self.result.as_ref().map_or(0, Bytes::len)
    }
}

impl Request for Delete {
    type Answer = State;

    fn id(&self) -> &JobId {
        &self.job.id
    }

    fn decide(&self, job: &Known<'_>, now: Now) -> Reply<Option<Edit>> {
        decide::delete(job, now, self)
    }
}

impl Answer for Transitioned {
    fn new(_: &Loaded<'_>, job: &Known<'_>, edit: &Edit) -> Reply<Self> {
        Ok(edit.answer(job))
    }

    fn set_ready(&mut self) {
        self.state = State::Ready;
    }
}

impl Answer for Lapsed {
    fn new(_: &Loaded<'_>, job: &Known<'_>, edit: &Edit) -> Reply<Self> {
        Ok(Self { was: job.state, job: edit.answer(job) })
    }
}

impl Answer for Readied {
    fn new(_: &Loaded<'_>, job: &Known<'_>, edit: &Edit) -> Reply<Self> {
        Ok(edit.answer(job).into())
    }
}

/// The topic of the job.
impl Answer for Topic {
    fn new(_: &Loaded<'_>, job: &Known<'_>, _: &Edit) -> Reply<Self> {
        Ok(job.topic.clone())
    }
}

/// The state before the edit.
impl Answer for State {
    fn new(_: &Loaded<'_>, job: &Known<'_>, _: &Edit) -> Reply<Self> {
        Ok(job.state)
    }
}

/// The job after the edit, which leaves it delayed or ready.
impl Answer for Job {
    const HAS_BODY: bool = true;

    fn new(loaded: &Loaded<'_>, job: &Known<'_>, edit: &Edit) -> Reply<Self> {
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
