//! What requests and answers look like as JSON: names and shapes of the contract.

use axum::{body::Bytes, http::StatusCode};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::value::RawValue;

use super::problem::Problem;
use crate::{
    config::Limits,
    job::{
        Backoff, Change, Job, JobId, MAX_ERROR_BYTES, MAX_TTR, MIN_TTR, Millis, OnConflict,
        PoppedJob, Reservation, Schedule, State, Topic, UnixMillis,
    },
    queue::{Pop, Put},
    store::{self, Held, Moved, Placed},
};

/// The longest wait of a pop.
const MAX_WAIT: Millis = Millis::new(60_000);
/// Most jobs of one pop.
const MAX_COUNT: u64 = 100;

/// For fields that may be left out, but not be null: a variable that was never set must not
/// become a job without a delay.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(d: D) -> Result<Option<T>, D::Error> {
    T::deserialize(d).map(Some)
}

/// A put.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PutJob<'a> {
    topic: Topic,
    #[serde(default, deserialize_with = "given")]
    id: Option<JobId>,
    #[serde(default, borrow)]
    body: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "given")]
    delay: Option<Millis>,
    #[serde(default, deserialize_with = "given")]
    due_at: Option<UnixMillis>,
    #[serde(default, deserialize_with = "given")]
    ttr: Option<Millis>,
    #[serde(default, deserialize_with = "given")]
    max_attempts: Option<Count>,
    #[serde(default, deserialize_with = "given")]
    backoff: Option<Backoff>,
    #[serde(default)]
    on_conflict: OnConflict,
}

/// A number of attempts.
struct Count(u32);

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

impl PutJob<'_> {
    /// Checks what concerns several fields; `content` is where the body text lies.
    pub(super) fn valid(self, content: &Bytes, limits: Limits) -> Result<Put, Problem> {
        Ok(Put {
            id: self.id,
            topic: self.topic,
            body: body(self.body, content, limits)?.unwrap_or_else(|| Bytes::from_static(b"null")),
            schedule: schedule(self.delay, self.due_at)?.unwrap_or(Schedule::In(Millis::ZERO)),
            ttr: ttr(self.ttr)?,
            max_attempts: self.max_attempts.map(|Count(count)| count),
            backoff: self.backoff,
            on_conflict: self.on_conflict,
        })
    }
}

/// A reschedule.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PatchJob<'a> {
    #[serde(default, borrow, deserialize_with = "given")]
    body: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "given")]
    delay: Option<Millis>,
    #[serde(default, deserialize_with = "given")]
    due_at: Option<UnixMillis>,
    #[serde(default, deserialize_with = "given")]
    ttr: Option<Millis>,
    #[serde(default, deserialize_with = "given")]
    max_attempts: Option<Count>,
    #[serde(default, deserialize_with = "given")]
    backoff: Option<Backoff>,
}

impl PatchJob<'_> {
    pub(super) fn valid(self, content: &Bytes, limits: Limits) -> Result<Change, Problem> {
        let change = Change {
            schedule: schedule(self.delay, self.due_at)?,
            body: body(self.body, content, limits)?,
            ttr: ttr(self.ttr)?,
            max_attempts: self.max_attempts.map(|Count(count)| count),
            backoff: self.backoff,
        };
        if change == Change::default() {
            let detail = "must change one of delay, due_at, body, ttr, max_attempts, backoff";
            return Err(Problem::field("body", detail));
        }
        Ok(change)
    }
}

fn body(raw: Option<&RawValue>, content: &Bytes, limits: Limits) -> Result<Option<Bytes>, Problem> {
    let Some(raw) = raw else { return Ok(None) };
    let (length, limit) = (raw.get().len(), limits.body_bytes);
    if length > limit {
        let detail =
            format!("`body` must have at most {limit} bytes (limits.body_bytes), got {length}");
        return Err(Problem { field: Some("body".to_owned()), ..Problem::body_too_large(detail) });
    }
    Ok(Some(content.slice_ref(raw.get().as_bytes())))
}

fn schedule(
    delay: Option<Millis>,
    due_at: Option<UnixMillis>,
) -> Result<Option<Schedule>, Problem> {
    match (delay, due_at) {
        (Some(_), Some(_)) => Err(Problem::field("due_at", "and `delay` exclude each other")),
        (Some(delay), None) => Ok(Some(Schedule::In(delay))),
        (None, Some(due_at)) => Ok(Some(Schedule::At(due_at))),
        (None, None) => Ok(None),
    }
}

