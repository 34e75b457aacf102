//! Format of job records, and of some arguments of scripts.
//!
//! A pool record is `4 <created at><check> <rules>`, a line feed, and the body if it has at most
//! [`MAX_INLINE_BODY`] bytes. Longer bodies are in a separate hash, so that scripts can decide
//! without reading them. The creation time has at least 11 hexadecimal digits, enough until the
//! year 2527. The check, 4 more digits, covers the time alone, because the script writes both.
//!
//! The rules are `<sum><CRC-32 of the body> <length of the body> <policy> <topic>`. The sum covers
//! the job's id, a blank, and the text after the sum. So it reveals a record that is damaged or
//! stored under another id; Redis itself loads a damaged AOF without an error. The policy is the
//! text of [`Policy`], which omits the usual values, because records take most of a store's memory.
//!
//! A finished job has a record of another form, its only one: see `codec/finished.rs`. It begins
//! with a 6.
//!
//! An attempt record is `<check> <attempt> <reservation or -> <due at> <died at> <TTR> <rules>`, a
//! line feed, and the last error as `<its CRC-32> <text>`, or nothing. The check is a weighted sum
//! of the numbers before the rules, which a script computes faster than a hash. An `h` after the
//! attempt means that the job may have a history: see `codec/history.rs`. An `s` after that means
//! that a consumer popped the job and gave it back uncounted, while it had no counted attempt. A
//! record with attempt 0 and without an `s` belongs to a job that expired before its first pop.
//!
//! Other numbers are decimal, times are in milliseconds, and checksums have 8 hexadecimal digits. A
//! sum is the beginning of a SHA-1, the only hash that scripts can compute. All formats are
//! persisted and must stay stable. Scripts check the parts that they use; this module checks the
//! whole record before a job is delivered or shown.

mod attempt;
mod finished;
mod history;

#[cfg(any(test, fuzzing))]
#[path = "../../../fuzz/inside/redis_records.rs"]
mod fuzzing;

use std::io::Write;

use sha1_smol::Sha1;

use crate::{
    job::{JobId, NewJob, Policy, Reservation, Schedule, Topic, UnixMillis},
    store::StoreError,
};
use bytes::Bytes;

pub use self::{
    attempt::Attempt,
    finished::{
        FinishedFields, FinishedHeader, finished_header, is_finished, separate_history,
        topic_of_finished,
    },
    history::{MARK, history_text, parse_history, text_of_history},
};
#[cfg(any(test, fuzzing))]
pub use fuzzing::redis_records;

/// Maximum size of a body that is stored in its record, in bytes. Mirrored in
/// `shared/prelude.lua`.
pub const MAX_INLINE_BODY: usize = 4096;

/// Number of hexadecimal digits of a checksum.
const SUM_DIGITS: usize = 8;
/// Minimum number of hexadecimal digits of a creation time.
const TIME_DIGITS: usize = 11;

/// Bytes of most rules, without their topic.
const RULES_ROOM: usize = 64;

/// Prime by which a time is divided. The remainder is the check of the time, which costs a script
/// little time.
const TIME_CHECK: u64 = 65_521;

/// Formats the part of a pool record that a put sends; the script prepends version, time and check.
pub fn record_rest(job: &NewJob) -> Vec<u8> {
    let NewJob { id, topic, body, policy, .. } = job;
    let inline: &[u8] = if body.len() <= MAX_INLINE_BODY { body } else { b"" };
    let mut record = Vec::with_capacity(RULES_ROOM + topic.as_str().len() + inline.len());
    push_rules(&mut record, id, (crc32fast::hash(body), body.len()), policy, topic);
    record.push(b'\n');
    record.extend_from_slice(inline);
    record
}

/// Formats the header of the pool record of a job created at this time, which a line feed and the
/// body follow.
pub fn record_header(job: &NewJob, created_at: UnixMillis) -> Vec<u8> {
    format!("4 {} {}", time_text(created_at), rules(job)).into_bytes()
}

/// Returns the body if it is too long for the record.
pub fn long_body(body: &Bytes) -> Option<&Bytes> {
    (body.len() > MAX_INLINE_BODY).then_some(body)
}

fn rules(job: &NewJob) -> String {
    let NewJob { id, topic, body, policy, .. } = job;
    rules_text(id, (crc32fast::hash(body), body.len()), policy, topic)
}

/// Formats the rules of a job whose body has this CRC-32 and length.
fn rules_text(id: &JobId, (crc, length): (u32, usize), policy: &Policy, topic: &Topic) -> String {
    let mut rules = Vec::with_capacity(RULES_ROOM + topic.as_str().len());
    push_rules(&mut rules, id, (crc, length), policy, topic);
    String::from_utf8(rules).expect("rules are text")
}

