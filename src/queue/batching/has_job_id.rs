//! Access to a transition's job id, which determines the bucket.

use crate::{
    job::{Change, JobId, NewJob},
    store::{Bury, Delete, Finish, Firing, JobRef, Release, Target, Touch},
};

/// A transition of one job.
pub trait HasJobId {
    /// Returns the id of the job.
    fn id(&self) -> &JobId;

    /// Returns whether the transition acts on a reserved job but gives only its id.
    fn lacks_reservation(&self) -> bool {
        false
    }
}

impl HasJobId for NewJob {
    fn id(&self) -> &JobId {
        &self.id
    }
}

impl HasJobId for Firing {
    fn id(&self) -> &JobId {
        &self.job.id
    }
}

impl HasJobId for Target {
    fn id(&self) -> &JobId {
        &self.id
    }
}

impl HasJobId for Delete {
    fn id(&self) -> &JobId {
        &self.job.id
    }
}

impl HasJobId for (Target, Change) {
    fn id(&self) -> &JobId {
        &self.0.id
    }
}

impl HasJobId for JobRef {
    fn id(&self) -> &JobId {
        &self.id
    }

    fn lacks_reservation(&self) -> bool {
        self.reservation.is_none()
    }
}

impl HasJobId for Finish {
    fn id(&self) -> &JobId {
        &self.held.id
    }

    fn lacks_reservation(&self) -> bool {
        self.held.lacks_reservation()
    }
}

impl HasJobId for Release {
    fn id(&self) -> &JobId {
        &self.held.id
    }

    fn lacks_reservation(&self) -> bool {
        self.held.lacks_reservation()
    }
}

impl HasJobId for Touch {
    fn id(&self) -> &JobId {
        &self.held.id
    }

    fn lacks_reservation(&self) -> bool {
        self.held.lacks_reservation()
    }
}

impl HasJobId for Bury {
    fn id(&self) -> &JobId {
        &self.held.id
    }

    fn lacks_reservation(&self) -> bool {
        self.held.lacks_reservation()
    }
}
