//! Reads rows and confirms them by their checksums.

use sqlite_salvage::{Cell, Field};

use crate::{
    job::{History, JobId, NewJob, OnConflict, Schedule, Topic, UnixMillis},
    store::file::records::{AttemptRow, PoolRow, parse_past, state},
};

/// A job as it was put, with its times.
pub struct Found {
    pub id: JobId,
    pub job: NewJob,
    pub created_at: UnixMillis,
    pub due_at: UnixMillis,
}

pub fn text<'a>(field: &Field<'a>) -> Option<&'a str> {
    match field {
        Field::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
        _ => None,
    }
}

pub fn number(field: &Field<'_>) -> Option<i64> {
    match field {
        Field::Number(number) => Some(*number),
        _ => None,
    }
}

pub fn maybe<T>(field: &Field<'_>, read: impl FnOnce() -> Option<T>) -> Option<Option<T>> {
    match field {
        Field::Null => Some(None),
        _ => read().map(Some),
    }
}

fn millis(number: i64) -> Option<u64> {
    u64::try_from(number).ok()
}

/// Reads a job from its row in `pool`; returns `None` if the row is damaged.
pub fn pool_row(cell: &Cell) -> Option<Found> {
    let fields = cell.fields()?;
    let [_, id, topic, created_at, due_at, policy, body_sum, sum, body] = fields.as_slice() else {
        return None;
    };
    let row = PoolRow {
        serial: cell.serial,
        id: text(id)?,
        topic: text(topic)?,
        created_at: number(created_at)?,
        due_at: number(due_at)?,
        policy: text(policy)?,
        body_checksum: number(body_sum)?,
    };
    let Field::Bytes(body) = body else { return None };
    let sound = row.checksum(&mut Vec::new()) == number(sum)?
        && i64::from(crc32fast::hash(body)) == row.body_checksum;
    if !sound || row.serial <= 0 {
        return None;
    }
    let (id, topic): (JobId, Topic) = (row.id.parse().ok()?, row.topic.parse().ok()?);
    let due_at = UnixMillis::new(millis(row.due_at)?);
    let job = NewJob {
        id: id.clone(),
        topic,
        body: bytes::Bytes::copy_from_slice(body),
        schedule: Schedule::At(due_at),
        policy: row.policy.parse().ok()?,
        on_conflict: OnConflict::Reject,
    };
    let created_at = UnixMillis::new(millis(row.created_at)?);
    Some(Found { id, job, created_at, due_at })
}

/// Reads a row of `attempts`, its checksum, its error text and its history. The caller compares the
/// row with the checksum.
pub fn attempt_row(cell: &Cell) -> Option<(AttemptRow, i64, (Option<String>, History))> {
    let fields = cell.fields()?;
    let [_, name, at, count, reservation, due_at, died_at, ttr, sum, error, error_sum] =
        fields.as_slice()
    else {
        return None;
    };
    let row = AttemptRow {
        serial: cell.serial,
        state: state(text(name)?)?,
        at: number(at)?,
        number: number(count)?,
        reservation: maybe(reservation, || number(reservation))?,
        due_at: number(due_at)?,
        died_at: number(died_at)?,
        ttr: number(ttr)?,
    };
    let error = match error {
        Field::Null => None,
        Field::Bytes(bytes) => Some(*bytes),
        _ => return None,
    };
    let damaged = |()| (Some("(damaged)".to_owned()), History::default());
    let past = parse_past(error, number(error_sum)?).unwrap_or_else(damaged);
    Some((row, number(sum)?, past))
}