pub(super) fn ttr(ttr: Option<Millis>) -> Result<Option<Millis>, Problem> {
    match ttr {
        Some(ttr) if !(MIN_TTR..=MAX_TTR).contains(&ttr) => {
            let given = ttr.as_seconds();
            Err(Problem::field("ttr", format!("must be from 1 second to 24 hours, got {given} s")))
        }
        ttr => Ok(ttr),
    }
}

pub(super) fn error(error: Option<String>) -> Result<Option<String>, Problem> {
    match error {
        Some(text) if text.len() > MAX_ERROR_BYTES => {
            let given = text.len();
            let detail = format!("must have at most {MAX_ERROR_BYTES} bytes, got {given}");
            Err(Problem::field("error", detail))
        }
        error => Ok(error.filter(|text| !text.is_empty())),
    }
}

/// A reservation as clients send it.
#[derive(Deserialize)]
#[serde(from = "String")]
pub(super) struct Token(pub(super) Reservation);

impl From<String> for Token {
    fn from(text: String) -> Self {
        Self(Reservation::from_client(&text))
    }
}

/// Where the text of a transition stands, and what is known besides.
pub(super) enum Place {
    /// A route of one job: its id from the path, its reservation perhaps from the query.
    Path(JobId, Option<Reservation>),
    /// One of a batch.
    Batch,
}

/// What a consumer or operator may ask of one job; the same on its own and in a batch.
pub(super) trait Wish: for<'de> Deserialize<'de> + Default {
    /// What the queue takes.
    type Job;

    fn valid(self, place: Place) -> Result<Self::Job, Problem>;
}

macro_rules! wish {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),* } -> $job:ty, $valid:expr) => {
        $(#[$doc])*
        #[derive(Deserialize, Default)]
        #[serde(deny_unknown_fields)]
        pub(super) struct $name {
            #[serde(default, deserialize_with = "given")]
            id: Option<JobId>,
            #[serde(default, deserialize_with = "given")]
            reservation: Option<Token>,
            $(#[serde(default, deserialize_with = "given")]
            $field: Option<$type>,)*
        }

        impl Wish for $name {
            type Job = $job;

            fn valid(self, place: Place) -> Result<$job, Problem> {
                let valid: fn(Held, $(Option<$type>),*) -> Result<$job, Problem> = $valid;
                valid(held(self.id, self.reservation, place)?, $(self.$field),*)
            }
        }
    };
}

wish! {
    /// A finish.
    Finish {} -> Held, Ok
}
wish! {
    /// A release.
    Release { delay: Millis, error: String } -> store::Release, |held, delay, text| {
        Ok(store::Release { held, delay, error: error(text)? })
    }
}
wish! {
    /// A touch.
    Touch { ttr: Millis } -> store::Touch, |held, span| {
        Ok(store::Touch { held, ttr: ttr(span)? })
    }
}
wish! {
    /// A bury.
    Bury { error: String } -> store::Bury, |held, text| {
        Ok(store::Bury { held, error: error(text)? })
    }
}

/// A delete or a kick: the id is all there is to say.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct Bare {
    #[serde(default, deserialize_with = "given")]
    id: Option<JobId>,
}

impl Wish for Bare {
    type Job = JobId;

    fn valid(self, place: Place) -> Result<JobId, Problem> {
        if let Place::Path(_, Some(_)) = place {
            return Err(Problem::field("reservation", "is not a parameter of this route"));
        }
        held(self.id, None, place).map(|held| held.id)
    }
}

fn held(id: Option<JobId>, token: Option<Token>, place: Place) -> Result<Held, Problem> {
    let token = token.map(|Token(reservation)| reservation);
    match (place, id) {
        (Place::Path(..), Some(_)) => Err(Problem::field("id", "stands in the path already")),
        (Place::Path(_, Some(_)), None) if token.is_some() => {
            Err(Problem::field("reservation", "must be given once: in the query or in the body"))
        }
        (Place::Path(id, in_query), None) => Ok(Held { id, reservation: token.or(in_query) }),
        (Place::Batch, Some(id)) => Ok(Held { id, reservation: token }),
        (Place::Batch, None) => Err(Problem::field("id", "is missing")),
    }
}

/// What became of a job: the answer to most transitions, and one result of a batch (which then
/// has the status that the answer would have had).
#[derive(Serialize)]
pub(super) struct Became {
    pub(super) id: JobId,
    #[serde(skip_serializing_if = "Option::is_none")]
    topic: Option<Topic>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<State>,
    #[serde(skip_serializing_if = "Option::is_none")]
    due_at: Option<UnixMillis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reserved_until: Option<UnixMillis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
}

