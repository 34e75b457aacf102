//! Records: what is kept of a job, and how arguments are written.
//!
//! A pool record is `1 <created at> <checksum> <TTR> <max attempts> <retention when dead>
//! <backoff or -> <topic>`, a line feed, and the body. Numbers are decimal, times in milliseconds; the checksum is the CRC-32
//! of the body in hexadecimal, since a damaged AOF loads without a word. An attempt record is
//! `<attempt> <reservation or -> <due at> <died at> <TTR> <max attempts> <retention when dead>
//! <backoff or -> <topic>`, a line feed, and the last error. Both are persisted: must stay stable.

use crate::{
    job::{Backoff, Millis, NewJob, Reservation, Schedule, Topic, UnixMillis},
    store::StoreError,
};
use bytes::Bytes;

/// The part of a pool record that a put sends; the script sets version and time before it.
pub fn record_rest(job: &NewJob) -> Vec<u8> {
    let NewJob { topic, body, ttr, max_attempts, .. } = job;
    let checksum = checksum(body);
    let backoff = backoff_text(job.backoff.as_ref());
    let (ttr, retention) = (ttr.get(), job.dead_retention.get());
    let header = format!("{checksum} {ttr} {max_attempts} {retention} {backoff} {topic}\n");
    let mut record = header.into_bytes();
    record.extend_from_slice(body);
    record
}

/// The CRC-32 of a body, in hexadecimal.
pub(super) fn checksum(body: &[u8]) -> String {
    format!("{:x}", crc32fast::hash(body))
}

/// A backoff as records have it.
pub(super) fn backoff_text(backoff: Option<&Backoff>) -> String {
    backoff.map_or_else(|| "-".to_owned(), Backoff::to_string)
}

/// A schedule as scripts take it.
pub(super) fn schedule_text(schedule: Schedule) -> String {
    match schedule {
        Schedule::In(delay) => format!("+{}", delay.get()),
        Schedule::At(time) => format!("@{}", time.get()),
    }
}

/// A reservation as scripts take it.
pub(super) fn reservation_text(reservation: Option<Reservation>) -> String {
    reservation.map_or_else(String::new, |token| token.to_string())
}

/// A pool record, taken apart.
pub struct Record {
    pub(super) created_at: UnixMillis,
    pub(super) ttr: Millis,
    pub(super) max_attempts: u32,
    pub(super) dead_retention: Millis,
    pub(super) backoff: Option<Backoff>,
    pub(super) topic: Topic,
    pub(super) body: Bytes,
}

impl Record {
    /// Takes a record apart and compares its checksum.
    ///
    /// # Errors
    /// It is damaged, or of another version.
    pub fn parse(text: Vec<u8>) -> Result<Self, StoreError> {
        let bad = || StoreError::unreadable(format!("pool record {:?}", shown(&text)));
        let end = text.iter().position(|&byte| byte == b'\n').ok_or_else(bad)?;
        let header = std::str::from_utf8(&text[..end]).map_err(|_| bad())?;
        let fields: Vec<&str> = header.split(' ').collect();
        let ["1", created_at, sum, ttr, max_attempts, retention, backoff, topic] = fields[..]
        else {
            return Err(bad());
        };
        if sum != checksum(&text[end + 1..]) {
            return Err(StoreError::unreadable("pool record whose body is damaged"));
        }
        Ok(Self {
            created_at: created_at.parse().map(UnixMillis::new).map_err(|_| bad())?,
            ttr: ttr.parse().map(Millis::new).map_err(|_| bad())?,
            max_attempts: max_attempts.parse().map_err(|_| bad())?,
            dead_retention: retention.parse().map(Millis::new).map_err(|_| bad())?,
            backoff: parse_backoff(backoff).ok_or_else(bad)?,
            topic: topic.parse().map_err(|_| bad())?,
            body: Bytes::from(text).slice(end + 1..),
        })
    }
}

/// The beginning of a record, for a message.
fn shown(text: &[u8]) -> String {
    String::from_utf8_lossy(&text[..text.len().min(100)]).into_owned()
}

fn parse_backoff(text: &str) -> Option<Option<Backoff>> {
    match text {
        "-" => Some(None),
        text => text.parse().ok().map(Some),
    }
}

/// An attempt record, as far as a look at the job shows it.
pub(super) struct Attempt {
    pub(super) attempt: u32,
    pub(super) reservation: Option<Reservation>,
    pub(super) due_at: UnixMillis,
    pub(super) died_at: UnixMillis,
    pub(super) ttr: Millis,
    pub(super) error: Option<String>,
}

impl Attempt {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (header, error) = text.split_once('\n')?;
        let fields: Vec<&str> = header.split(' ').collect();
        let [attempt, reservation, due_at, died_at, ttr, _, _, _, _] = fields[..] else {
            return None;
        };
        Some(Self {
            attempt: attempt.parse().ok()?,
            reservation: reservation.parse().ok(),
            due_at: due_at.parse().map(UnixMillis::new).ok()?,
            died_at: died_at.parse().map(UnixMillis::new).ok()?,
            ttr: ttr.parse().map(Millis::new).ok()?,
            error: (!error.is_empty()).then(|| error.to_owned()),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::job::OnConflict;

    fn new_job(body: Vec<u8>, ttr: u64, max_attempts: u32, backoff: Option<Backoff>) -> NewJob {
        NewJob {
            id: "a".parse().expect("an id"),
            topic: "t".parse().expect("a topic"),
            body: body.into(),
            schedule: Schedule::In(Millis::ZERO),
            ttr: Millis::new(ttr),
            max_attempts,
            backoff,
            dead_retention: Millis::ZERO,
            on_conflict: OnConflict::Reject,
        }
    }

    fn stored(job: &NewJob) -> Vec<u8> {
        [b"1 1763690000000 ".as_slice(), &record_rest(job)].concat()
    }

    proptest! {
        #[test]
        fn a_record_survives_its_text(body: Vec<u8>, ttr in 0..u64::MAX / 2, max: u32, list: bool) {
            let backoff = list.then(|| "list:0,120000".parse().expect("a backoff"));
            let job = new_job(body, ttr, max, backoff);
            let record = Record::parse(stored(&job)).expect("its own text");
            prop_assert_eq!(record.body, job.body);
            prop_assert_eq!(record.topic, job.topic);
            prop_assert_eq!(record.ttr, job.ttr);
            prop_assert_eq!(record.max_attempts, job.max_attempts);
            prop_assert_eq!(record.backoff, job.backoff);
        }

        #[test]
        fn a_flipped_bit_of_the_body_is_noticed(body in proptest::collection::vec(any::<u8>(), 1..300), at: prop::sample::Index, bit in 0..8_u8) {
            let mut text = stored(&new_job(body.clone(), 1000, 1, None));
            let start = text.len() - body.len();
            text[start + at.index(body.len())] ^= 1 << bit;
            prop_assert!(Record::parse(text).is_err());
        }

        #[test]
        fn no_record_panics(text: Vec<u8>) {
            let _ = Record::parse(text);
        }
    }
}