/// Writes rules to an empty buffer.
fn push_rules(
    rules: &mut Vec<u8>,
    id: &JobId,
    (crc, length): (u32, usize),
    policy: &Policy,
    topic: &Topic,
) {
    rules.extend([0; SUM_DIGITS]);
    rules.extend(digits::<SUM_DIGITS>(crc.into()));
    write!(rules, " {length} {policy} ").expect("a buffer takes any text");
    rules.extend_from_slice(topic.as_str().as_bytes());
    let sum = sum_of(&[id.as_str().as_bytes(), b" ", &rules[SUM_DIGITS..]]);
    rules[..SUM_DIGITS].copy_from_slice(&digits::<SUM_DIGITS>(sum.into()));
}

/// Formats a time with its check.
pub fn time_text(time: UnixMillis) -> String {
    let (millis, check) = (time.get(), time.get() % TIME_CHECK);
    match millis >> (4 * TIME_DIGITS) {
        0 => text_of([&digits::<TIME_DIGITS>(millis)[..], &digits::<4>(check)].concat()),
        _ => format!("{millis:x}{check:04x}"),
    }
}

/// Parses the text that [`time_text`] returns.
pub fn parse_time(text: &str) -> Option<UnixMillis> {
    let (time, _) = text.split_at_checked(text.len().checked_sub(4)?)?;
    let time = UnixMillis::new(u64::from_str_radix(time, 16).ok()?);
    (time_text(time) == text).then_some(time)
}

/// Returns the beginning of the SHA-1 of the concatenated texts, in hexadecimal.
fn sum(texts: &[&str]) -> String {
    hex(sum_of(texts))
}

