//! A put until its result is known.

use super::{Fields, OnConflict, PutJob, ulid};
use crate::{Applied, Error, Queue, State, value::time};

#[derive(Debug)]
pub(super) struct Pending {
    fields: Fields,
    has_made_id: bool,
    /// Whether an earlier attempt may have put the job.
    is_unknown: bool,
}

impl Pending {
    pub(super) fn new(mut fields: Fields) -> Self {
        let has_made_id = fields.id.is_none();
        if has_made_id {
            fields.id = Some(ulid::new(time::now()));
        }
        Pending { fields, has_made_id, is_unknown: false }
    }

    pub(super) fn fields(&self) -> &Fields {
        &self.fields
    }

    /// Notes a failure after which the put may be repeated.
    pub(super) fn failed(&mut self, error: &Error) {
        if error.applied() == Applied::No {
            return;
        }
        self.is_unknown = true;
        if matches!(self.fields.on_conflict, None | Some(OnConflict::Reject)) {
            // The job that exists then is the one of the lost answer.
            self.fields.on_conflict = Some(OnConflict::Keep);
        }
    }

    /// Returns whether this refusal means that an earlier attempt has put the job. Its topic may
    /// be another one by now, if it died and moved.
    pub(super) fn is_put(&self, error: &Error) -> bool {
        self.has_made_id && self.is_unknown && error.code() == Some("job_exists")
    }

    /// Returns the job that an earlier attempt has put, as it is now.
    pub(super) async fn put_job(&self, queue: &Queue, error: &Error) -> PutJob {
        let id = self.fields.id.clone().unwrap_or_default();
        if let Ok(Some(job)) = queue.get(&id).await {
            return PutJob { id, topic: job.topic, state: job.state, due_at: job.due_at };
        }
        // Gone meanwhile, or hidden from the token.
        let refused = error.refused();
        PutJob {
            id,
            topic: self.fields.topic.clone(),
            state: refused.and_then(|refused| refused.state).unwrap_or(State::Unknown),
            due_at: self.fields.due_at.unwrap_or_else(time::now),
        }
    }
}
