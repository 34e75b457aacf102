//! Options of a pop.

use std::time::Duration;

use schemars::{JsonSchema, json_schema};
use serde::Deserialize;

use super::policy::ttr;
use crate::{
    http::{
        problem::Problem,
        schema::{schemas, types},
    },
    job::{Consumer, Millis, Topic},
    queue::Pop,
};

/// Longest wait of a pop.
pub const MAX_WAIT: Millis = Millis::new(60_000);
/// Maximum number of jobs of one pop.
pub const MAX_COUNT: u64 = 100;

/// Schema of the wait of a pop.
struct Wait;
/// Schema of the number of jobs of a pop.
pub struct PopCount;
schemas! {
    Wait => |_| types::duration(Millis::ZERO, MAX_WAIT);
    PopCount => |_| json_schema!({ "type": "integer", "minimum": 1, "maximum": MAX_COUNT });
}

/// Checks how long a request waits. Default: 0.
pub fn wait(given: Option<Millis>) -> Result<Duration, Problem> {
    match given.unwrap_or(Millis::ZERO) {
        wait if wait > MAX_WAIT => {
            let given = wait.as_seconds();
            Err(Problem::field("wait", format!("must be from 0 to 60 seconds, got {given} s")))
        }
        wait => Ok(wait.into()),
    }
}

/// Options of a pop, in the query or in the body.
#[derive(Deserialize, Default, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PopOptions {
    /// Time to wait for the first job. Default: 0.
    #[schemars(with = "Option<Wait>")]
    pub wait: Option<Millis>,
    /// Maximum number of jobs to return. Default: 1.
    #[schemars(with = "Option<PopCount>")]
    pub count: Option<u64>,
    /// Replaces the jobs' own TTR for this attempt.
    #[schemars(with = "Option<types::Ttr>")]
    pub ttr: Option<Millis>,
    /// Name of the consumer, shown with the jobs that it holds and in their history.
    pub consumer: Option<Consumer>,
}

impl PopOptions {
    /// Merges the options of query and body; refuses an option that is in both.
    pub fn or(self, other: Self) -> Result<Self, Problem> {
        fn either<T>(name: &str, one: Option<T>, other: Option<T>) -> Result<Option<T>, Problem> {
            match (one, other) {
                (Some(_), Some(_)) => {
                    Err(Problem::field(name, "must be given once: in the query or in the body"))
                }
                (one, other) => Ok(one.or(other)),
            }
        }
        Ok(Self {
            wait: either("wait", self.wait, other.wait)?,
            count: either("count", self.count, other.count)?,
            ttr: either("ttr", self.ttr, other.ttr)?,
            consumer: either("consumer", self.consumer, other.consumer)?,
        })
    }

    pub fn valid(self, topics: Vec<Topic>) -> Result<Pop, Problem> {
        let wait = wait(self.wait)?;
        let count = match self.count.unwrap_or(1) {
            count @ 1..=MAX_COUNT => u16::try_from(count).unwrap_or(u16::MAX),
            count => {
                let detail = format!("must be from 1 to {MAX_COUNT}, got {count}");
                return Err(Problem::field("count", detail));
            }
        };
        let (ttr, consumer) = (ttr(self.ttr)?, self.consumer);
        Ok(Pop { topics, count, ttr, consumer, wait, enough: usize::MAX })
    }
}
