//! Fields of a policy in requests and answers. Their doc comments explain them to clients.

use schemars::{JsonSchema, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

use crate::{
    http::{problem::Problem, schema::schemas},
    job::{
        Backoff, Headers, MAX_FINISHED_RETENTION, MAX_TTR, MIN_TTR, Millis, Policy, Priority,
        Topic, TraceParent, UnixMillis,
    },
};

/// Declares a request with its own fields and the policy fields that puts, changes of a job and the
/// defaults of a topic share. Its method `policy` validates the latter.
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
            /// Time that a consumer has to finish the job. Default of a put: that of its topic,
            /// else 60 s. A change applies from the next pop on.
            #[schemars(with = "Option<crate::http::schema::types::Ttr>")]
            ttr: Option<$crate::job::Millis>,
            /// Number of pops before the job is dead; 0 means no limit. Default of a put: the
            /// topic's, else 20, or one more than the number of values if `backoff` is a list.
            max_attempts: Option<$crate::http::wire::policy::Count>,
            /// Time before the next attempt after a release without a `delay` or an ended TTR: a
            /// list of durations, whose last value repeats, or exponential. Default of a put: the
            /// topic's, else none, so the job is ready again at once. In a change null removes it,
            /// and a list adjusts a `max_attempts` that was derived from the old one.
            #[schemars(with = "Option<crate::job::Backoff>")]
            #[serde(default, deserialize_with = "super::given")]
            backoff: Option<Option<$crate::job::Backoff>>,
            /// Time that the job is kept as `finished` after its finish, with its result, at most
            /// 30 days: its id stays taken, so that a put that is retried does not run it twice.
            /// Default of a put: the topic's, else 0, so it is gone at once.
            #[schemars(with = "Option<crate::http::schema::types::FinishedRetention>")]
            finished_retention: Option<$crate::job::Millis>,
            /// Priority among the ready jobs of the topic, from 0 to 9: larger ones are popped
            /// first. Default of a put: the topic's, else 4.
            priority: Option<$crate::job::Priority>,
            /// Time after the due time at which the job expires, from 1 ms to ten years: if it is
            /// still delayed or ready then, it becomes dead with the error `expired`. Default of a
            /// put: the topic's, else never. In a change null removes it, and the time counts from
            /// the due time that the job then has.
            #[schemars(with = "Option<crate::http::schema::types::ExpiresAfter>")]
            #[serde(default, deserialize_with = "super::given")]
            expires_after: Option<Option<$crate::job::Millis>>,
        }

        impl $(<$life>)? $name $(<$life>)? {
            /// Returns the policy fields that are given.
            fn policy(&mut self) -> Result<$crate::job::PolicyFields, $crate::http::problem::Problem> {
                Ok($crate::job::PolicyFields {
                    ttr: $crate::http::wire::policy::ttr(self.ttr)?,
                    max_attempts: self.max_attempts.take().map(|count| count.0),
                    backoff: self.backoff.take(),
                    finished_retention: $crate::http::wire::policy::finished_retention(
                        "finished_retention",
                        self.finished_retention,
                    )?,
                    priority: self.priority,
                    expires_after: $crate::http::wire::policy::expires_after(self.expires_after)?,
                    $(headers: self.$headers.take().map(Option::unwrap_or_default),)?
                    ..Default::default()
                })
            }
        }
    };
}
pub(super) use with_policy;

/// Declares a put or a change of a job, with the policy fields that have no defaults per topic.
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
                /// Text for the job's consumers, by name: at most 32 headers, 8 KiB together. Names
                /// are those of HTTP headers, kept as written; two must not differ in case alone.
                /// Values are visible ASCII, spaces and tabs. Reserved names: those of HTTP's own
                /// framing and credentials, `delay-queue-*` and `webhook-*`. In a change they
                /// replace all headers of the job, and null removes them.
                #[schemars(with = "Option<crate::job::Headers>")]
                #[serde(default, deserialize_with = "super::given")]
                headers: Option<Option<$crate::job::Headers>>,
            }
            of_jobs headers
        }
    };
}
pub(super) use with_job_policy;

