//! Actions of consumers and operators on one job, alone or in a batch.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    body::{new_body, result},
    policy::{finished_retention, ttr},
};
use crate::{
    config::Limits,
    http::{problem::Problem, schema::types},
    job::{JobId, MAX_ERROR_BYTES, Millis, ReservationKey, States, Topics},
    store::{self, JobRef, JobRequest, Target},
};

/// Position of an action in its request, and the topics that its caller may access.
pub enum RequestPosition {
    /// A route of one job: the id from the path, and the reservation if it was in the query.
    Path(JobId, Option<String>, Topics),
    /// An item of a batch.
    Batch(Topics),
}

/// Values that an action is checked with.
#[derive(Clone, Copy)]
pub struct ActionRules<'a> {
    /// Verifies reservations.
    pub key: &'a ReservationKey,
    pub limits: Limits,
}

/// Request for an action on one job, with the same fields alone and in a batch.
pub trait ActionRequest: for<'de> Deserialize<'de> + Default {
    /// Request to the queue.
    type Job: JobRequest;

    /// Validates the request.
    fn valid(self, position: RequestPosition, rules: ActionRules<'_>)
    -> Result<Self::Job, Problem>;
}

macro_rules! action {
    ($(#[$doc:meta])* $name:ident { $($(#[$of_field:meta])* $field:ident: $type:ty),* } -> $job:ty, $valid:expr) => {
        $(#[$doc])*
        #[derive(Deserialize, Default, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            /// Id of the job.
            id: Option<JobId>,
            /// The reservation that the pop returned. Without it, the action applies to the job
            /// with this id, whichever consumer holds it.
            reservation: Option<String>,
            $($(#[$of_field])* $field: Option<$type>,)*
        }

        impl ActionRequest for $name {
            type Job = $job;

            fn valid(
                self,
                position: RequestPosition,
                rules: ActionRules<'_>,
            ) -> Result<$job, Problem> {
                let valid: fn(JobRef, Limits, $(Option<$type>),*) -> Result<$job, Problem> = $valid;
                let held = job_ref(self.id, self.reservation, position, rules.key)?;
                valid(held, rules.limits, $(self.$field),*)
            }
        }
    };
}

action! {
    /// Request to finish a job.
    Finish {
        /// Any JSON value, at most 64 KiB, for a job that is kept (`finished_retention`): GET shows
        /// it. Default: null, which means no result.
        #[schemars(with = "Option<types::Anything>")]
        result: Box<RawValue>
    } -> store::Finish, |held, _, json| {
        Ok(store::Finish { held, result: result(json)? })
    }
}
action! {
    /// Request to release a job for another attempt.
    Release {
        /// Time until the next attempt. Default: the job's `backoff`.
        delay: Millis,
        /// Reason, at most 4,096 bytes; GET shows it until the next attempt ends.
        #[schemars(with = "Option<types::ErrorText>")]
        error: String,
        /// Whether the attempt counts. If not, it is never the last one, and without `delay` the
        /// job waits as after the attempt before. Default: true.
        count_attempt: bool,
        /// Another body for the next attempt, as in a put. Default: null, which keeps the body.
        #[schemars(with = "Option<types::Anything>")]
        body: Box<RawValue>
    } -> store::Release, |held, limits, delay, text, counts, json| {
        let (error, body) = (error(text)?, new_body(json, limits)?);
        Ok(store::Release { held, delay, error, is_uncounted: counts == Some(false), body })
    }
}
action! {
    /// Request to extend a reservation.
    Touch {
        /// New TTR from now. Default: the job's own TTR.
        #[schemars(with = "Option<types::Ttr>")]
        ttr: Millis
    } -> store::Touch, |held, _, span| {
        Ok(store::Touch { held, ttr: ttr(span)? })
    }
}
action! {
    /// Request to bury a job.
    Bury {
        /// Reason, at most 4,096 bytes.
        #[schemars(with = "Option<types::ErrorText>")]
        error: String
    } -> store::Bury, |held, _, text| {
        Ok(store::Bury { held, error: error(text)? })
    }
}

/// Request to delete a job of a batch.
#[derive(Deserialize, Default, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Delete {
    /// Id of the job.
    id: Option<JobId>,
    /// States in which the job is deleted, such as `delayed,ready`. Default: every state.
    state: Option<States>,
    /// Time that the id stays taken, at most 30 days. Default: 0.
    #[schemars(with = "Option<types::FinishedRetention>")]
    remember: Option<Millis>,
}

impl ActionRequest for Delete {
    type Job = store::Delete;

    fn valid(
        self,
        position: RequestPosition,
        rules: ActionRules<'_>,
    ) -> Result<store::Delete, Problem> {
        let job = IdOnly { id: self.id }.valid(position, rules)?;
        let remember = finished_retention("remember", self.remember)?;
        Ok(store::Delete { job, states: self.state, remember })
    }
}

/// Request to kick a job.
#[derive(Deserialize, Default, PartialEq, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IdOnly {
    /// Id of the job.
    id: Option<JobId>,
}

impl ActionRequest for IdOnly {
    type Job = Target;

    fn valid(self, position: RequestPosition, rules: ActionRules<'_>) -> Result<Target, Problem> {
        if let RequestPosition::Path(_, Some(_), _) = position {
            return Err(Problem::field("reservation", "is not a parameter of this route"));
        }
        let held = job_ref(self.id, None, position, rules.key)?;
        Ok(Target { id: held.id, topics: held.topics })
    }
}

/// Builds the reference to a job; refuses fields that are missing or given twice.
fn job_ref(
    id: Option<JobId>,
    text: Option<String>,
    position: RequestPosition,
    key: &ReservationKey,
) -> Result<JobRef, Problem> {
    let (id, text, topics) = match (position, id) {
        (RequestPosition::Path(..), Some(_)) => {
            return Err(Problem::field("id", "must not be in the body: the path has it"));
        }
        (RequestPosition::Path(_, Some(_), _), None) if text.is_some() => {
            let detail = "must be given once: in the query or in the body";
            return Err(Problem::field("reservation", detail));
        }
        (RequestPosition::Path(id, in_query, topics), None) => (id, text.or(in_query), topics),
        (RequestPosition::Batch(topics), Some(id)) => (id, text, topics),
        (RequestPosition::Batch(_), None) => return Err(Problem::field("id", "is missing")),
    };
    let reservation = text.map(|text| key.check(&id, &text));
    Ok(JobRef { id, reservation, topics })
}

/// Checks the length of an error text; returns `None` for an empty one.
fn error(error: Option<String>) -> Result<Option<String>, Problem> {
    match error {
        Some(text) if text.len() > MAX_ERROR_BYTES => {
            let given = text.len();
            let detail = format!("must have at most {MAX_ERROR_BYTES} bytes, got {given}");
            Err(Problem::field("error", detail))
        }
        error => Ok(error.filter(|text| !text.is_empty())),
    }
}
