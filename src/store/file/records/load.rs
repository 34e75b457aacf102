//! Reads every job's rows at the start. Damage affects the damaged rows only: a row with a wrong
//! checksum is quarantined, and an unreadable page is skipped.

use std::{collections::HashMap, sync::Arc};

use rusqlite::{OptionalExtension, Row};

use super::{
    CACHE_KIB, Records,
    aside::as_quarantined,
    attempts::{Attempts, Popped},
    pool_table,
    read::Damage,
    row::{AttemptRow, PoolRow, SNOOZED},
};
use crate::{
    job::{Millis, Policy, Reservation, State, Topic, UnixMillis},
    store::file::{
        index::{Arrival, Attempt, Size},
        machine::Fate,
    },
};

/// The serial number of a damaged row is ignored if it exceeds the greatest sound one by this much.
const STRANGE: i64 = 1 << 40;

/// Size of SQLite's cache while all rows are read.
const LOADING_CACHE_KIB: i64 = 512;

/// Longest time that a clock may be behind without a report: time servers correct small errors.
const TOLERANCE: Millis = Millis::new(3_000);

/// Upper estimate of the rows of jobs on a page.
const ROWS_A_PAGE: u64 = 32;

/// Result of loading, in addition to the jobs.
#[derive(Debug, Default)]
pub struct Loaded {
    /// Greatest serial number in use.
    pub last_serial: u64,
    /// Jobs with a damaged row in `pool`. Their ids are from that row, so they may be wrong.
    pub damaged: Vec<Arrival>,
    /// Number of rows, and of ranges of rows, without a readable id.
    pub unreadable: u64,
    pub ahead: Ahead,
}

/// Jobs that were put later than the clock shows now: it was ahead, or it is behind.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ahead {
    pub jobs: u64,
    /// How far the clock is behind the last of these puts.
    pub by: Millis,
}

impl Ahead {
    fn add(&mut self, by: Millis) {
        if by > TOLERANCE {
            self.jobs += 1;
            self.by = self.by.max(by);
        }
    }
}

impl Records {
    /// Passes every job to `take`, in order of arrival. A damaged job is passed as dead, or as
    /// finished if any sound data shows that it is. A later read of this job reports the reason. A
    /// row without a readable id is counted and logged.
    pub fn load(&mut self, now: UnixMillis, take: impl FnMut(Arrival)) -> rusqlite::Result<Loaded> {
        self.damaged.clear();
        self.quarantined = self.read_quarantined()?;
        // Each page is read only once, so a large cache is of no use.
        self.set_cache(LOADING_CACHE_KIB)?;
        let mut load = Load {
            records: self,
            attempts: Attempts::new(self),
            now,
            take,
            damaged: HashMap::new(),
            loaded: Loaded::default(),
            sound: 0,
            strange: 0,
            buffer: Vec::with_capacity(256),
            last: Last::default(),
        };
        load.all()?;
        let Load { damaged, mut loaded, sound, strange, .. } = load;
        let last = if strange < sound + STRANGE { sound.max(strange) } else { sound };
        let quarantined = self.quarantined.keys().copied().max().unwrap_or_default();
        loaded.last_serial = last.cast_unsigned().max(quarantined);
        self.damaged = damaged;
        self.set_cache(CACHE_KIB)?;
        Ok(loaded)
    }

    /// Estimates the number of jobs without reading them: the range of serial numbers, or the
    /// number of rows that fit into the pages in use, whichever is less.
    pub fn expected_jobs(&self) -> rusqlite::Result<usize> {
        let sql = "SELECT (SELECT max(serial) FROM pool) - (SELECT min(serial) FROM pool) + 1";
        let numbers = match self.connection.query_row(sql, (), |row| row.get::<_, Option<i64>>(0)) {
            Err(cause) if self.is_damage(&cause) => None,
            numbers => numbers?,
        };
        let (free, pages) = self.pages()?;
        let fit = pages.saturating_sub(free).saturating_mul(ROWS_A_PAGE);
        let jobs = numbers.and_then(|numbers| u64::try_from(numbers).ok()).unwrap_or_default();
        Ok(usize::try_from(jobs.min(fit)).unwrap_or_default())
    }