/// Refuses a TTR outside its limits.
pub fn ttr(ttr: Option<Millis>) -> Result<Option<Millis>, Problem> {
    match ttr {
        Some(ttr) if !(MIN_TTR..=MAX_TTR).contains(&ttr) => {
            let given = ttr.as_seconds();
            Err(Problem::field("ttr", format!("must be from 1 second to 24 hours, got {given} s")))
        }
        ttr => Ok(ttr),
    }
}

/// Refuses a retention of a finished job outside its limits.
pub fn finished_retention(
    field: &str,
    retention: Option<Millis>,
) -> Result<Option<Millis>, Problem> {
    match retention {
        Some(long) if long > MAX_FINISHED_RETENTION => {
            let given = long.as_seconds();
            Err(Problem::field(field, format!("must be at most 30 days, got {given} s")))
        }
        retention => Ok(retention),
    }
}

/// Refuses an `expires_after` of 0, with which the job would expire when it is due.
pub fn expires_after(after: Option<Option<Millis>>) -> Result<Option<Option<Millis>>, Problem> {
    match after {
        Some(Some(Millis::ZERO)) => {
            Err(Problem::field("expires_after", "must be from 1 millisecond to ten years, got 0"))
        }
        after => Ok(after),
    }
}

/// Number of attempts.
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

/// Policy fields in every answer.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct ShownPolicy {
    /// Number of pops before the job is dead; 0 means no limit.
    max_attempts: u32,
    /// Priority among the ready jobs of the topic; the answer to a pop leaves out the default 4.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Priority")]
    priority: Option<Priority>,
    /// When the job expires; absent if it never does.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "UnixMillis")]
    expires_at: Option<UnixMillis>,
    /// The topic in which the job died before it moved here; absent if it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Topic")]
    dead_from: Option<Topic>,
    /// The instant at which its schedule put the job; absent if no schedule did.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "UnixMillis")]
    scheduled_at: Option<UnixMillis>,
    /// The `traceparent` of the put, if it had one.
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<TraceParent>,
    /// The `headers` of the job; absent if it has none or the token lacks the scope `read`.
    #[serde(skip_serializing_if = "Headers::is_empty")]
    #[schemars(with = "Option<Headers>")]
    headers: Headers,
}

/// Policy fields in the answer to a GET.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct WholePolicy {
    #[serde(flatten)]
    shown: ShownPolicy,
    /// Time before the next attempt, in seconds; null is none.
    backoff: Option<Backoff>,
    /// Seconds that the job is kept after its finish; absent if it is not.
    #[serde(skip_serializing_if = "Millis::is_zero")]
    #[schemars(with = "Option<Millis>")]
    finished_retention: Millis,
    /// Seconds from the due time to `expires_at`; absent if the job never expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Millis")]
    expires_after: Option<Millis>,
}

impl From<&Policy> for ShownPolicy {
    fn from(policy: &Policy) -> Self {
        Self {
            max_attempts: policy.max_attempts,
            priority: Some(policy.priority).filter(|priority| !priority.is_standard()),
            expires_at: policy.expires_at,
            dead_from: policy.dead_from.clone(),
            scheduled_at: policy.scheduled_at,
            traceparent: policy.traceparent,
            headers: policy.headers.clone(),
        }
    }
}

impl WholePolicy {
    /// Removes content that a caller without the scope `read` may not see.
    pub fn without_content(mut self) -> Self {
        self.shown.headers = Headers::NONE;
        self
    }
}

impl From<Policy> for WholePolicy {
    fn from(policy: Policy) -> Self {
        Self {
            shown: ShownPolicy { priority: Some(policy.priority), ..ShownPolicy::from(&policy) },
            finished_retention: policy.finished_retention,
            expires_after: policy.expires_after,
            backoff: policy.backoff,
        }
    }
}
