//! Records of finished jobs. They have fewer bytes than other records, because they are kept
//! longer.
//!
//! Such a record is `6`, the sum in 4 bytes, the creation time in 6, the reservation in 8 (zeros if
//! there is none), and the text `<result> <policy> <topic> <letter of the outcome><attempt> <due
//! at, less the creation time> <entry>`, a line feed, and the result, which is stored like a body.
//! Bytes are big-endian. The sum covers the job's id, a blank, and everything from the creation
//! time to the line feed. `<result>` is `<CRC-32>:<length>`, or empty if there is none. The job
//! finished at its score in its set, less the retention.
//!
//! If the attempt that finished the job is its whole history, `<entry>` is `<its start, less the
//! due time>`, followed by `:<consumer>` if the consumer gave its name, and the hash of histories
//! has no entry of the job. Otherwise `<entry>` is empty, and the hash has the whole history.

use super::{PoolRecord, checksum, damaged, history_text, parse_checked_body, sum_of};
use crate::{
    job::{
        AttemptOutcome, Consumer, Ending, History, Job, JobId, Outcome, PastAttempt, Policy,
        Reservation, Topic, UnixMillis,
    },
    store::StoreError,
};

/// The first byte of a record.
const VERSION: u8 = b'6';
/// Where the creation time, the reservation and the text begin.
const TIME: usize = 5;
const RESERVATION: usize = TIME + 6;
const TEXT: usize = RESERVATION + 8;

/// Fields that only the record of a finished job has.
#[derive(Debug, Clone, PartialEq)]
pub struct FinishedFields {
    pub attempt: u32,
    pub due_at: UnixMillis,
    pub reservation: Option<Reservation>,
    pub outcome: Outcome,
    /// The attempt that finished the job, if it is the whole history.
    pub only: Option<OnlyAttempt>,
}

/// Fields of the only attempt of a finished job that do not follow from its other fields.
#[derive(Debug, Clone, PartialEq)]
pub struct OnlyAttempt {
    pub started_at: UnixMillis,
    pub consumer: Option<Consumer>,
}

impl OnlyAttempt {
    /// Returns the whole history of a finished job if it consists of one attempt; otherwise `None`.
    fn new(job: &Job, ending: &Ending) -> Option<Self> {
        let [PastAttempt { attempt, started_at, ended_at, outcome, error: None, consumer }] =
            &job.history[..]
        else {
            return None;
        };
        let is_own = (*attempt, *outcome) == (job.attempt, AttemptOutcome::Finished);
        let follows = is_own && *ended_at == ending.at.max(*started_at);
        follows.then(|| Self { started_at: *started_at, consumer: consumer.clone() })
    }

    fn text(&self, due_at: UnixMillis) -> String {
        let wait = between(due_at, self.started_at);
        match &self.consumer {
            None => wait.to_string(),
            Some(consumer) => format!("{wait}:{consumer}"),
        }
    }

    fn parse(text: &str, due_at: UnixMillis) -> Option<Self> {
        let (wait, consumer) = match text.split_once(':') {
            None => (text, None),
            Some((wait, consumer)) => (wait, Some(consumer.parse().ok()?)),
        };
        Some(Self { started_at: later(due_at, wait)?, consumer })
    }
}

impl FinishedFields {
    /// Returns the history of a job that finished at this time; `None` if the hash of histories has
    /// it.
    pub fn history(&self, at: UnixMillis) -> Option<History> {
        let OnlyAttempt { started_at, consumer } = self.only.clone()?;
        let entry = PastAttempt {
            attempt: self.attempt,
            started_at,
            ended_at: at.max(started_at),
            outcome: AttemptOutcome::Finished,
            error: None,
            consumer,
        };
        Some(History { hold: None, attempts: vec![entry] })
    }
}

/// Formats the header of the record of a finished job, which the line feed and the result follow.
pub fn finished_header(job: &Job, ending: &Ending) -> Vec<u8> {
    let Job { id, policy, topic, attempt, created_at, due_at, .. } = job;
    let result = ending.result.as_deref().unwrap_or_default();
    let kept = match result {
        [] => String::new(),
        result => format!("{}:{}", checksum(result), result.len()),
    };
    let (outcome, delay) = (outcome_code(ending.outcome), between(*created_at, *due_at));
    let entry = OnlyAttempt::new(job, ending).map_or_else(String::new, |only| only.text(*due_at));
    // Times have at most 47 bits.
    let mut header = created_at.get().to_be_bytes()[2..].to_vec();
    header.extend(job.reservation.map_or(0, Reservation::bits).to_be_bytes());
    header.extend(format!("{kept} {policy} {topic} {outcome}{attempt} {delay} {entry}").bytes());
    let sum = sum_of(&[id.as_str().as_bytes(), b" ", &header]).to_be_bytes();
    [&[VERSION], &sum[..], &header].concat()
}

/// Formats the history that is stored separately from the record of a finished job; empty if it has
/// none.
pub fn separate_history(job: &Job, ending: &Ending) -> String {
    match OnlyAttempt::new(job, ending) {
        Some(_) => String::new(),
        None => history_text(job),
    }
}

