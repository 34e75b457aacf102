//! Loaded jobs, for the decisions of `delay-queue-core`.

use bytes::Bytes;
use delay_queue_core::decide::{Attempts, Known};

use super::{
    arrival::Arrival,
    request::{Answer, Request},
    texts::Texts,
};
use crate::{
    job::{History, Job, JobId, Refusal, Running, State, Topic, Topics, UnixMillis},
    store::{
        Now, Reply,
        redis::{
            codec::{
                Attempt, FinishedFields, FinishedHeader, MARK, PoolRecord, Rules, parse_history,
                parse_time, time_text, topic_of_finished,
            },
            score::time_of,
        },
    },
};

/// Argument of `swap.lua` instead of a new record or state: the old one goes.
pub const ERASED: &str = "-";

/// A job that was loaded.
#[derive(Debug)]
pub struct Loaded<'a> {
    pub id: &'a JobId,
    pub texts: Texts,
    /// Attempt record, or the attempt in the record of a finished job; `None` if there is none, or
    /// it is damaged.
    pub attempt: Option<Attempt>,
    pub rules: Rules,
    /// The rules as its records have them.
    pub rules_text: String,
    /// The body that the request brings, or the stored one for an answer that shows it.
    pub body: Option<Bytes>,
    /// Whether the set of the jobs that expire has the job, whatever its policy says.
    pub is_expiring: bool,
    /// The job that the request brings.
    pub arrival: Option<Arrival<'a>>,
    /// Whether no job has the id, so that the one that the request brings can have it.
    pub is_absent: bool,
    /// Whether the rules in both records are damaged, or the body that an answer shows.
    is_damaged: bool,
    pub topic: Topic,
    pub due_at: UnixMillis,
    /// The time in its score.
    at: UnixMillis,
    /// The creation time in the pool record, as text; `None` if there is none, or it is damaged.
    pub created: Option<String>,
    /// How the job ended, if it is finished and its record is sound.
    fields: Option<FinishedFields>,
}

impl<'a> Loaded<'a> {
    /// Parses the texts of a job that a caller names.
    ///
    /// # Errors
    /// `NotFound`, and `Damaged` if nothing names its topic. Other refusals are left to the
    /// decision.
    pub fn parse<R: Request>(request: &'a R, texts: Texts, now: Now) -> Reply<Self> {
        let (id, shows_body, arrival) = (request.id(), R::Answer::HAS_BODY, request.arrival());
        if let Some(arrival) = arrival
            && !texts.has_record
        {
            return Ok(Self::absent(id, texts, arrival, now));
        }
        if texts.is_gone() || shows_body && texts.header().is_empty() {
            return Err(Refusal::NotFound);
        }
        let is_expiring = request.is_expiry();
        if texts.is_finished() {
            let job = Self::of_finished(id, texts, request, now)?;
            return Ok(Self { arrival, ..job });
        }
        // A new body takes the place of one that is damaged.
        let stored = || PoolRecord::parse(id, texts.record()).map(|record| record.body).ok();
        let body = request.body().cloned().or_else(|| shows_body.then(stored)?);
        let header = str::from_utf8(texts.header()).ok();
        let header = header.and_then(|header| header.strip_prefix("4 ")?.split_once(' '));
        let is_time = |text: &&str| parse_time(text).is_some();
        let created = header.map(|(created, _)| created).filter(is_time).map(str::to_owned);
        let attempt = String::from_utf8_lossy(texts.attempt());
        let parsed = Attempt::parse_numbers(&attempt);
        let sound = |text: &str| Some((Rules::parse(id, text)?, text.to_owned()));
        let found = parsed.as_ref().and_then(|(_, rules)| sound(rules));
        let found = found.or_else(|| sound(header?.1));
        let is_damaged = found.is_none() || shows_body && body.is_none();
        let own = found.as_ref().map(|(rules, _)| rules.topic.clone());
        let named =
            || parsed.as_ref().and_then(|(_, rules)| rules.rsplit(' ').next()?.parse().ok());
        let topic = texts.topic.clone().or(own).or_else(named).or_else(|| topic_of(arrival));
        let topic = topic.ok_or_else(|| refusal_of(Refusal::Damaged, None, request.topics()))?;
        let (rules, rules_text) = found.unwrap_or_else(|| {
            let rules = Rules::of_damaged(topic.clone());
            let text = rules.text(id);
            (rules, text)
        });
        let attempt = parsed.map(|(attempt, _)| attempt);
        let at = |state| texts.score.parse().ok().and_then(|score| time_of(state, score));
        let at = texts.state.and_then(at).unwrap_or(now.floor);
        let due_at = match (texts.state, &attempt) {
            (Some(State::Delayed | State::Ready), _) | (_, None) => at,
            (_, Some(attempt)) => attempt.due_at,
        };
        Ok(Self {
            id,
            texts,
            attempt,
            rules,
            rules_text,
            body,
            is_expiring,
            arrival,
            is_absent: false,
            is_damaged,
            topic,
            due_at,
            at,
            created,
            fields: None,
        })
    }

    /// Returns what is stored of an id that no job has: at most what is left without a pool record.
    fn absent(id: &'a JobId, texts: Texts, arrival: Arrival<'a>, now: Now) -> Self {
        let topic = texts.topic.clone().unwrap_or_else(|| arrival.topic().clone());
        let rules = Rules::of_damaged(topic.clone());
        Self {
            id,
            attempt: None,
            rules_text: rules.text(id),
            rules,
            body: None,
            is_expiring: false,
            arrival: Some(arrival),
            is_absent: true,
            is_damaged: true,
            topic,
            due_at: now.floor,
            at: now.floor,
            created: None,
            fields: None,
            texts,
        }
    }