    /// Finds the first readable row after the damage at `after`, by doubling steps and then by
    /// bisection.
    pub fn readable_behind(&self, table: &str, after: i64) -> rusqlite::Result<Option<i64>> {
        let sql = format!("SELECT serial FROM {table} WHERE serial >= ? ORDER BY serial LIMIT 1");
        let mut statement = self.connection.prepare_cached(&sql)?;
        // `None`: the place is unreadable. `Some(None)`: the place is readable, and no row follows.
        let mut seek = |from: i64| -> rusqlite::Result<Option<Option<i64>>> {
            match statement.query_row([from], |row| row.get(0)).optional() {
                Err(cause) if self.is_damage(&cause) => Ok(None),
                found => found.map(Some),
            }
        };
        // Serial numbers begin with 1; a lower one is damaged.
        let (mut bad, mut step) = (after.max(0), 1_i64);
        let (mut good, mut found) = loop {
            let from = bad.saturating_add(step);
            if let Some(found) = seek(from)? {
                break (from, found);
            }
            if from == i64::MAX {
                return Ok(None);
            }
            (bad, step) = (from, step.saturating_mul(2));
        };
        while good - bad > 1 {
            let middle = bad + (good - bad) / 2;
            match seek(middle)? {
                Some(row) => (good, found) = (middle, row),
                None => bad = middle,
            }
        }
        Ok(found)
    }
}

struct Load<'r, T> {
    records: &'r Records,
    attempts: Attempts<'r>,
    now: UnixMillis,
    take: T,
    damaged: HashMap<u64, Damage>,
    loaded: Loaded,
    /// Greatest serial numbers of a sound row and of a damaged row.
    sound: i64,
    strange: i64,
    buffer: Vec<u8>,
    last: Last,
}

/// Topic and policy of the previous job, which most jobs share.
#[derive(Default)]
struct Last {
    topic: Option<Topic>,
    /// The text of the policy, and its decisive part.
    policy: Option<(String, Arc<Policy>)>,
}

impl Last {
    fn topic(&mut self, text: &str) -> Option<Topic> {
        if self.topic.as_ref().is_none_or(|last| last.as_str() != text) {
            self.topic = Some(text.parse().ok()?);
        }
        self.topic.clone()
    }

    fn policy(&mut self, text: &str) -> Option<Arc<Policy>> {
        // Most texts are empty. The C library takes long to compare no bytes at the address of an
        // empty `String`, which is not mapped.
        let differs = |last: &String| last.len() != text.len() || !text.is_empty() && last != text;
        if self.policy.as_ref().is_none_or(|(last, _)| differs(last)) {
            let policy: Policy = text.parse().ok()?;
            self.policy = Some((text.to_owned(), Arc::new(policy.decisive())));
        }
        self.policy.as_ref().map(|(_, policy)| Arc::clone(policy))
    }
}

