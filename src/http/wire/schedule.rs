//! Requests about schedules.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_json::value::RawValue;

use super::{body::check_body, policy::with_job_policy};
use crate::{
    config::Limits,
    http::{
        problem::Problem,
        schema::{rules, schedule, types},
    },
    job::{Millis, ScheduleName, Topic, TraceParent, UnixMillis},
    schedules::{Definition, Missed, Overlap, TimingFields},
};

/// Longest cron line, in bytes.
pub const MAX_CRON_BYTES: usize = 256;
/// The time zone of a cron line that names none.
pub const UTC: &str = "UTC";

with_job_policy! {
/// A schedule. Also takes the read-only fields of a GET, so that a client can edit an answer and
/// send it back.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("not" = rules::both("cron", "every")))]
#[expect(dead_code, reason = "some fields are only accepted, not read")]
pub struct PutSchedule<'a> {
    /// Topic of its jobs.
    #[schemars(with = "Topic")]
    topic: Option<Topic>,
    /// Cron line of five fields, or six with seconds first: `0 9 * * MON-FRI`. Names, `L`, `#` and
    /// `@daily` are allowed, and `CRON_TZ=Europe/Berlin` in front. Not with `every`.
    #[schemars(with = "Option<schedule::Cron>")]
    cron: Option<String>,
    /// Time zone of the cron line, by its IANA name. Default: `UTC`.
    #[schemars(with = "Option<schedule::Zone>")]
    timezone: Option<String>,
    /// Time between two instants, from 1 s to ten years. Not with `cron`.
    #[schemars(with = "Option<schedule::Every>")]
    every: Option<Millis>,
    /// One of the instants of `every`, from which the others are counted. Default: 1970-01-01 in
    /// UTC.
    anchor: Option<UnixMillis>,
    /// Earliest instant. Default: none.
    start: Option<UnixMillis>,
    /// End of the instants, exclusive, after `start`. Default: none.
    end: Option<UnixMillis>,
    /// Longest time from an instant to the due time of its job; each job gets another one. Default:
    /// 0.
    jitter: Option<Millis>,
    /// Behaviour at an instant at which the last job is delayed, ready or reserved: `put` puts
    /// another job, `skip` skips the instant. Default: `put`.
    #[schemars(with = "Option<schedule::OverlapWord>")]
    overlap: Option<Overlap>,
    /// Behaviour at instants that are more than a minute overdue, because no server ran or the
    /// topic was full: `once` puts the job of the latest, `none` puts none, `all` puts the last
    /// 1,000. Default: `once`.
    #[schemars(with = "Option<schedule::MissedWord>")]
    missed: Option<Missed>,
    /// Body of each job, as in a put. Default: null.
    #[serde(borrow)]
    #[schemars(with = "Option<types::Anything>")]
    body: Option<&'a RawValue>,
    /// Context of all its jobs in a distributed trace (W3C Trace Context). Default: none.
    traceparent: Option<TraceParent>,
    /// As in the answer to a GET without the scope `read`: fields that the schedule keeps.
    hidden: Option<Vec<Hidden>>,
    /// The name of the path.
    name: Option<ScheduleName>,
    /// As in the answer to a GET; ignored.
    #[schemars(with = "Option<types::Anything>")]
    next: Option<IgnoredAny>,
    /// As in the answer to a GET; ignored.
    #[schemars(with = "Option<types::Anything>")]
    last: Option<IgnoredAny>,
    /// As in the answer to a GET; ignored: a paused schedule stays paused.
    #[schemars(with = "Option<types::Anything>")]
    paused: Option<IgnoredAny>,
    /// As in the answer to a GET; ignored: the schedule belongs to the token of this request.
    #[schemars(with = "Option<types::Anything>")]
    set_by: Option<IgnoredAny>,
    /// As in the answer to a GET; ignored.
    #[schemars(with = "Option<types::Anything>")]
    description: Option<IgnoredAny>,
}
}

