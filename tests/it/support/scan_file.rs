//! Contents of a file store, read from its file. `src/store/file/records/schema.rs` describes the
//! tables.
//!
//! This module reads a copy, since a running server locks its file. The file has no promotions: the
//! state of a job follows from its deadline and the clock.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant, SystemTime},
};

use jiff::Timestamp;
use rusqlite::{Connection, Row};
use tempfile::TempDir;

use super::scan::Scan;
use crate::support::patience::patience;

/// Bit of the number of attempts of a job that was released uncounted before any attempt counted.
const SNOOZED: i64 = 1 << 32;

const FILES: [&str; 2] = ["jobs.db", "jobs.db-wal"];

/// Reads the jobs of these topics from the store in the folder `dir`.
pub fn scan_file(dir: &Path, topics: &[&str]) -> Scan {
    let copy = copy(dir);
    let file = Connection::open(copy.path().join(FILES[0])).expect("the copy opens");
    #[expect(clippy::disallowed_methods, reason = "no server answers here; its clock is this one")]
    let now = Timestamp::now().as_millisecond();
    let mut scan = Scan::new();
    // A quarantined job counts as dead, unless it was deleted later (`gone`).
    let sql = "SELECT id, topic, CAST(body AS TEXT), pool.due_at, policy,
                      attempts.state, at, number, aside.gone, error
               FROM pool LEFT JOIN attempts USING (serial) LEFT JOIN aside USING (serial)";
    let mut statement = file.prepare(sql).expect("the tables are as expected");
    let mut rows = statement.query(()).expect("the copy can be read");
    while let Some(row) = rows.next().expect("the copy can be read") {
        add(row, now, topics, &mut scan).expect("the columns are as expected");
    }
    let sql = "SELECT serial FROM attempts WHERE serial NOT IN (SELECT serial FROM pool)";
    let mut statement = file.prepare(sql).expect("the tables are as expected");
    let serials =
        statement.query_map((), |row| row.get::<_, i64>(0)).expect("the copy can be read");
    for serial in serials {
        let name = format!("attempts of {}, which has no record", serial.expect("a number"));
        scan.entry(name).or_default().attempts += 1;
    }
    scan
}

fn add(row: &Row<'_>, now: i64, topics: &[&str], scan: &mut Scan) -> rusqlite::Result<()> {
    let (id, topic): (String, String) = (row.get(0)?, row.get(1)?);
    let (due_at, policy): (i64, String) = (row.get(3)?, row.get(4)?);
    let field = |name: &str| {
        let text = policy.split(';').find_map(|field| field.strip_prefix(name));
        text.map(|text| text.parse::<i64>().expect("a number"))
    };
    let (most, expires_at) = (field("m=").unwrap_or(20), field("e="));
    let has_expired_by = |time: i64| expires_at.is_some_and(|at| at <= time);
    let popped: Option<String> = row.get(5)?;
    let at: Option<i64> = row.get(6)?;
    let number = row.get::<_, Option<i64>>(7)?.unwrap_or_default() & !SNOOZED;
    let (gone, error): (Option<bool>, Option<String>) = (row.get(8)?, row.get(9)?);
    let deadline = at.unwrap_or(due_at);
    let passed = deadline <= now;
    let is_reserved = popped.as_deref() == Some("reserved");
    let is_spent = is_reserved && most > 0 && number >= most;
    let (state, is_expired) = match (popped.as_deref(), gone) {
        (_, Some(true)) => return Ok(()),
        (_, Some(false)) => ("dead", false),
        (Some("finished"), _) => return Ok(()),
        (Some("dead"), _) if passed => return Ok(()),
        // A history may precede the error.
        (Some("dead"), _) => {
            ("dead", error.is_some_and(|error| error == "expired" || error.ends_with("=expired")))
        }
        _ if is_reserved && !passed => ("reserved", false),
        // The next attempt would be due at the end of the TTR.
        _ if is_reserved && has_expired_by(deadline) => ("dead", true),
        _ if is_spent => ("dead", false),
        _ if has_expired_by(now) => ("dead", true),
        _ if passed => ("ready", false),
        _ => ("delayed", false),
    };
    // A job that dies by the clock moves, although its row says so only after the next promote.
    let target = policy.split(';').find_map(|field| field.strip_prefix("g="));
    let dies_now = state == "dead" && gone.is_none() && popped.as_deref() != Some("dead");
    let (state, topic, number, is_expired) = match target {
        Some(target) if dies_now && target != topic => ("ready", target.to_owned(), 0, false),
        _ => (state, topic, number, is_expired),
    };
    let stored = scan.entry(id).or_default();
    stored.bodies.push(row.get(2)?);
    // The row of a kicked job has number 0: it remains only for its history.
    stored.attempts += usize::from(number != 0);
    stored.is_expired = is_expired;
    // Scans of Redis contain only the sets of these topics, too.
    if topics.contains(&topic.as_str()) {
        stored.sets.push(format!(":{state}:{topic}"));
    }
    Ok(())
}

/// Copies both files, and repeats this until no write occurred meanwhile.
fn copy(dir: &Path) -> TempDir {
    let end = Instant::now() + patience();
    loop {
        let copy = tempfile::tempdir().expect("a temporary folder");
        let before = written(dir);
        for name in FILES {
            let copied = fs::copy(dir.join(name), copy.path().join(name));
            // A server that was stopped with SIGTERM leaves no log.
            assert!(copied.is_ok() || name != FILES[0], "{copied:?}");
        }
        if before == written(dir) {
            return copy;
        }
        assert!(Instant::now() < end, "the file is written all the time");
        std::thread::sleep(Duration::from_millis(20)); // no event reports that writes have stopped
    }
}

/// Returns the time of the last write and the length of each file.
fn written(dir: &Path) -> Vec<Option<(SystemTime, u64)>> {
    let about = |name: &str| fs::metadata(dir.join(name)).ok();
    let times = FILES.map(|name| about(name).map(|a| (a.modified().expect("a time"), a.len())));
    times.to_vec()
}
