//! Defaults and pauses of topics.

use schemars::JsonSchema;
use serde::{Deserialize, de::IgnoredAny};

use super::policy::with_policy;
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

    /// The same fields, as in the answer to a GET; not together with them.
    defaults: Option<Defaults>,
    /// The topic of the path.
    topic: Option<Topic>,
    /// Must be as the topic is; pause and resume are separate routes.
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
    fn valid(mut self) -> Result<PolicyFields, Problem> {
        Ok(default_policy(self.policy()?, self.dead_retention))
    }
}

/// Treats a null `backoff` as absent.
fn default_policy(policy: PolicyFields, dead_retention: Option<Millis>) -> PolicyFields {
    let backoff = policy.backoff.filter(Option::is_some);
    PolicyFields { backoff, dead_retention, ..policy }
}

impl PutTopic {
    /// Checks the defaults for the topic of the path, which is `paused` or not.
    pub fn valid(mut self, topic: &Topic, paused: bool) -> Result<PolicyFields, Problem> {
        let shows_a_topic = self.shows_a_topic();
        if self.topic.as_ref().is_some_and(|given| given != topic) {
            return Err(Problem::field("topic", format!("must be the one of the path, {topic:?}")));
        }
        if self.paused.is_some_and(|given| given != paused) {
            let detail = "cannot be changed here: pause and resume are routes of their own";
            return Err(Problem::field("paused", detail));
        }
        let own = default_policy(self.policy()?, self.dead_retention);
        let says_none = own == PolicyFields::default();
        match self.defaults {
            Some(_) if !says_none => {
                let detail = "and its fields next to it exclude each other";
                Err(Problem::field("defaults", detail))
            }
            Some(defaults) => defaults.valid().map_err(|problem| problem.within("defaults")),
            // The entry of a topic in a list has no defaults; sent back, it must not remove them.
            None if says_none && shows_a_topic => Err(Problem::field("defaults", "is missing")),
            None => Ok(own),
        }
    }

    fn shows_a_topic(&self) -> bool {
        let counts = [&self.delayed, &self.ready, &self.reserved, &self.dead, &self.finished];
        let rest =
            [&self.paused_until, &self.next_due_at, &self.oldest_ready_age, &self.since_start];
        let names = self.topic.is_some() || self.paused.is_some();
        names || counts.into_iter().chain(rest).any(Option::is_some)
    }
}