/// Returns the same sum as a number.
fn sum_of(parts: &[impl AsRef<[u8]>]) -> u32 {
    let mut sha = Sha1::new();
    parts.iter().for_each(|part| sha.update(part.as_ref()));
    let bytes = sha.digest().bytes();
    u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// Returns the CRC-32 of a body, in hexadecimal.
pub fn checksum(body: &[u8]) -> String {
    hex(crc32fast::hash(body))
}

/// Formats a number as [`SUM_DIGITS`] hexadecimal digits.
fn hex(number: u32) -> String {
    text_of(digits::<SUM_DIGITS>(number.into()).into())
}

fn text_of(digits: Vec<u8>) -> String {
    String::from_utf8(digits).expect("digits are text")
}

/// Returns the last `N` hexadecimal digits of a number.
fn digits<const N: usize>(number: u64) -> [u8; N] {
    std::array::from_fn(|n| b"0123456789abcdef"[(number >> (4 * (N - 1 - n)) & 15) as usize])
}

/// Formats an error for attempt records, with a checksum of its own.
pub fn error_text(error: Option<&str>) -> String {
    match error {
        None | Some("") => String::new(),
        Some(error) => format!("{} {error}", checksum(error.as_bytes())),
    }
}

/// Parses the text that [`error_text`] returns.
fn parse_error(text: &str) -> Result<Option<String>, ()> {
    match text.split_once(' ') {
        None if text.is_empty() => Ok(None),
        Some((crc, error)) if crc == checksum(error.as_bytes()) => Ok(Some(error.to_owned())),
        _ => Err(()),
    }
}

/// Formats a schedule for scripts, which compare an absolute time with the clock in `believed`.
pub fn schedule_text(schedule: Schedule, believed: &str) -> String {
    match schedule {
        Schedule::In(delay) => format!("+{}", delay.get()),
        Schedule::At(time) => format!("@{} {believed}", time.get()),
    }
}

/// Formats a reservation for scripts; empty if there is none.
pub fn reservation_text(reservation: Option<Reservation>) -> String {
    reservation.map_or_else(String::new, |reservation| reservation.to_string())
}

/// Parsed pool record.
#[derive(Debug)]
pub struct PoolRecord {
    pub(super) created_at: UnixMillis,
    pub(super) policy: Policy,
    pub(super) topic: Topic,
    /// Body or, of a finished job, the result.
    pub(super) body: Bytes,
    /// Further fields of a finished job.
    pub(super) finished: Option<FinishedFields>,
}

impl PoolRecord {
    /// Parses the record of the job `id` and compares its checksums. The caller has appended a body
    /// that is stored separately.
    ///
    /// # Errors
    /// The record is damaged or of another version.
    pub fn parse(id: &JobId, text: Vec<u8>) -> Result<Self, StoreError> {
        if finished::is_finished(&text) {
            return finished::parse_finished(id, text);
        }
        let bad = || StoreError::damaged(format!("pool record {:?}", shown(&text)));
        let end = text.iter().position(|&byte| byte == b'\n').ok_or_else(bad)?;
        let header = std::str::from_utf8(&text[..end]).map_err(|_| bad())?;
        let mut fields = header.splitn(3, ' ');
        let (Some("4"), Some(time), Some(rules)) = (fields.next(), fields.next(), fields.next())
        else {
            return Err(bad());
        };
        let created_at = parse_time(time).ok_or_else(|| damaged("time"))?;
        let rules = Rules::parse(id, rules).ok_or_else(|| damaged("header"))?;
        let Rules { crc, length, policy, topic } = rules;
        let body = parse_checked_body(text, end + 1, Some((crc, length)), "body")?;
        Ok(Self { created_at, policy, topic, body, finished: None })
    }
}

/// Returns the body that begins at `start` of a record. `expected` is its CRC-32 and length, if the
/// record has one.
fn parse_checked_body(
    record: Vec<u8>,
    start: usize,
    expected: Option<(String, usize)>,
    what: &str,
) -> Result<Bytes, StoreError> {
    let body = &record[start..];
    let is_sound = match &expected {
        None => body.is_empty(),
        Some((_, length)) if body.is_empty() && *length > 0 => {
            return Err(StoreError::damaged("pool record whose body is missing"));
        }
        Some((crc, length)) => *length == body.len() && *crc == checksum(body),
    };
    match is_sound {
        true => Ok(Bytes::from(record).slice(start..)),
        false => Err(damaged(what)),
    }
}

fn damaged(what: &str) -> StoreError {
    StoreError::damaged(format!("pool record whose {what} is damaged"))
}

/// Rules of a job, as both of its records have them.
#[derive(Debug, Clone)]
pub struct Rules {
    /// CRC-32 of the body, in hexadecimal.
    crc: String,
    /// Length of the body.
    length: usize,
    pub policy: Policy,
    pub topic: Topic,
}

impl Rules {
    /// Parses rules; returns `None` if they are damaged.
    pub fn parse(id: &JobId, text: &str) -> Option<Self> {
        is_sound(id, text).then_some(())?;
        let mut fields = text.get(SUM_DIGITS..)?.splitn(4, ' ');
        let (crc, length) = (fields.next()?, fields.next()?);
        let (policy, topic) = (fields.next()?, fields.next()?);
        Some(Self {
            crc: crc.to_owned(),
            length: length.parse().ok()?,
            policy: policy.parse().ok()?,
            topic: topic.parse().ok()?,
        })
    }

    /// Returns the rules of a job whose own are damaged. It has no body and gets no attempt.
    pub fn of_damaged(topic: Topic) -> Self {
        let policy = Policy { max_attempts: 1, ..Policy::STANDARD };
        Self { crc: "00000000".to_owned(), length: 0, policy, topic }
    }

    /// Returns the rules of a finished job, whose body is its result.
    pub fn of_finished(header: FinishedHeader) -> Self {
        let FinishedHeader { kept, policy, topic, .. } = header;
        let (crc, length) = kept.unwrap_or_default();
        Self { crc, length, policy, topic }
    }

    /// Formats the rules of the job `id`.
    pub fn text(&self, id: &JobId) -> String {
        let crc = u32::from_str_radix(&self.crc, 16).unwrap_or_default();
        rules_text(id, (crc, self.length), &self.policy, &self.topic)
    }

    /// Replaces the body.
    pub fn set_body(&mut self, body: &[u8]) {
        (self.crc, self.length) = (checksum(body), body.len());
    }

    /// Returns the length of the body.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Returns whether the body is stored outside the record.
    pub fn has_long_body(&self) -> bool {
        self.length > MAX_INLINE_BODY
    }
}

/// Returns whether rules begin with the sum of this id and the following text.
fn is_sound(id: &JobId, rules: &str) -> bool {
    let (own, rest) = rules.split_at_checked(SUM_DIGITS).unwrap_or_default();
    own.as_bytes() == digits::<SUM_DIGITS>(sum_of(&[id.as_str(), " ", rest]).into())
}

/// Returns the beginning of a record, for a message.
fn shown(text: &[u8]) -> String {
    String::from_utf8_lossy(&text[..text.len().min(100)]).into_owned()
}

/// Returns whether the body of a pool record is stored outside the record.
pub fn has_long_body(record: &[u8]) -> bool {
    if finished::is_finished(record) {
        return finished::result_length(record).is_some_and(|length| length > MAX_INLINE_BODY);
    }
    let length = record.split(|&byte| byte == b' ').nth(3);
    let length = length.and_then(|text| std::str::from_utf8(text).ok()?.parse::<usize>().ok());
    length.is_some_and(|length| length > MAX_INLINE_BODY)
}

/// Returns whether the job of a pool record may expire.
pub fn may_expire(record: &[u8]) -> bool {
    let policy = record.split(|&byte| byte == b' ').nth(4).unwrap_or_default();
    policy.split(|&byte| byte == b';').any(|field| field.starts_with(b"e="))
}

#[cfg(test)]
mod tests;
