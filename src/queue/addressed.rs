//! What every transition of a job has: the job's id, by which its bucket is found.

use crate::{
    job::{Change, JobId, NewJob},
    store::{Bury, Held, Release, Touch},
};

pub(super) trait Addressed {
    fn id(&self) -> &JobId;

    /// It needs a hold on the job, and goes by the id alone.
    fn lacks_reservation(&self) -> bool {
        false
    }
}

impl Addressed for NewJob {
    fn id(&self) -> &JobId {
        &self.id
    }
}

impl Addressed for JobId {
    fn id(&self) -> &JobId {
        self
    }
}

impl Addressed for (JobId, Change) {
    fn id(&self) -> &JobId {
        &self.0
    }
}

impl Addressed for Held {
    fn id(&self) -> &JobId {
        &self.id
    }

    fn lacks_reservation(&self) -> bool {
        self.reservation.is_none()
    }
}

impl Addressed for Release {
    fn id(&self) -> &JobId {
        &self.held.id
    }

    fn lacks_reservation(&self) -> bool {
        self.held.lacks_reservation()
    }
}

impl Addressed for Touch {
    fn id(&self) -> &JobId {
        &self.held.id
    }

    fn lacks_reservation(&self) -> bool {
        self.held.lacks_reservation()
    }
}

impl Addressed for Bury {
    fn id(&self) -> &JobId {
        &self.held.id
    }

    fn lacks_reservation(&self) -> bool {
        self.held.lacks_reservation()
    }
}