/// The timing of a schedule that may be set later.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("not" = rules::both("cron", "every")))]
pub struct PreviewSchedule {
    /// As in a schedule.
    #[schemars(with = "Option<schedule::Cron>")]
    cron: Option<String>,
    /// As in a schedule.
    #[schemars(with = "Option<schedule::Zone>")]
    timezone: Option<String>,
    /// As in a schedule.
    #[schemars(with = "Option<schedule::Every>")]
    every: Option<Millis>,
    /// As in a schedule.
    anchor: Option<UnixMillis>,
    /// As in a schedule.
    start: Option<UnixMillis>,
    /// As in a schedule.
    end: Option<UnixMillis>,
}

/// A field that is left out of an answer if the token may not read the topic of the schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Hidden {
    /// The body of each job.
    Body,
    /// The headers of each job.
    Headers,
}

impl Hidden {
    /// The fields that an answer leaves out.
    pub const ALL: [Self; 2] = [Self::Body, Self::Headers];

    fn name(self) -> &'static str {
        match self {
            Self::Body => "body",
            Self::Headers => "headers",
        }
    }

    /// Copies the field from another definition.
    pub fn keep(self, old: &Definition, new: &mut Definition) {
        match self {
            Self::Body => new.body.clone_from(&old.body),
            Self::Headers => new.headers.clone_from(&old.headers),
        }
    }
}

impl PutSchedule<'_> {
    /// Returns the fields that the schedule keeps.
    pub fn kept(&self) -> Result<Vec<Hidden>, Problem> {
        let hidden = self.hidden.clone().unwrap_or_default();
        let is_given = |field: &Hidden| match field {
            Hidden::Body => self.body.is_some(),
            Hidden::Headers => self.headers.is_some(),
        };
        match hidden.iter().copied().find(is_given) {
            Some(field) => {
                let detail = format!("must not name `{}`, which is given", field.name());
                Err(Problem::field("hidden", detail))
            }
            None => Ok(hidden),
        }
    }

    /// Checks the schedule for the name of the path, but for its timing.
    pub fn valid(mut self, name: &ScheduleName, limits: Limits) -> Result<Definition, Problem> {
        if self.name.as_ref().is_some_and(|given| given != name) {
            let detail = format!("must be the name of the path, {name:?}");
            return Err(Problem::field("name", detail));
        }
        let mut policy = self.policy()?;
        let headers = policy.headers.take();
        let timing = TimingFields {
            cron: self.cron,
            timezone: self.timezone,
            every: self.every,
            anchor: self.anchor,
            start: self.start,
            end: self.end,
        };
        if let Some(raw) = self.body {
            check_body(raw, limits)?;
        }
        Ok(Definition {
            topic: self.topic.ok_or_else(|| Problem::field("topic", "is missing"))?,
            timing: normalized(timing)?,
            jitter: self.jitter.unwrap_or(Millis::ZERO),
            overlap: self.overlap.unwrap_or_default(),
            missed: self.missed.unwrap_or_default(),
            body: self.body.map_or("null", RawValue::get).to_owned(),
            policy,
            headers: headers.unwrap_or_default(),
            traceparent: self.traceparent,
        })
    }
}

impl PreviewSchedule {
    /// Returns the timing.
    pub fn timing(self) -> Result<TimingFields, Problem> {
        let Self { cron, timezone, every, anchor, start, end } = self;
        normalized(TimingFields { cron, timezone, every, anchor, start, end })
    }
}

/// Leaves out a time zone that equals the default, so that it does not count as a change.
fn normalized(timing: TimingFields) -> Result<TimingFields, Problem> {
    if let Some(cron) = timing.cron.as_ref().filter(|cron| cron.len() > MAX_CRON_BYTES) {
        let detail = format!("must have at most {MAX_CRON_BYTES} bytes, got {}", cron.len());
        return Err(Problem::field("cron", detail));
    }
    let is_default = timing.cron.is_some() && timing.timezone.as_deref() == Some(UTC);
    let has_own = timing.cron.as_ref().is_some_and(|cron| cron.trim_start().starts_with("CRON_TZ"));
    match is_default && !has_own {
        true => Ok(TimingFields { timezone: None, ..timing }),
        false => Ok(timing),
    }
}
