//! What consumers and operators ask of one job, on its own or in a batch.

use schemars::JsonSchema;
use serde::Deserialize;

use super::policy::ttr;
use crate::{
    http::{problem::Problem, schema::types},
    job::{JobId, MAX_ERROR_BYTES, Millis, ReservationKey, Topics},
    queue::HasJobId,
    store::{self, Claim, Target},
};

/// Where the text of a transition stands, and what is known besides: also which topics its caller
/// may reach.
pub enum Place {
    /// A route of one job: its id from the path, its reservation perhaps from the query.
    Path(JobId, Option<String>, Topics),
    /// One of a batch.
    Batch(Topics),
}

/// What a consumer or operator may ask of one job; the same on its own and in a batch.
pub trait ActionRequest: for<'de> Deserialize<'de> + Default {
    /// What the queue takes.
    type Job: HasJobId;

    /// Its reservation is checked by the store's key.
    fn valid(self, place: Place, key: &ReservationKey) -> Result<Self::Job, Problem>;
}

macro_rules! action {
    ($(#[$doc:meta])* $name:ident { $($(#[$of_field:meta])* $field:ident: $type:ty),* } -> $job:ty, $valid:expr) => {
        $(#[$doc])*
        #[derive(Deserialize, Default, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            /// Which job.
            id: Option<JobId>,
            /// What the pop gave. Without it the job is taken by its id alone, whichever consumer holds it.
            reservation: Option<String>,
            $($(#[$of_field])* $field: Option<$type>,)*
        }

        impl ActionRequest for $name {
            type Job = $job;

            fn valid(self, place: Place, key: &ReservationKey) -> Result<$job, Problem> {
                let valid: fn(Claim, $(Option<$type>),*) -> Result<$job, Problem> = $valid;
                valid(held(self.id, self.reservation, place, key)?, $(self.$field),*)
            }
        }
    };
}

action! {
    /// A finish.
    Finish {} -> Claim, Ok
}
action! {
    /// A release.
    Release {
        /// How long until the next attempt. Default: the job's `backoff`.
        delay: Millis,
        /// What went wrong, in at most 4,096 bytes; shown by GET until the next attempt ends.
        #[schemars(with = "Option<types::ErrorText>")]
        error: String
    } -> store::Release, |held, delay, text| {
        Ok(store::Release { held, delay, error: error(text)? })
    }
}
action! {
    /// A touch.
    Touch {
        /// How long from now. Default: the job's own TTR.
        #[schemars(with = "Option<types::Ttr>")]
        ttr: Millis
    } -> store::Touch, |held, span| {
        Ok(store::Touch { held, ttr: ttr(span)? })
    }
}
action! {
    /// A bury.
    Bury {
        /// Why, in at most 4,096 bytes.
        #[schemars(with = "Option<types::ErrorText>")]
        error: String
    } -> store::Bury, |held, text| {
        Ok(store::Bury { held, error: error(text)? })
    }
}

/// A delete or a kick: the id is all there is to say.
#[derive(Deserialize, Default, PartialEq, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IdOnly {
    /// Which job.
    id: Option<JobId>,
}

impl ActionRequest for IdOnly {
    type Job = Target;

    fn valid(self, place: Place, key: &ReservationKey) -> Result<Target, Problem> {
        if let Place::Path(_, Some(_), _) = place {
            return Err(Problem::field("reservation", "is not a parameter of this route"));
        }
        held(self.id, None, place, key).map(|Claim { id, topics, .. }| Target { id, topics })
    }
}

fn held(
    id: Option<JobId>,
    text: Option<String>,
    place: Place,
    key: &ReservationKey,
) -> Result<Claim, Problem> {
    let (id, text, topics) = match (place, id) {
        (Place::Path(..), Some(_)) => {
            return Err(Problem::field("id", "stands in the path already"));
        }
        (Place::Path(_, Some(_), _), None) if text.is_some() => {
            let detail = "must be given once: in the query or in the body";
            return Err(Problem::field("reservation", detail));
        }
        (Place::Path(id, in_query, topics), None) => (id, text.or(in_query), topics),
        (Place::Batch(topics), Some(id)) => (id, text, topics),
        (Place::Batch(_), None) => return Err(Problem::field("id", "is missing")),
    };
    let reservation = text.map(|text| key.check(&id, &text));
    Ok(Claim { id, reservation, topics })
}

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
