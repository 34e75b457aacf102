//! The requests, each with its decision.

use bytes::Bytes;
use delay_queue_core::{
    Now,
    decide::{self, Edit, Known},
};

use super::{arrival::Arrival, request::Request};
use crate::{
    job::{Change, Job, JobId, NewJob, Refusal, State, Topic, Topics},
    store::{
        Bury, Delete, Finish, JobRequest, Lapsed, Placed, Readied, Release, Reply, Target,
        Transitioned,
    },
};

/// Returns the job that a request needs.
fn found<'a>(living: Option<&'a Known<'_>>) -> Reply<&'a Known<'a>> {
    living.ok_or(Refusal::NotFound)
}

impl Request for Release {
    type Answer = Transitioned;

    fn decide(&self, living: Option<&Known<'_>>, now: Now) -> Reply<Option<Edit>> {
        decide::release(found(living)?, now, self)
    }

    fn body(&self) -> Option<&Bytes> {
        self.body.as_ref()
    }
}

impl Request for Bury {
    type Answer = Transitioned;

    fn decide(&self, living: Option<&Known<'_>>, now: Now) -> Reply<Option<Edit>> {
        decide::bury(found(living)?, now, self)
    }
}

/// The bury of a job whose record a pop found to be damaged.
pub struct BuryDamaged(pub Bury);

impl JobRequest for BuryDamaged {
    fn id(&self) -> &JobId {
        self.0.id()
    }

    fn topics(&self) -> &Topics {
        self.0.topics()
    }
}

impl Request for BuryDamaged {
    type Answer = Transitioned;

    fn decide(&self, living: Option<&Known<'_>>, now: Now) -> Reply<Option<Edit>> {
        decide::bury_damaged(found(living)?, now, &self.0)
    }
}

impl Request for Target {
    type Answer = Readied;

    fn decide(&self, living: Option<&Known<'_>>, now: Now) -> Reply<Option<Edit>> {
        decide::kick(found(living)?, now, self)
    }
}

impl Request for (Target, Change) {
    type Answer = Job;

    fn decide(&self, living: Option<&Known<'_>>, now: Now) -> Reply<Option<Edit>> {
        decide::change(found(living)?, now, &self.0, &self.1)
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

impl JobRequest for Overdue {
    fn id(&self) -> &JobId {
        &self.id
    }
}

impl Request for Overdue {
    type Answer = Lapsed;

    /// If a failover undoes the edit, a timer makes it again.
    const IS_CONFIRMED: bool = false;

    fn is_expiry(&self) -> bool {
        self.is_expiry
    }

    fn decide(&self, living: Option<&Known<'_>>, now: Now) -> Reply<Option<Edit>> {
        let job = found(living)?;
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

    fn decide(&self, living: Option<&Known<'_>>, now: Now) -> Reply<Option<Edit>> {
        decide::finish(found(living)?, now, self)
    }

    fn length(&self) -> usize {
        self.result.as_ref().map_or(0, Bytes::len)
    }
}

impl Request for Delete {
    type Answer = State;

    fn decide(&self, living: Option<&Known<'_>>, now: Now) -> Reply<Option<Edit>> {
        decide::delete(found(living)?, now, self)
    }
}

impl Request for NewJob {
    type Answer = Placed;

    const ADDS_JOBS: bool = true;

    fn arrival(&self) -> Option<Arrival<'_>> {
        Some(Arrival::Put(self))
    }

    fn decide(&self, living: Option<&Known<'_>>, now: Now) -> Reply<Option<Edit>> {
        decide::put(living, now, self)
    }

    fn length(&self) -> usize {
        self.body.len()
    }
}

/// A job from another store.
impl Request for Job {
    type Answer = ();

    const ADDS_JOBS: bool = true;

    fn arrival(&self) -> Option<Arrival<'_>> {
        Some(Arrival::Restore(self))
    }

    fn decide(&self, living: Option<&Known<'_>>, _: Now) -> Reply<Option<Edit>> {
        decide::restore(living, self).map(Some)
    }

    fn length(&self) -> usize {
        self.content_bytes()
    }
}
