//! Schedules on disk: rows of `topics` whose names no topic can have, so that the file needs no
//! other table. The text of a schedule is in the column of the defaults, and the time at which a
//! server must look at it in that of the pause; 0 means never.

use rusqlite::{OptionalExtension, Row, params};

use super::{Done, Records, damage, row::topic_checksum, write::signed};
use crate::{
    job::{ScheduleName, UnixMillis},
    store::NewSchedule,
};

/// Begins the name of a row of `topics` that has a schedule. No topic has a space in its name.
pub const SCHEDULE: &str = "schedule ";
/// Condition that a row has no schedule. The second text is the first one after all rows with this
/// beginning.
pub const NO_SCHEDULE: &str = "(topic < 'schedule ' OR topic >= 'schedule!')";

/// Returns the schedule in a row of `topics`, without a check of the row's sum; `None` if the row
/// has none.
pub fn schedule_of_row(
    row: &str,
    next_at: i64,
    text: Option<&str>,
) -> Option<(ScheduleName, NewSchedule)> {
    let name = row.strip_prefix(SCHEDULE)?.parse().ok()?;
    let next_at = u64::try_from(next_at).ok().filter(|at| *at > 0).map(UnixMillis::new);
    Some((name, NewSchedule { text: text?.to_owned(), next_at }))
}

impl Records {
    /// Passes each schedule to `take`; skips damaged rows, and returns what is wrong with them.
    pub fn load_schedules(
        &self,
        mut take: impl FnMut(ScheduleName, Option<UnixMillis>),
    ) -> rusqlite::Result<Vec<String>> {
        // Bypasses the index, which may be damaged while the rows are sound.
        let sql = format!(
            "SELECT topic, paused, defaults, checksum FROM topics NOT INDEXED WHERE NOT {NO_SCHEDULE}"
        );
        let mut statement = self.connection.prepare(&sql)?;
        let (mut rows, mut wrong) = (statement.query(())?, Vec::new());
        loop {
            match rows.next().and_then(|row| row.map(schedule).transpose()) {
                Ok(None) => return Ok(wrong),
                Ok(Some((name, new))) => take(name, new.next_at),
                Err(cause) if self.is_damage(&cause) => {
                    tracing::error!(%cause, "skipped a damaged schedule");
                    wrong.push(cause.to_string());
                }
                Err(cause) => return Err(cause),
            }
        }
    }

    /// Reads a schedule.
    pub fn schedule(&self, name: &ScheduleName) -> rusqlite::Result<Option<NewSchedule>> {
        let sql = "SELECT topic, paused, defaults, checksum FROM topics WHERE topic = ?";
        let mut statement = self.connection.prepare_cached(sql)?;
        let found = statement.query_row([row_name(name)], schedule).optional()?;
        Ok(found.map(|(_, schedule)| schedule))
    }

    /// Writes or removes a schedule.
    pub fn write_schedule(&self, name: &ScheduleName, new: Option<&NewSchedule>) -> Done {
        let name = row_name(name);
        let Some(NewSchedule { text, next_at }) = new else {
            return self.run("DELETE FROM topics WHERE topic = ?", [name]);
        };
        let next_at = next_at.map_or(0, |at| signed(at.get()));
        let sum = topic_checksum(&name, next_at, Some(text));
        self.run(
            "INSERT OR REPLACE INTO topics VALUES (?, ?, ?, ?)",
            params![name, next_at, text, sum],
        )
    }
}

fn row_name(name: &ScheduleName) -> String {
    format!("{SCHEDULE}{name}")
}

fn schedule(row: &Row<'_>) -> rusqlite::Result<(ScheduleName, NewSchedule)> {
    let (name, next_at): (String, i64) = (row.get(0)?, row.get(1)?);
    let text: Option<String> = row.get(2)?;
    let sound = topic_checksum(&name, next_at, text.as_deref()) == row.get::<_, i64>(3)?;
    let schedule = schedule_of_row(&name, next_at, text.as_deref());
    schedule
        .filter(|_| sound)
        .ok_or_else(|| damage(&format!("{name:?} has changed since it was written")))
}