impl Became {
    fn of(id: JobId) -> Self {
        Self { id, topic: None, state: None, due_at: None, reserved_until: None, status: None }
    }

    pub(super) fn placed(id: JobId, topic: Topic, placed: Placed) -> Self {
        let (state, due_at) = (Some(placed.state), Some(placed.due_at));
        Self { topic: Some(placed.kept.unwrap_or(topic)), state, due_at, ..Self::of(id) }
    }

    pub(super) fn finished(id: JobId) -> Self {
        Self::of(id)
    }

    pub(super) fn moved(id: JobId, moved: &Moved) -> Self {
        Self { due_at: Some(moved.due_at), ..Self::in_state(id, moved.state) }
    }

    pub(super) fn held_until(id: JobId, until: UnixMillis) -> Self {
        Self { reserved_until: Some(until), ..Self::of(id) }
    }

    pub(super) fn in_state(id: JobId, state: State) -> Self {
        Self { state: Some(state), ..Self::of(id) }
    }

    pub(super) fn with_status(self, status: StatusCode) -> Self {
        Self { status: Some(status.as_u16()), ..self }
    }
}

/// A JSON text, written as it stands.
pub(super) struct Text(pub(super) Bytes);

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_slice(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

/// A job as a look at it shows.
#[derive(Serialize)]
pub(super) struct ShownJob {
    id: JobId,
    topic: Topic,
    state: State,
    body: Text,
    attempt: u32,
    max_attempts: u32,
    due_at: UnixMillis,
    created_at: UnixMillis,
    ttr: Millis,
    backoff: Option<Backoff>,
    reserved_until: Option<UnixMillis>,
    died_at: Option<UnixMillis>,
    error: Option<String>,
}

impl From<Job> for ShownJob {
    fn from(job: Job) -> Self {
        Self {
            id: job.id,
            topic: job.topic,
            state: job.state,
            body: Text(job.body),
            attempt: job.attempt,
            max_attempts: job.max_attempts,
            due_at: job.due_at,
            created_at: job.created_at,
            ttr: job.ttr,
            backoff: job.backoff,
            reserved_until: job.reserved_until,
            died_at: job.died_at,
            error: job.error,
        }
    }
}

/// How to pop; in the query or in the body.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct PopOptions {
    #[serde(default, deserialize_with = "given")]
    pub(super) wait: Option<Millis>,
    #[serde(default, deserialize_with = "given")]
    pub(super) count: Option<u64>,
    #[serde(default, deserialize_with = "given")]
    pub(super) ttr: Option<Millis>,
}

impl PopOptions {
    /// Both together; nothing may be said twice.
    pub(super) fn or(self, other: Self) -> Result<Self, Problem> {
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
        })
    }

    pub(super) fn valid(self, topics: Vec<Topic>) -> Result<Pop, Problem> {
        let wait = self.wait.unwrap_or(Millis::ZERO);
        if wait > MAX_WAIT {
            let given = wait.as_seconds();
            return Err(Problem::field(
                "wait",
                format!("must be from 0 to 60 seconds, got {given} s"),
            ));
        }
        let count = match self.count.unwrap_or(1) {
            count @ 1..=MAX_COUNT => u16::try_from(count).unwrap_or(u16::MAX),
            count => {
                let detail = format!("must be from 1 to {MAX_COUNT}, got {count}");
                return Err(Problem::field("count", detail));
            }
        };
        Ok(Pop { topics, count, ttr: ttr(self.ttr)?, wait: wait.into() })
    }
}

/// The answer to a pop.
#[derive(Serialize)]
pub(super) struct PoppedJobs<'a> {
    pub(super) jobs: Vec<ShownPopped<'a>>,
}

/// A job as a pop hands it out.
#[derive(Serialize)]
pub(super) struct ShownPopped<'a> {
    id: &'a JobId,
    topic: &'a Topic,
    body: Text,
    attempt: u32,
    max_attempts: u32,
    due_at: UnixMillis,
    created_at: UnixMillis,
    ttr: Millis,
    reservation: Reservation,
    reserved_until: UnixMillis,
}

impl<'a> From<&'a PoppedJob> for ShownPopped<'a> {
    fn from(job: &'a PoppedJob) -> Self {
        Self {
            id: &job.id,
            topic: &job.topic,
            body: Text(job.body.clone()),
            attempt: job.attempt,
            max_attempts: job.max_attempts,
            due_at: job.due_at,
            created_at: job.created_at,
            ttr: job.ttr,
            reservation: job.reservation,
            reserved_until: job.reserved_until,
        }
    }
}
