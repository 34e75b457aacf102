//! Jobs as `load.lua` returns them, for the decisions of `delay-queue-core`.

use bytes::Bytes;
use delay_queue_core::decide::{Attempts, Known};

use super::request::{Answer, Request};
use crate::{
    job::{History, JobId, Refusal, Running, State, Topic, Topics, UnixMillis},
    store::{
        Now, Reply, StoreError,
        redis::{
            codec::{
                Attempt, MARK, PoolRecord, Rules, is_finished, parse_history, topic_of_finished,
            },
            reply::Values,
            score::time_of,
        },
    },
};

/// Argument of `swap.lua` instead of a new attempt record: the old one goes.
const ERASED: &str = "-";

/// The records of a job, byte for byte, as `load.lua` puts them into one text. A swap compares them
/// with what is stored.
#[derive(Debug)]
pub struct Texts {
    /// Header of the pool record, a line that is parsed, attempt record, history and body; or the
    /// record of a finished job.
    all: Vec<u8>,
    /// Length of the header, and the beginnings of the attempt record, the history and the body.
    parts: [usize; 4],
    /// The set that has the job; `None` if none has it.
    pub state: Option<State>,
    pub score: String,
    pub topic: Option<Topic>,
}

impl Texts {
    pub fn read(reply: &mut Values) -> Result<Self, StoreError> {
        let all = reply.bytes()?;
        if is_finished(&all) {
            let parts = [all.len(); 4];
            return Ok(Self { all, parts, state: None, score: String::new(), topic: None });
        }
        Self::parse(all).ok_or_else(|| StoreError::unreadable("a job in another form"))
    }

    fn parse(all: Vec<u8>) -> Option<Self> {
        let header = memchr::memchr(b'\n', &all)?;
        let line = header + 1 + memchr::memchr(b'\n', &all[header + 1..])?;
        let mut words = str::from_utf8(&all[header + 1..line]).ok()?.split(' ');
        let (state, score, topic) = (words.next()?, words.next()?, words.next()?);
        let mut length = || words.next()?.parse::<usize>().ok();
        let (attempt, history) = (length()?, length()?);
        let state = match state {
            "" => None,
            name => Some(State::ALL.into_iter().find(|state| state.name() == name)?),
        };
        let (score, topic) = (score.to_owned(), topic.parse().ok());
        let parts = [header, line + 1, line + 1 + attempt, line + 1 + attempt + history];
        (parts[3] <= all.len()).then_some(Self { all, parts, state, score, topic })
    }

    /// Returns the header of the pool record; empty if there is none.
    pub fn header(&self) -> &[u8] {
        &self.all[..self.parts[0]]
    }

    /// Returns the attempt record; empty if there is none.
    pub fn attempt(&self) -> &[u8] {
        &self.all[self.parts[1]..self.parts[2]]
    }

    fn history(&self) -> &[u8] {
        &self.all[self.parts[2]..self.parts[3]]
    }

    /// Returns the pool record with the body, if this was loaded.
    fn record(&self) -> Vec<u8> {
        [self.header(), b"\n", &self.all[self.parts[3]..]].concat()
    }

    fn is_gone(&self) -> bool {
        self.header().is_empty() && self.attempt().is_empty()
    }

    /// Returns whether there is a job that no set of the topics in its records has.
    pub fn is_astray(&self) -> bool {
        self.state.is_none() && !self.is_gone() && !is_finished(&self.all)
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
    /// The body that the request brings, or the stored one for an answer that shows it.
    pub body: Option<Bytes>,
    /// Whether the rules in both records are damaged, or the body that an answer shows.
    is_damaged: bool,
    pub topic: Topic,
    pub due_at: UnixMillis,
    /// The time in its score.
    at: UnixMillis,
    /// The creation time in the pool record, as text; `None` if there is no such record.
    pub created: Option<String>,
}

impl<'a> Loaded<'a> {
    /// Parses the texts of a job that a caller names.
    ///
    /// # Errors
    /// `NotFound` and `Finished`. Other refusals are left to the decision.
    pub fn parse<R: Request>(request: &'a R, texts: Texts, now: Now) -> Reply<Self> {
        let (id, shows_body) = (request.id(), R::Answer::HAS_BODY);
        if is_finished(&texts.all) {
            let topic = topic_of_finished(&texts.all);
            return Err(refusal_of(Refusal::Finished, topic.as_ref(), request.topics()));
        }
        if texts.is_gone() || shows_body && texts.header().is_empty() {
            return Err(Refusal::NotFound);
        }
        // A new body takes the place of one that is damaged.
        let stored = || PoolRecord::parse(id, texts.record()).map(|record| record.body).ok();
        let body = request.body().cloned().or_else(|| shows_body.then(stored)?);
        let header = str::from_utf8(texts.header()).ok();
        let header = header.and_then(|header| header.strip_prefix("4 ")?.split_once(' '));
        let is_time = |text: &&str| text.bytes().all(|digit| digit.is_ascii_hexdigit());
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
        let topic = texts.topic.clone().or(own).or_else(named);
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
            is_damaged,
            topic,
            due_at,
            at,
            created,
        })
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
            may_move: may_move && self.created.is_some(),
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

    /// Returns the history, and the running attempt if a consumer holds the job.
    pub fn history(&self) -> (History, Option<Running>) {
        let history = parse_history(self.id, self.texts.history());
        let running = self.attempt.as_ref().filter(|_| self.texts.state == Some(State::Reserved));
        let of = |attempt: &Attempt| Running {
            reservation: attempt.reservation,
            until: self.at,
            ttr: attempt.ttr,
        };
        (history, running.map(of))
    }
}

/// Returns the refusal of a job; for a caller who may not access its topic, it does not exist.
fn refusal_of(refusal: Refusal, topic: Option<&Topic>, topics: &Topics) -> Refusal {
    let is_open = topics.patterns().is_none() || topic.is_some_and(|topic| topics.allows(topic));
    if is_open { refusal } else { Refusal::NotFound }
}