/// Returns whether a record has the form of a finished job's.
pub fn is_finished(record: &[u8]) -> bool {
    record.first() == Some(&VERSION)
}

/// Returns the length of the result as the record of a finished job gives it.
pub fn result_length(record: &[u8]) -> Option<usize> {
    let result = record.get(TEXT..)?.split(|&byte| byte == b' ').next()?;
    let length = result.split(|&byte| byte == b':').nth(1)?;
    str::from_utf8(length).ok()?.parse().ok()
}

/// Returns the topic that the record of a finished job names. Its sum is not verified.
pub fn topic_of_finished(record: &[u8]) -> Option<Topic> {
    str::from_utf8(record.get(TEXT..)?.split(|&byte| byte == b' ').nth(2)?).ok()?.parse().ok()
}

/// Parses the record of the finished job `id` and compares its checksums. The caller has appended a
/// result that is stored separately.
///
/// # Errors
/// The record is damaged.
pub fn parse_finished(id: &JobId, record: Vec<u8>) -> Result<PoolRecord, StoreError> {
    let end = header_length(&record).ok_or_else(|| damaged("header"))?;
    let header = FinishedHeader::parse(id, &record[..end]);
    let FinishedHeader { created_at, kept, policy, topic, fields } =
        header.ok_or_else(|| damaged("header"))?;
    let body = parse_checked_body(record, end + 1, kept, "result")?;
    Ok(PoolRecord { created_at, policy, topic, body, finished: Some(fields) })
}

/// Returns the length of the header of a finished job's record; `None` if no line feed ends it.
pub fn header_length(record: &[u8]) -> Option<usize> {
    record.iter().skip(TEXT).position(|&byte| byte == b'\n').map(|end| TEXT + end)
}

/// The parsed header of a finished job's record.
pub struct FinishedHeader {
    pub created_at: UnixMillis,
    /// CRC-32 and length of the result.
    pub kept: Option<(String, usize)>,
    pub policy: Policy,
    pub topic: Topic,
    pub fields: FinishedFields,
}

impl FinishedHeader {
    /// Parses the header of the job `id` and verifies its sum; returns `None` if it is damaged.
    pub fn parse(id: &JobId, header: &[u8]) -> Option<Self> {
        let sum = sum_of(&[id.as_str().as_bytes(), b" ", header.get(TIME..)?]).to_be_bytes();
        (header[1..TIME] == sum).then(|| Self::parse_verified(header)).flatten()
    }

    fn parse_verified(header: &[u8]) -> Option<Self> {
        let number = |bytes: &[u8]| bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        let created_at = UnixMillis::new(number(header.get(TIME..RESERVATION)?));
        let reservation = number(header.get(RESERVATION..TEXT)?);
        let mut words = str::from_utf8(&header[TEXT..]).ok()?.split(' ');
        let mut word = || words.next();
        let (kept, policy, topic, count) = (word()?, word()?, word()?, word()?);
        let (delay, entry) = (word()?, word()?);
        let (outcome, attempt) = count.split_at_checked(1)?;
        let due_at = later(created_at, delay)?;
        let only = match entry {
            "" => None,
            entry => Some(OnlyAttempt::parse(entry, due_at)?),
        };
        let fields = FinishedFields {
            attempt: attempt.parse().ok()?,
            due_at,
            reservation: Some(Reservation::from_bits(reservation)).filter(|_| reservation != 0),
            outcome: outcome_of(outcome)?,
            only,
        };
        let kept = match kept.split_once(':') {
            None if kept.is_empty() => None,
            None => return None,
            Some((crc, length)) => Some((crc.to_owned(), length.parse().ok()?)),
        };
        let (policy, topic) = (policy.parse().ok()?, topic.parse().ok()?);
        words.next().is_none().then_some(Self { created_at, kept, policy, topic, fields })
    }
}

/// Letters of outcomes.
const OUTCOMES: [(Outcome, char); 3] =
    [(Outcome::Finished, 'f'), (Outcome::ResultDropped, 'r'), (Outcome::Deleted, 'd')];

fn outcome_code(outcome: Outcome) -> char {
    OUTCOMES.iter().find(|(known, _)| *known == outcome).map_or('f', |(_, letter)| *letter)
}

fn outcome_of(letter: &str) -> Option<Outcome> {
    OUTCOMES.iter().find(|(_, known)| letter.parse() == Ok(*known)).map(|(outcome, _)| *outcome)
}

/// Returns the milliseconds from one time to another, which may be earlier.
fn between(one: UnixMillis, other: UnixMillis) -> i128 {
    i128::from(other.get()) - i128::from(one.get())
}

/// Returns the time that is this span, as [`between`] computes it, after another.
fn later(time: UnixMillis, span: &str) -> Option<UnixMillis> {
    time.get().checked_add_signed(span.parse().ok()?).map(UnixMillis::new)
}

#[cfg(test)]
mod tests;
