//! Jobs as `load.lua` returns them, for the decisions of `delay-queue-core`.

use delay_queue_core::decide::{Attempts, Known};

use crate::{
    job::{History, JobId, Refusal, Running, State, Topic, Topics, UnixMillis},
    store::{
        JobRef, Now, Reply, StoreError,
        redis::{
            codec::{Attempt, Rules, is_finished, parse_history, topic_of_finished},
            reply::{Values, state_of},
            score::time_of,
        },
    },
};

/// The texts of a job, byte for byte. A swap compares them with those that are stored.
#[derive(Debug, Default)]
pub struct Texts {
    /// Attempt record; empty if there is none.
    pub attempt: Vec<u8>,
    /// First line of the pool record; empty if there is none. The whole record of a finished job.
    pub header: Vec<u8>,
    pub history: Vec<u8>,
    /// Topic that has the job; `None` if no set has it.
    pub topic: Option<Topic>,
    pub state: Option<State>,
    /// Score in its set.
    pub score: String,
}

impl Texts {
    pub fn read(reply: &mut Values) -> Result<Self, StoreError> {
        let (attempt, header, history) = (reply.bytes()?, reply.bytes()?, reply.bytes()?);
        let (topic, code, score) = (reply.text()?, reply.int()?, reply.text()?);
        let state = if code == 0 { None } else { Some(state_of(code)?) };
        Ok(Self { attempt, header, history, topic: topic.parse().ok(), state, score })
    }

    /// Returns whether there is a job that no set of the topics in its records has.
    pub fn is_astray(&self) -> bool {
        let is_gone = self.attempt.is_empty() && self.header.is_empty();
        self.state.is_none() && !is_gone && !is_finished(&self.header)
    }
}

/// A job that is not finished, and was loaded.
#[derive(Debug)]
pub struct Loaded<'a> {
    pub id: &'a JobId,
    pub texts: Texts,
    /// Attempt record; `None` if there is none, or it is damaged.
    pub attempt: Option<Attempt>,
    pub rules: Rules,
    /// The rules as its records have them.
    pub rules_text: String,
    /// Whether the rules in both records are damaged.
    is_damaged: bool,
    pub topic: Topic,
    pub due_at: UnixMillis,
    /// The time in its score.
    at: UnixMillis,
}

impl<'a> Loaded<'a> {
    /// Parses the texts of a job that a caller names.
    ///
    /// # Errors
    /// `NotFound` and `Finished`. Other refusals are left to the decision.
    pub fn parse(held: &'a JobRef, texts: Texts, now: Now) -> Reply<Self> {
        let id = &held.id;
        if is_finished(&texts.header) {
            let topic = topic_of_finished(&texts.header);
            return Err(refusal_of_finished(topic.as_ref(), &held.topics));
        }
        if texts.attempt.is_empty() && texts.header.is_empty() {
            return Err(Refusal::NotFound);
        }
        let parsed = first_line(&texts.attempt).and_then(Attempt::parse_header);
        let sound = |text: &str| Some((Rules::parse(id, text)?, text.to_owned()));
        let of_record = || sound(first_line(&texts.header)?.strip_prefix("4 ")?.split_once(' ')?.1);
        let found = parsed.as_ref().and_then(|(_, rules)| sound(rules)).or_else(of_record);
        let is_damaged = found.is_none();
        let named = parsed.as_ref().and_then(|(_, rules)| rules.rsplit(' ').next()?.parse().ok());
        let own = found.as_ref().map(|(rules, _)| rules.topic.clone());
        let topic = texts.topic.clone().or(own).or(named).ok_or(Refusal::Damaged)?;
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
        Ok(Self { id, texts, attempt, rules, rules_text, is_damaged, topic, due_at, at })
    }

    /// Returns what decisions need to know; `may_move` is false after the topic of its policy could
    /// not take the job.
    pub fn known(&self, may_move: bool) -> Known<'_> {
        let attempts = self.attempt.as_ref().map(|attempt| Attempts {
            number: attempt.attempt,
            is_snoozed: attempt.is_snoozed,
            reservation: attempt.reservation,
            died_at: attempt.died_at,
        });
        Known {
            id: self.id,
            topic: &self.topic,
            state: self.texts.state.unwrap_or(State::Ready),
            due_at: self.due_at,
            policy: &self.rules.policy,
            expires_at: self.rules.policy.expires_at,
            attempts,
            may_move: may_move && self.created().is_some(),
            is_damaged: self.is_damaged,
        }
    }

    /// Returns the creation time in the pool record, as text; `None` if there is no such record.
    pub fn created(&self) -> Option<&str> {
        let (created, _) = first_line(&self.texts.header)?.strip_prefix("4 ")?.split_once(' ')?;
        created.bytes().all(|digit| digit.is_ascii_hexdigit()).then_some(created)
    }

    /// Returns the history, and the running attempt if a consumer holds the job.
    pub fn history(&self) -> (History, Option<Running>) {
        let history = parse_history(self.id, &self.texts.history);
        let running = self.attempt.as_ref().filter(|_| self.texts.state == Some(State::Reserved));
        let of = |attempt: &Attempt| Running {
            reservation: attempt.reservation,
            until: self.at,
            ttr: attempt.ttr,
        };
        (history, running.map(of))
    }
}

/// Returns why a finished job is not changed. For a caller who may not access its topic, it does
/// not exist.
fn refusal_of_finished(topic: Option<&Topic>, topics: &Topics) -> Refusal {
    let is_open = topics.patterns().is_none() || topic.is_some_and(|topic| topics.allows(topic));
    if is_open { Refusal::Finished } else { Refusal::NotFound }
}

/// Returns the first line of a record.
fn first_line(record: &[u8]) -> Option<&str> {
    str::from_utf8(record.split(|&byte| byte == b'\n').next()?).ok()
}
