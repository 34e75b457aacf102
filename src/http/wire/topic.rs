//! The settings of a topic.

use serde::{Deserialize, de::IgnoredAny};

use super::{put::Count, ttr};
use crate::{
    http::problem::Problem,
    job::{Backoff, Millis, Topic, TopicDefaults},
};

/// Defaults for new jobs of a topic: on their own, or in all that a GET shows of it, so that the
/// whole answer can be sent back.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PutTopic {
    ttr: Option<Millis>,
    max_attempts: Option<Count>,
    backoff: Option<Backoff>,
    dead_retention: Option<Millis>,

    defaults: Option<Defaults>,
    topic: Option<Topic>,
    paused: Option<bool>,
    paused_until: Option<IgnoredAny>,
    delayed: Option<IgnoredAny>,
    ready: Option<IgnoredAny>,
    reserved: Option<IgnoredAny>,
    dead: Option<IgnoredAny>,
    next_due_at: Option<IgnoredAny>,
    oldest_ready_age: Option<IgnoredAny>,
    since_start: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Defaults {
    ttr: Option<Millis>,
    max_attempts: Option<Count>,
    backoff: Option<Backoff>,
    dead_retention: Option<Millis>,
}

/// A pause: for a time, or until the topic is resumed.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub struct PauseTopic {
    #[serde(rename = "for")]
    span: Option<Millis>,
}

impl PauseTopic {
    /// For how long.
    pub fn valid(self) -> Result<Option<Millis>, Problem> {
        match self.span {
            Some(Millis::ZERO) => Err(Problem::field("for", "must be longer than 0")),
            span => Ok(span),
        }
    }
}

impl Defaults {
    fn valid(self) -> Result<TopicDefaults, Problem> {
        Ok(TopicDefaults {
            ttr: ttr(self.ttr)?,
            max_attempts: self.max_attempts.map(|Count(count)| count),
            backoff: self.backoff,
            dead_retention: self.dead_retention,
        })
    }
}

impl PutTopic {
    /// Checks it for the topic of the path, which is paused or not.
    pub fn valid(self, topic: &Topic, paused: bool) -> Result<TopicDefaults, Problem> {
        let shows_a_topic = self.shows_a_topic();
        if self.topic.is_some_and(|given| given != *topic) {
            return Err(Problem::field("topic", format!("must be the one of the path, {topic:?}")));
        }
        if self.paused.is_some_and(|given| given != paused) {
            let detail = "cannot be changed here: pause and resume are routes of their own";
            return Err(Problem::field("paused", detail));
        }
        let Self { ttr, max_attempts, backoff, dead_retention, .. } = self;
        let own = Defaults { ttr, max_attempts, backoff, dead_retention }.valid()?;
        let says_none = own == TopicDefaults::default();
        match self.defaults {
            Some(_) if !says_none => {
                let detail = "and its fields beside it exclude each other";
                Err(Problem::field("defaults", detail))
            }
            Some(defaults) => defaults.valid().map_err(|problem| problem.within("defaults")),
            // What a list shows of a topic does not say them, and must not take them away.
            None if says_none && shows_a_topic => Err(Problem::field("defaults", "is missing")),
            None => Ok(own),
        }
    }

    fn shows_a_topic(&self) -> bool {
        let counts = [&self.delayed, &self.ready, &self.reserved, &self.dead];
        let rest =
            [&self.paused_until, &self.next_due_at, &self.oldest_ready_age, &self.since_start];
        let names = self.topic.is_some() || self.paused.is_some();
        names || counts.into_iter().chain(rest).any(Option::is_some)
    }
}
