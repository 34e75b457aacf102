//! Records and replies: what the scripts and this program say to each other.
//!
//! A pool record is `1 <created at> <checksum> <TTR> <max attempts> <retention when dead>
//! <backoff or -> <topic>`, a line feed, and the body. Numbers are decimal, times in milliseconds; the checksum is the CRC-32
//! of the body in hexadecimal, since a damaged AOF loads without a word. An attempt record is
//! `<attempt> <reservation or -> <due at> <died at> <TTR> <max attempts> <retention when dead>
//! <backoff or -> <topic>`, a line feed, and the last error. Both are persisted: must stay stable.

use bytes::Bytes;
use redis::Value;

use crate::{
    job::{
        Backoff, Job, JobId, Millis, NewJob, PoppedJob, Refusal, Reservation, Schedule, State,
        Topic, UnixMillis,
    },
    store::{Counts, How, Place, Placed, Reply, StoreError},
};

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
    created_at: UnixMillis,
    ttr: Millis,
    max_attempts: u32,
    dead_retention: Millis,
    backoff: Option<Backoff>,
    topic: Topic,
    body: Bytes,
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
struct Attempt {
    attempt: u32,
    reservation: Option<Reservation>,
    due_at: UnixMillis,
    died_at: UnixMillis,
    ttr: Millis,
    error: Option<String>,
}

