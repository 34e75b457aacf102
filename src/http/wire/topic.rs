//! Defaults and pauses of topics.

use schemars::JsonSchema;
use serde::{Deserialize, de::IgnoredAny};

use super::{json::object, policy::with_policy};
use crate::{
    http::{problem::Problem, schema::types},
    job::{Millis, PolicyFields, Topic},
};

with_policy! {
/// Defaults for new jobs of a topic: alone, or with all fields of a GET, so that a client can send
/// its whole answer back.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PutTopic {
    /// Time that a dead job is kept. Default: 14 days.
    dead_retention: Option<Millis>,
    /// Another topic, to which a job moves when it dies: it is ready there at once. A job moves
    /// only once. Needs `put` for that topic. Its own `dead_to` must not lead back to this topic.
    dead_to: Option<Topic>,

    /// The same fields, nested as in the answer to a GET. Excludes them at the top level.
    #[serde(default, deserialize_with = "object")]
    defaults: Option<Defaults>,
    /// The topic of the path.
    topic: Option<Topic>,
    /// Must equal the value of the topic; pause and resume are separate routes.
    paused: Option<bool>,
    /// As in the answer to a GET; ignored.
    #[schemars(with = "Option<types::Anything>")]
    paused_until: Option<IgnoredAny>,
    /// As in the answer to a GET; ignored.
    #[schemars(with = "Option<types::Anything>")]
    delayed: Option<IgnoredAny>,
    /// As in the answer to a GET; ignored.
    #[schemars(with = "Option<types::Anything>")]
    ready: Option<IgnoredAny>,
    /// As in the answer to a GET; ignored.
    #[schemars(with = "Option<types::Anything>")]
    reserved: Option<IgnoredAny>,
    /// As in the answer to a GET; ignored.
    #[schemars(with = "Option<types::Anything>")]
    dead: Option<IgnoredAny>,
    /// As in the answer to a GET; ignored.
    #[schemars(with = "Option<types::Anything>")]
    finished: Option<IgnoredAny>,
    /// As in the answer to a GET; ignored.
    #[schemars(with = "Option<types::Anything>")]
    next_due_at: Option<IgnoredAny>,
    /// As in the answer to a GET; ignored.
    #[schemars(with = "Option<types::Anything>")]
    oldest_ready_age: Option<IgnoredAny>,
    /// As in the answer to a GET; ignored.
    #[schemars(with = "Option<types::Anything>")]
    since_start: Option<IgnoredAny>,
    /// As in the answer to a GET; ignored.
    #[schemars(with = "Option<types::Anything>")]
    push: Option<IgnoredAny>,
}
}

with_policy! {
/// Defaults for new jobs of a topic; the server's default applies where a field is null.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct Defaults {
    /// Time that a dead job is kept. Default: 14 days.
    dead_retention: Option<Millis>,
    /// Another topic, to which a job moves when it dies; null if it stays.
    dead_to: Option<Topic>,
}
}

/// A pause: for a time, or until the topic is resumed.
#[derive(Deserialize, Default, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PauseTopic {
    /// Length of the pause, longer than 0. Default: until the topic is resumed.
    #[serde(rename = "for")]
    #[schemars(with = "Option<types::Span>")]
    span: Option<Millis>,
}

impl PauseTopic {
    /// Returns the length of the pause.
    pub fn valid(self) -> Result<Option<Millis>, Problem> {
        match self.span {
            Some(Millis::ZERO) => Err(Problem::field("for", "must be longer than 0")),
            span => Ok(span),
        }
    }
}

impl Defaults {
    fn valid(mut self, topic: &Topic) -> Result<PolicyFields, Problem> {
        let of_dead = (self.dead_retention, self.dead_to.take());
        default_policy(self.policy()?, of_dead, topic)
    }
}

/// Treats a null `backoff` or `expires_after` as absent. Refuses a `dead_to` that is the topic.
fn default_policy(
    policy: PolicyFields,
    (dead_retention, dead_to): (Option<Millis>, Option<Topic>),
    topic: &Topic,
) -> Result<PolicyFields, Problem> {
    if dead_to.as_ref() == Some(topic) {
        let detail = format!("must be another topic, got {topic:?} itself");
        return Err(Problem::field("dead_to", detail));
    }
    let backoff = policy.backoff.filter(Option::is_some);
    let expires_after = policy.expires_after.filter(Option::is_some);
    Ok(PolicyFields { backoff, expires_after, dead_retention, dead_to, ..policy })
}

impl PutTopic {
    /// Checks the defaults for the topic of the path, which is `paused` or not.
    pub fn valid(mut self, topic: &Topic, paused: bool) -> Result<PolicyFields, Problem> {
        let shows_a_topic = self.shows_a_topic();
        if self.topic.as_ref().is_some_and(|given| given != topic) {
            return Err(Problem::field(
                "topic",
                format!("must be the topic of the path, {topic:?}"),
            ));
        }
        if self.paused.is_some_and(|given| given != paused) {
            let detail = "cannot be changed here: use the routes that pause and resume a topic";
            return Err(Problem::field("paused", detail));
        }
        let of_dead = (self.dead_retention, self.dead_to.take());
        let own = default_policy(self.policy()?, of_dead, topic)?;
        let says_none = own == PolicyFields::default();
        match self.defaults {
            Some(_) if !says_none => {
                let detail = "cannot be combined with the same fields next to it";
                Err(Problem::field("defaults", detail))
            }
            Some(defaults) => defaults.valid(topic).map_err(|problem| problem.within("defaults")),
            // An entry in a list of topics has no defaults. If a client sends it back, it must not
            // remove the defaults of the topic.
            None if says_none && shows_a_topic => Err(Problem::field("defaults", "is missing")),
            None => Ok(own),
        }
    }

    fn shows_a_topic(&self) -> bool {
        let counts = [&self.delayed, &self.ready, &self.reserved, &self.dead, &self.finished];
        let times = [&self.paused_until, &self.next_due_at, &self.oldest_ready_age];
        let rest = times.into_iter().chain([&self.since_start, &self.push]);
        let names = self.topic.is_some() || self.paused.is_some();
        names || counts.into_iter().chain(rest).any(Option::is_some)
    }
}