impl<T: FnMut(Arrival)> Load<'_, T> {
    fn all(&mut self) -> rusqlite::Result<()> {
        let mut from = i64::MIN;
        while let Err(cause) = self.rows_behind(from) {
            if !self.records.is_damage(&cause) {
                return Err(cause);
            }
            let after = self.sound.max(from.saturating_add(1));
            let next = self.records.readable_behind("pool", after)?;
            self.loaded.unreadable += 1;
            tracing::error!(%cause, after, ?next, "skipped jobs: their page is damaged");
            let Some(next) = next else { break };
            from = next - 1;
        }
        Ok(())
    }

    fn rows_behind(&mut self, from: i64) -> rusqlite::Result<()> {
        let columns = pool_table::COLUMNS;
        // SQLite takes the length from the row's header and does not read the body for it.
        let sql =
            format!("SELECT {columns}, length(body) FROM pool WHERE serial > ? ORDER BY serial");
        let mut statement = self.records.connection.prepare(&sql)?;
        let mut rows = statement.query([from])?;
        while let Some(row) = rows.next()? {
            self.row(row)?;
        }
        Ok(())
    }

    fn row(&mut self, row: &Row<'_>) -> rusqlite::Result<()> {
        let serial: i64 = row.get(0)?;
        let number = serial.cast_unsigned();
        let parsed = PoolRow::from_row(row);
        let sound = match &parsed {
            Ok((row, checksum)) => row.checksum(&mut self.buffer) == *checksum,
            Err(_) => false,
        };
        let fate = self.records.quarantined.get(&number).copied();
        if fate == Some(Fate::Gone) {
            return Ok(());
        }
        let size = Size::from_bytes(row.get(PoolRow::NEXT_COLUMN).unwrap_or_default());
        let created_at = parsed.as_ref().map_or(0, |(row, _)| row.created_at);
        let created_at = time(created_at).unwrap_or(UnixMillis::new(0));
        let arrival = parsed.ok().and_then(|(row, _)| arrival(&row, size, &mut self.last));
        let (Some(mut arrival), true) = (arrival, sound && serial > 0) else {
            return self.damaged_row(row, serial, size);
        };
        self.sound = self.sound.max(serial);
        self.loaded.ahead.add(created_at.since(self.now));
        let damage = match self.attempts.of(serial)? {
            Popped::No => {
                // A job that has moved without a row had expired: all others were popped before.
                let has_moved = arrival.policy.dead_from.is_some();
                let none = Attempt::none(arrival.at, arrival.policy.ttr);
                let expired = Attempt { job_expired: true, ..none };
                if has_moved {
                    (arrival.state, arrival.attempt) = (State::Ready, Some(Box::new(expired)));
                }
                None
            }
            Popped::Yes(row) => match attempt(&row) {
                Some((state, at, attempt)) => {
                    (arrival.state, arrival.at, arrival.attempt) =
                        (state, at, Some(Box::new(attempt)));
                    None
                }
                None => Some(Damage::Attempt),
            },
            Popped::Damaged => Some(Damage::Attempt),
            // A job that is not due yet was never popped, but it may have been deleted and
            // remembered.
            Popped::Perhaps => {
                let is_lost = arrival.at <= self.now || self.records.has_ended(number)?;
                is_lost.then_some(Damage::Attempt)
            }
        };
        if let Some(damage) = fate.map(|_| Damage::Quarantined).or(damage) {
            self.damaged.insert(number, damage);
            arrival = as_quarantined(
                arrival,
                fate == Some(Fate::Finished) || self.records.has_ended(number)?,
            );
            let state = arrival.state.name();
            tracing::error!(serial, id = %arrival.id, state, ?damage, "quarantined a damaged job");
        }
        (self.take)(arrival);
        Ok(())
    }

    fn damaged_row(&mut self, row: &Row<'_>, serial: i64, size: Size) -> rusqlite::Result<()> {
        self.strange = self.strange.max(serial);
        match PoolRow::from_row(row).ok().and_then(|(row, _)| arrival(&row, size, &mut self.last)) {
            Some(arrival) if serial > 0 => {
                tracing::error!(serial, id = %arrival.id, "quarantined a job with a damaged row");
                self.damaged.insert(arrival.serial, Damage::Row);
                let fate = self.records.quarantined.get(&arrival.serial);
                let is_finished =
                    fate == Some(&Fate::Finished) || self.records.has_ended(arrival.serial)?;
                self.loaded.damaged.push(as_quarantined(arrival, is_finished));
            }
            _ => {
                tracing::error!(serial, "skipped an unreadable row");
                self.loaded.unreadable += 1;
            }
        }
        Ok(())
    }
}

/// Returns a job from its row in `pool`. The machine makes due jobs ready. A job that was put
/// without a delay is ready whatever the clock shows, which may have been set back since: only its
/// due time is that of its creation. An earlier one may come from a change after the correction.
fn arrival(row: &PoolRow<'_>, size: Size, last: &mut Last) -> Option<Arrival> {
    Some(Arrival {
        id: row.id.parse().ok()?,
        topic: last.topic(row.topic)?,
        serial: row.serial.cast_unsigned(),
        state: if row.due_at == row.created_at { State::Ready } else { State::Delayed },
        at: time(row.due_at)?,
        policy: last.policy(row.policy)?,
        attempt: None,
        size,
    })
}

fn time(millis: i64) -> Option<UnixMillis> {
    u64::try_from(millis).ok().map(UnixMillis::new)
}

/// Returns state, time and attempt of a popped job.
pub fn attempt(row: &AttemptRow) -> Option<(State, UnixMillis, Attempt)> {
    let attempt = Attempt {
        number: u32::try_from(row.number & !SNOOZED).ok()?,
        is_snoozed: row.number & SNOOZED != 0,
        reservation: row.reservation.map(|bits| Reservation::from_bits(bits.cast_unsigned())),
        died_at: time(row.died_at)?,
        was_kicked: true,
        ..Attempt::none(time(row.due_at)?, Millis::new(u64::try_from(row.ttr).ok()?))
    };
    Some((row.state, time(row.at)?, attempt))
}