impl Attempt {
    fn parse(text: &str) -> Option<Self> {
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

/// The values of one reply, taken one after another.
pub(super) struct Values(std::vec::IntoIter<Value>);

impl Values {
    pub(super) fn new(reply: Value) -> Result<Self, StoreError> {
        match reply {
            Value::Array(values) => Ok(Self(values.into_iter())),
            other => Err(unexpected(&other)),
        }
    }

    /// How many are left.
    pub(super) fn left(&self) -> usize {
        self.0.len()
    }

    fn next(&mut self) -> Result<Value, StoreError> {
        self.0.next().ok_or_else(|| StoreError::unreadable("a reply with too few values"))
    }

    pub(super) fn int(&mut self) -> Result<i64, StoreError> {
        match self.next()? {
            Value::Int(number) => Ok(number),
            other => Err(unexpected(&other)),
        }
    }

    pub(super) fn number(&mut self) -> Result<u64, StoreError> {
        let number = self.int()?;
        u64::try_from(number).map_err(|_| unexpected(&Value::Int(number)))
    }

    pub(super) fn millis(&mut self) -> Result<UnixMillis, StoreError> {
        self.number().map(UnixMillis::new)
    }

    fn small(&mut self) -> Result<u32, StoreError> {
        let number = self.int()?;
        u32::try_from(number).map_err(|_| unexpected(&Value::Int(number)))
    }

    fn bytes(&mut self) -> Result<Vec<u8>, StoreError> {
        match self.next()? {
            Value::BulkString(bytes) => Ok(bytes),
            other => Err(unexpected(&other)),
        }
    }

    pub(super) fn text(&mut self) -> Result<String, StoreError> {
        String::from_utf8(self.bytes()?).map_err(StoreError::unreadable)
    }

    pub(super) fn parsed<T: std::str::FromStr>(&mut self) -> Result<T, StoreError> {
        let text = self.text()?;
        text.parse().map_err(|_| StoreError::unreadable(format!("reply {text:?}")))
    }

    pub(super) fn inner(&mut self) -> Result<Self, StoreError> {
        Self::new(self.next()?)
    }

    /// A text, or a refusal in its place.
    pub(super) fn reply_text(&mut self) -> Result<Reply<String>, StoreError> {
        match self.next()? {
            Value::Int(code) => refusal(code).map(Err),
            Value::BulkString(bytes) => {
                String::from_utf8(bytes).map(Ok).map_err(StoreError::unreadable)
            }
            other => Err(unexpected(&other)),
        }
    }

    /// A number, or a refusal in its place.
    pub(super) fn reply_number(&mut self) -> Result<Reply<u64>, StoreError> {
        let code = self.int()?;
        u64::try_from(code).map_or_else(|_| refusal(code).map(Err), |number| Ok(Ok(number)))
    }

    /// What `put.lua` says of one job.
    pub(super) fn placed(&mut self) -> Result<Reply<Placed>, StoreError> {
        match self.next()? {
            Value::Int(code @ ..0) => refusal(code).map(Err),
            Value::Int(created) => Ok(Ok(Placed {
                how: How::Created,
                state: if created % 2 == 1 { State::Ready } else { State::Delayed },
                due_at: UnixMillis::new(created.unsigned_abs() / 2),
                kept: None,
            })),
            of_living => Self::new(of_living)?.placed_on_living().map(Ok),
        }
    }

    fn placed_on_living(&mut self) -> Result<Placed, StoreError> {
        let how = match self.int()? {
            1 => How::Kept,
            2 => How::Replaced,
            other => return Err(StoreError::unreadable(format!("put reply {other}"))),
        };
        let (state, due_at) = (state_of(self.int()?)?, self.millis()?);
        let kept = match self.text()?.as_str() {
            "" => None,
            topic => Some(topic.parse().map_err(StoreError::unreadable)?),
        };
        Ok(Placed { how, state, due_at, kept })
    }

    /// What `pop.lua` says of one job, which has this reservation since `now`. Damage of its
    /// record is the inner error.
    pub(super) fn popped(
        &mut self,
        reservation: Reservation,
        now: UnixMillis,
    ) -> Result<Result<PoppedJob, (JobId, StoreError)>, StoreError> {
        let id: JobId = self.parsed()?;
        let record = Record::parse(self.bytes()?);
        let (attempt, due_at, ttr) = (self.small()?, self.millis()?, Millis::new(self.number()?));
        let record = match record {
            Ok(record) => record,
            Err(damage) => return Ok(Err((id, damage))),
        };
        Ok(Ok(PoppedJob {
            id,
            topic: record.topic,
            body: record.body,
            attempt,
            max_attempts: record.max_attempts,
            due_at,
            created_at: record.created_at,
            ttr,
            reservation,
            reserved_until: now.after(ttr),
        }))
    }

    /// What `list.lua` says of one job: where it is, and the job unless its record is damaged.
    pub(super) fn listed(&mut self) -> Result<(Place, Option<Job>), StoreError> {
        let id: JobId = self.parsed()?;
        let mut job = Self(self.0.by_ref().take(4).collect::<Vec<_>>().into_iter());
        let at = match job.0.as_slice().last() {
            Some(&Value::Int(at)) => UnixMillis::new(u64::try_from(at).unwrap_or(0)),
            _ => return Err(StoreError::unreadable("a listed job without its time")),
        };
        let place = Place { at, tie: id.to_string() };
        Ok((place, job.job(id).ok().flatten()))
    }

    /// Four counts.
    pub(super) fn counts(&mut self) -> Result<Counts, StoreError> {
        let (delayed, ready) = (self.number()?, self.number()?);
        Ok(Counts { delayed, ready, reserved: self.number()?, dead: self.number()? })
    }

    /// A time, or 0 for none.
    pub(super) fn maybe_millis(&mut self) -> Result<Option<UnixMillis>, StoreError> {
        Ok(Some(self.millis()?).filter(|at| at.get() > 0))
    }

    /// What `reschedule.lua` says of one job.
    pub(super) fn rescheduled(&mut self, id: JobId) -> Result<Reply<Job>, StoreError> {
        match self.next()? {
            Value::Int(code) => refusal(code).map(Err),
            job => Ok(Self::new(job)?.job(id)?.ok_or(Refusal::NotFound)),
        }
    }

    /// What `get.lua` says.
    pub(super) fn job(&mut self, id: JobId) -> Result<Option<Job>, StoreError> {
        if self.left() == 0 {
            return Ok(None);
        }
        let record = Record::parse(self.bytes()?)?;
        let attempt = Attempt::parse(&self.text()?);
        let state = state_of(self.int()?)?;
        let score = self.millis()?;
        let held_or_dead = matches!(state, State::Reserved | State::Dead);
        let due_at = attempt.as_ref().filter(|_| held_or_dead).map_or(score, |a| a.due_at);
        let ttr =
            attempt.as_ref().filter(|_| state == State::Reserved).map_or(record.ttr, |a| a.ttr);
        Ok(Some(Job {
            id,
            topic: record.topic,
            body: record.body,
            state,
            attempt: attempt.as_ref().map_or(0, |a| a.attempt),
            max_attempts: record.max_attempts,
            due_at,
            created_at: record.created_at,
            ttr,
            own_ttr: record.ttr,
            backoff: record.backoff,
            dead_retention: record.dead_retention,
            reservation: attempt.as_ref().and_then(|a| a.reservation),
            reserved_until: (state == State::Reserved).then_some(score),
            died_at: attempt.as_ref().filter(|_| state == State::Dead).map(|a| a.died_at),
            error: attempt.and_then(|a| a.error),
        }))
    }
}

/// The code of a state, as in `prelude.lua`.
pub(super) fn state_of(code: i64) -> Result<State, StoreError> {
    match code {
        1 => Ok(State::Delayed),
        2 => Ok(State::Ready),
        3 => Ok(State::Reserved),
        4 => Ok(State::Dead),
        other => Err(StoreError::unreadable(format!("state {other}: the job is in no set"))),
    }
}

/// The code of a refusal, as in `prelude.lua`.
fn refusal(code: i64) -> Result<Refusal, StoreError> {
    match code {
        -1 => Ok(Refusal::NotFound),
        -2 => Ok(Refusal::Exists),
        -3 => Ok(Refusal::ReservationLost),
        -4 => Ok(Refusal::NeverPopped),
        -5 => Ok(Refusal::Reserved),
        -6 => Ok(Refusal::Dead),
        -7 => Ok(Refusal::DueTooFar),
        other => Err(StoreError::unreadable(format!("refusal {other}"))),
    }
}

fn unexpected(value: &Value) -> StoreError {
    let mut text = format!("{value:?}");
    text.truncate(text.char_indices().nth(200).map_or(text.len(), |(end, _)| end));
    StoreError::unreadable(format!("an unexpected reply: {text}"))
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