    fn of_finished<R: Request>(id: &'a JobId, texts: Texts, request: &R, now: Now) -> Reply<Self> {
        let header = FinishedHeader::parse(id, texts.header());
        let topic = texts.topic.clone().or_else(|| topic_of_finished(texts.header()));
        let topic = topic.or_else(|| topic_of(request.arrival()));
        let topic = topic.ok_or_else(|| refusal_of(Refusal::Damaged, None, request.topics()))?;
        let created = header.as_ref().map(|header| time_text(header.created_at));
        let fields = header.as_ref().map(|header| header.fields.clone());
        let rules = header.map_or_else(|| Rules::of_damaged(topic.clone()), Rules::of_finished);
        let attempt = fields.as_ref().map(|fields| Attempt {
            attempt: fields.attempt,
            has_history: !texts.history().is_empty(),
            is_snoozed: false,
            reservation: fields.reservation,
            due_at: fields.due_at,
            died_at: UnixMillis::new(0),
            ttr: rules.policy.ttr,
            error: None,
        });
        let at = texts.score.parse().ok().and_then(|score| time_of(State::Finished, score));
        let at = at.unwrap_or(now.floor);
        Ok(Self {
            id,
            attempt,
            rules_text: rules.text(id),
            rules,
            body: None,
            is_expiring: false,
            arrival: None,
            is_absent: false,
            is_damaged: false,
            topic,
            due_at: fields.as_ref().map_or(at, |fields| fields.due_at),
            at,
            created,
            fields,
            texts,
        })
    }

    /// Returns what decisions need to know. `may_move` is false after the topic of its policy could
    /// not take the job, `has_room` after Redis was full.
    pub fn known(&self, may_move: bool, has_room: bool) -> Known<'_> {
        let attempts = self.attempt.as_ref().map(|attempt| Attempts {
            number: attempt.attempt,
            is_snoozed: attempt.is_snoozed,
            reservation: attempt.reservation,
            died_at: attempt.died_at,
        });
        Known {
            id: self.id,
            topic: &self.topic,
            state: match self.texts.state {
                _ if self.texts.is_finished() => State::Finished,
                state => state.unwrap_or(State::Ready),
            },
            is_astray: self.texts.state.is_none(),
            due_at: self.due_at,
            held_until: self.at,
            policy: &self.rules.policy,
            expires_at: self.rules.policy.expires_at,
            attempts,
            outcome: self.fields.as_ref().map(|fields| fields.outcome),
            may_move,
            has_room,
            has_record: self.created.is_some(),
            is_damaged: self.is_damaged,
        }
    }

    /// Returns what is left of the attempt record once its attempts are forgotten: the mark of a
    /// history that the job may have; empty if there is no record.
    pub fn forgotten_attempt(&self) -> &'static str {
        match &self.attempt {
            Some(attempt) if !attempt.has_history => ERASED,
            None if self.texts.attempt().is_empty() => "",
            Some(_) | None => MARK,
        }
    }

    /// Returns whether a stored body may remain that is not in the record.
    pub fn may_have_long_body(&self) -> bool {
        let is_known = match self.texts.is_finished() {
            true => self.fields.is_some(),
            false => !self.is_damaged,
        };
        !is_known || self.rules.has_long_body()
    }

    /// Returns the history, and the running attempt if a consumer holds the job.
    pub fn history(&self) -> (History, Option<Running>) {
        let policy = &self.rules.policy;
        let ended = UnixMillis::new(self.at.get().saturating_sub(policy.finished_retention.get()));
        let only = self.fields.as_ref().and_then(|fields| fields.history(ended));
        let history = only.unwrap_or_else(|| parse_history(self.id, self.texts.history()));
        let running = self.attempt.as_ref().filter(|_| self.texts.state == Some(State::Reserved));
        let of = |attempt: &Attempt| Running {
            reservation: attempt.reservation,
            until: self.at,
            ttr: attempt.ttr,
        };
        (history, running.map(of))
    }

    /// Returns the job in a state in which no consumer holds it, with this history; `None` if its
    /// creation time is damaged.
    pub fn job(&self, state: State, history: History) -> Option<Job> {
        let attempt = self.attempt.as_ref();
        Some(history.into_job(Job {
            id: self.id.clone(),
            topic: self.topic.clone(),
            body: self.body.clone().unwrap_or_default(),
            state,
            attempt: attempt.map_or(0, |attempt| attempt.attempt),
            is_snoozed: attempt.is_some_and(|attempt| attempt.is_snoozed),
            due_at: self.due_at,
            created_at: parse_time(self.created.as_ref()?)?,
            ttr: self.rules.policy.ttr,
            policy: self.rules.policy.clone(),
            reservation: attempt.and_then(|attempt| attempt.reservation),
            reserved_until: None,
            died_at: None,
            error: attempt.and_then(|attempt| attempt.error.clone()),
            ending: None,
            consumer: None,
            started_at: None,
            history: Vec::new(),
        }))
    }
}

fn topic_of(arrival: Option<Arrival<'_>>) -> Option<Topic> {
    arrival.map(|arrival| arrival.topic().clone())
}

/// Returns the refusal of a job; for a caller who may not access its topic, it does not exist.
fn refusal_of(refusal: Refusal, topic: Option<&Topic>, topics: &Topics) -> Refusal {
    let is_open = topics.patterns().is_none() || topic.is_some_and(|topic| topics.allows(topic));
    if is_open { refusal } else { Refusal::NotFound }
}
