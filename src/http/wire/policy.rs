//! The fields of a policy in requests and answers: what each means to a client stands here.

use schemars::{JsonSchema, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

use crate::{
    http::{problem::Problem, schema::schemas},
    job::{Backoff, Headers, MAX_TTR, MIN_TTR, Millis, Policy, TraceParent},
};

/// Declares a request of some own fields and those of a policy that puts, changes of a job and the
/// defaults of a topic all have. Its method `policy` checks these.
macro_rules! with_policy {
    (
        $(#[$meta:meta])* pub struct $name:ident $(<$life:lifetime>)? {
            $($(#[$of_field:meta])* $field:ident: $type:ty,)*
        }
        $(of_jobs $headers:ident)?
    ) => {
        $(#[$meta])*
        pub struct $name $(<$life>)? {
            $($(#[$of_field])* $field: $type,)*
            /// How long a consumer has to finish the job. Default of a put: the topic's, else 60 s. A change
            /// holds from the next pop on.
            #[schemars(with = "Option<crate::http::schema::types::Ttr>")]
            ttr: Option<$crate::job::Millis>,
            /// How many pops before the job is dead; 0 is no limit. Default of a put: the topic's, else 20, or
            /// one more than `backoff` has values if it is a list.
            max_attempts: Option<$crate::http::wire::policy::Count>,
            /// How long the job waits before its next attempt, after a release without a `delay` or an expired
            /// TTR: a list of durations, whose last value repeats, or exponential. Default of a put: the
            /// topic's, else none, so the job is ready again at once. In a change null removes it, and a list
            /// adjusts a `max_attempts` that was derived from the old one.
            #[schemars(with = "Option<crate::job::Backoff>")]
            #[serde(default, deserialize_with = "super::given")]
            backoff: Option<Option<$crate::job::Backoff>>,
        }

        impl $(<$life>)? $name $(<$life>)? {
            /// The fields of a policy that it gives.
            fn policy(&mut self) -> Result<$crate::job::PolicyFields, $crate::http::problem::Problem> {
                Ok($crate::job::PolicyFields {
                    ttr: $crate::http::wire::policy::ttr(self.ttr)?,
                    max_attempts: self.max_attempts.take().map(|count| count.0),
                    backoff: self.backoff.take(),
                    $(headers: self.$headers.take().map(Option::unwrap_or_default),)?
                    ..Default::default()
                })
            }
        }
    };
}
pub(super) use with_policy;

/// The same for puts and changes of a job, with the fields that no topic has a default for.
macro_rules! with_job_policy {
    (
        $(#[$meta:meta])* pub struct $name:ident $(<$life:lifetime>)? {
            $($(#[$of_field:meta])* $field:ident: $type:ty,)*
        }
    ) => {
        $crate::http::wire::policy::with_policy! {
            $(#[$meta])*
            pub struct $name $(<$life>)? {
                $($(#[$of_field])* $field: $type,)*
                /// Text for the job's consumers, by name: at most 32 headers, 8 KiB together. Names are tokens of HTTP,
                /// kept as written; two must not differ in case alone. Values are visible ASCII, spaces and tabs.
                /// Reserved names: those of HTTP's own framing and credentials, `delay-queue-*` and `webhook-*`. In a
                /// change they replace all headers of the job, and null removes them.
                #[schemars(with = "Option<crate::job::Headers>")]
                #[serde(default, deserialize_with = "super::given")]
                headers: Option<Option<$crate::job::Headers>>,
            }
            of_jobs headers
        }
    };
}
pub(super) use with_job_policy;

/// A TTR within its limits.
pub fn ttr(ttr: Option<Millis>) -> Result<Option<Millis>, Problem> {
    match ttr {
        Some(ttr) if !(MIN_TTR..=MAX_TTR).contains(&ttr) => {
            let given = ttr.as_seconds();
            Err(Problem::field("ttr", format!("must be from 1 second to 24 hours, got {given} s")))
        }
        ttr => Ok(ttr),
    }
}

/// A number of attempts.
pub struct Count(pub u32);
schemas! {
    Count => |_| json_schema!({ "type": "integer", "minimum": 0, "maximum": u32::MAX });
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Count;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "a whole number from 0 to {}", u32::MAX)
            }

            fn visit_u64<E: de::Error>(self, count: u64) -> Result<Count, E> {
                let refused = |_| E::invalid_value(de::Unexpected::Unsigned(count), &self);
                count.try_into().map(Count).map_err(refused)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// What every answer shows of a policy.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct ShownPolicy {
    /// How many pops before it is dead; 0 is no limit.
    max_attempts: u32,
    /// The `traceparent` of the put, if it had one.
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<TraceParent>,
    /// The `headers` of the job, if it has any; left out if the token lacks the scope `read`.
    #[serde(skip_serializing_if = "Headers::is_empty")]
    #[schemars(with = "Option<Headers>")]
    headers: Headers,
}

/// What a GET shows besides.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct WholePolicy {
    #[serde(flatten)]
    shown: ShownPolicy,
    /// How long it waits before its next attempt, in seconds; null is no wait.
    backoff: Option<Backoff>,
}

impl From<&Policy> for ShownPolicy {
    fn from(policy: &Policy) -> Self {
        Self {
            max_attempts: policy.max_attempts,
            traceparent: policy.traceparent,
            headers: policy.headers.clone(),
        }
    }
}

impl WholePolicy {
    /// Takes out what a caller may not see who changes jobs and does not read them.
    pub fn without_content(mut self) -> Self {
        self.shown.headers = Headers::NONE;
        self
    }
}

impl From<Policy> for WholePolicy {
    fn from(policy: Policy) -> Self {
        Self { shown: ShownPolicy::from(&policy), backoff: policy.backoff }
    }
}
