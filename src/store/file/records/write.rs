//! Writes the changes of transitions to the file.

use rusqlite::params;

use super::{
    Done, Records, damage,
    ending::change_of,
    past::{self, ErrorAndHistory},
    pool_table,
    read::Damage,
    row::{AttemptRow, PoolRow, SNOOZED, pause_number, row_of, topic_checksum},
};
use crate::{
    job::{Change, Policy, Setting, SettingKind, State, Topic, UnixMillis},
    store::file::{
        index::Attempt,
        machine::{ErrorText, HistoryChange, Write},
    },
};

/// Splits sorted numbers into ranges without a gap, each as its first and last number.
fn ranges(numbers: &[i64]) -> impl Iterator<Item = (i64, i64)> {
    numbers.chunk_by(|one, next| one + 1 == *next).map(|range| (range[0], range[range.len() - 1]))
}

/// Converts a number for SQLite, whose limit no number of a store reaches.
pub fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl Records {
    /// Writes in the open transaction, or begins one. Stops at the first write that fails and
    /// returns its index. With `by_ranges`, one statement deletes several jobs; after damage, the
    /// caller deletes them one by one to find the damaged job.
    pub fn write(
        &mut self,
        writes: &[Write],
        by_ranges: bool,
    ) -> Result<(), (usize, rusqlite::Error)> {
        if !self.in_transaction && !writes.is_empty() {
            let begun = self.connection.prepare_cached("BEGIN IMMEDIATE");
            begun.and_then(|mut begin| begin.execute(())).map_err(|cause| (0, cause))?;
            self.in_transaction = true;
        }
        let mut done = 0;
        while let Some(write) = writes.get(done) {
            debug_assert!(!self.connection.is_autocommit(), "the first error ends it");
            if matches!(write, Write::Insert { .. }) {
                done += self.insert_all(&writes[done..]).map_err(|(n, cause)| (done + n, cause))?;
                continue;
            }
            let deletes = if by_ranges { self.deletes(&writes[done..]) } else { Vec::new() };
            let written = match deletes.len() {
                0 => self.write_one(write),
                _ => ranges(&deletes).try_for_each(|range| self.delete(range)),
            };
            written.map_err(|cause| (done, cause))?;
            done += deletes.len().max(1);
        }
        Ok(())
    }

    /// Returns the serial numbers of the deletes at the start of `writes`, sorted, up to the first
    /// damaged job.
    fn deletes(&self, writes: &[Write]) -> Vec<i64> {
        let sound = |write: &Write| match write {
            Write::Delete { serial }
                if !self.quarantined.contains_key(serial) && !self.damaged.contains_key(serial) =>
            {
                Some(signed(*serial))
            }
            _ => None,
        };
        let mut serials: Vec<i64> = writes.iter().map_while(sound).collect();
        serials.sort_unstable();
        serials
    }

    /// Deletes a range of jobs, all of which must exist. Jobs that are popped together often have
    /// consecutive serial numbers, and one statement for a range costs a third of a statement for
    /// each job.
    fn delete(&self, (first, last): (i64, i64)) -> Done {
        self.run("DELETE FROM attempts WHERE serial BETWEEN ? AND ?", [first, last])?;
        let sql = "DELETE FROM pool WHERE serial BETWEEN ? AND ?";
        match self.connection.prepare_cached(sql)?.execute([first, last])? {
            deleted if deleted as i64 == last - first + 1 => Ok(()),
            _ => Err(rusqlite::Error::QueryReturnedNoRows),
        }
    }

    fn write_one(&mut self, write: &Write) -> Done {
        let is_quarantined = |serial: &u64| {
            self.quarantined.contains_key(serial) || self.damaged.get(serial) == Some(&Damage::Row)
        };
        if let Some(serial) = write.changes().filter(is_quarantined) {
            return self.quarantine(serial, write.fate());
        }
        match write {
            Write::Insert { .. } => unreachable!("inserts go together"),
            Write::Due { serial, due_at } => {
                self.update(*serial, (Some(*due_at), None), &Change::default())
            }
            Write::Change { serial, change } => self.update(*serial, (None, None), change),
            Write::Move { serial, topic, due_at, policy } => {
                let change = Change { policy: policy.clone(), ..Change::default() };
                self.update(*serial, (Some(*due_at), Some(topic)), &change)
            }
            Write::Attempt { serial, state, at, attempt, error, history } => {
                self.attempt(*serial, (*state, *at), attempt, error, history)?;
                if !attempt.was_popped() {
                    // A kick replaces the whole damaged row.
                    self.has_sound_attempt(*serial);
                }
                Ok(())
            }
            Write::Setting(setting) => self.setting(setting),
            Write::Schedule { name, new } => self.write_schedule(name, new.as_ref()),
            Write::NoAttempt { serial } => {
                self.run("DELETE FROM attempts WHERE serial = ?", [serial])?;
                self.has_sound_attempt(*serial);
                Ok(())
            }
            Write::Finish { serial, at, attempt, outcome, result, retention, history } => {
                let change = change_of(*outcome, result.as_ref(), *retention);
                self.update(*serial, (None, None), &change)?;
                let place = (State::Finished, *at);
                self.attempt(*serial, place, attempt, &ErrorText::Set(None), history)?;
                self.has_sound_attempt(*serial);
                Ok(())
            }
            Write::Delete { serial } => {
                self.run("DELETE FROM attempts WHERE serial = ?", [serial])?;
                self.run_one("DELETE FROM pool WHERE serial = ?", [serial])?;
                self.damaged.remove(serial);
                Ok(())
            }
            Write::Token(change) => self.change_token(change),
            Write::TokenUses(uses) => self.note_uses(uses),
            Write::Counted(until) => self.write_counted(*until),
            Write::Quarantine { serial, fate } => self.quarantine(*serial, *fate),
        }
    }

    /// Records that a damaged row of `attempts` was deleted or completely rewritten.
    fn has_sound_attempt(&mut self, serial: u64) {
        if self.damaged.get(&serial) == Some(&Damage::Attempt) {
            self.damaged.remove(&serial);
        }
    }

    /// Changes a record if its checksum is right. A new checksum over a flipped field would hide
    /// the damage.
    fn update(
        &self,
        serial: u64,
        (due_at, topic): (Option<UnixMillis>, Option<&Topic>),
        change: &Change,
    ) -> Done {
        let select = format!("SELECT {} FROM pool WHERE serial = ?", pool_table::COLUMNS);
        let mut select = self.connection.prepare_cached(&select)?;
        let mut rows = select.query([serial])?;
        let old = rows.next()?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        let (old, checksum) = PoolRow::from_row(old)?;
        let mut buffer = Vec::with_capacity(256);
        if old.checksum(&mut buffer) != checksum {
            return Err(damage("a row has changed since it was written"));
        }
        let mut policy: Policy = old.policy.parse().map_err(|_| damage("a policy is invalid"))?;
        policy.set(change.policy.clone());
        let (policy, body) = (policy.to_string(), change.body.as_deref());
        let row = PoolRow {
            due_at: due_at.map_or(old.due_at, |due_at| signed(due_at.get())),
            policy: &policy,
            topic: topic.map_or(old.topic, Topic::as_str),
            body_checksum: body.map_or(old.body_checksum, |body| i64::from(crc32fast::hash(body))),
            ..old
        };
        self.run_one(
            pool_table::UPDATE,
            params![
                row.serial,
                row.due_at,
                row.policy,
                row.body_checksum,
                row.checksum(&mut buffer),
                body,
                row.topic,
            ],
        )
    }

    fn attempt(
        &self,
        serial: u64,
        (state, at): (State, UnixMillis),
        attempt: &Attempt,
        error: &ErrorText,
        history: &HistoryChange,
    ) -> Done {
        let written = self.error_columns(serial, (state, at), attempt, error, history)?;
        let keep = written.is_none();
        let (error, error_checksum) = written.unwrap_or_default();
        let row = AttemptRow {
            serial: signed(serial),
            state,
            at: signed(at.get()),
            number: i64::from(attempt.number) | if attempt.is_snoozed { SNOOZED } else { 0 },
            reservation: attempt.reservation.map(|reservation| reservation.bits().cast_signed()),
            due_at: signed(attempt.due_at.get()),
            died_at: signed(attempt.died_at.get()),
            ttr: signed(attempt.ttr.get()),
        };
        self.run(
            "INSERT INTO attempts VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
             ON CONFLICT DO UPDATE SET state = ?2, at = ?3, number = ?4, reservation = ?5,
             due_at = ?6, died_at = ?7, ttr = ?8, checksum = ?9, error = iif(?12, error, ?10),
             error_checksum = iif(?12, error_checksum, ?11)",
            params![
                row.serial,
                state.name(),
                row.at,
                row.number,
                row.reservation,
                row.due_at,
                row.died_at,
                row.ttr,
                row.checksum(),
                error,
                error_checksum,
                keep,
            ],
        )
    }

    /// Returns the columns of the error and the history, which share one; `None` if both stay.
    /// Reads the row first, because the new history contains the earlier entries.
    fn error_columns(
        &self,
        serial: u64,
        place: (State, UnixMillis),
        attempt: &Attempt,
        error: &ErrorText,
        history: &HistoryChange,
    ) -> rusqlite::Result<Option<(Option<String>, i64)>> {
        if *error == ErrorText::Keep && history.is_none() {
            return Ok(None);
        }
        let mut past = match self.past(serial)? {
            Ok(past) => past,
            // The damage must stay visible.
            Err(()) if *error == ErrorText::Keep => return Ok(None),
            Err(()) => ErrorAndHistory::default(),
        };
        let before = past.clone();
        past.change(place, attempt, error, history);
        let is_same = (&before.error, &before.history) == (&past.error, &past.history);
        Ok((!is_same).then(|| past::columns(past.error.as_deref(), &past.history)))
    }

    /// Changes a setting in the row of its topic.
    fn setting(&self, setting: &Setting) -> Done {
        let mut select = self
            .connection
            .prepare_cached("SELECT paused, defaults FROM topics WHERE topic = ?")?;
        let name = row_of(&setting.topic, setting.kind);
        let mut rows = select.query([&name])?;
        let (mut paused, mut defaults) = match rows.next()? {
            Some(row) => (row.get(0)?, row.get::<_, Option<String>>(1)?),
            None => (0, None),
        };
        match setting.kind {
            SettingKind::Pause => paused = pause_number(setting.text.as_deref()),
            SettingKind::Defaults | SettingKind::Push => defaults.clone_from(&setting.text),
        }
        let sum = topic_checksum(&name, paused, defaults.as_deref());
        self.run(
            "INSERT OR REPLACE INTO topics VALUES (?, ?, ?, ?)",
            params![name, paused, defaults, sum],
        )
    }

    pub fn run(&self, sql: &str, params: impl rusqlite::Params) -> Done {
        self.connection.prepare_cached(sql)?.execute(params).map(drop)
    }

    /// Changes one row that must exist. If the row is not found, the pages leading to it are
    /// damaged.
    fn run_one(&self, sql: &str, params: impl rusqlite::Params) -> Done {
        match self.connection.prepare_cached(sql)?.execute(params)? {
            0 => Err(rusqlite::Error::QueryReturnedNoRows),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_ends_where_a_number_is_missing() {
        let found = |numbers: &[i64]| ranges(numbers).collect::<Vec<_>>();
        assert_eq!(found(&[]), []);
        assert_eq!(found(&[5]), [(5, 5)]);
        assert_eq!(found(&[1, 2, 3, 5, 7, 8]), [(1, 3), (5, 5), (7, 8)]);
    }
}
