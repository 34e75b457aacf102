//! Contents of a file store, read from its file. See `src/store/file/records/schema.rs` for the
//! tables.
//!
//! A server locks its file, so a copy is read, also of a running server's. The file has no
//! promotions: the state of a job follows from its deadline and the clock.

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

const FILES: [&str; 2] = ["jobs.db", "jobs.db-wal"];

/// Reads the store's jobs of these topics from this folder.
pub fn scan_file(dir: &Path, topics: &[&str]) -> Scan {
    let copy = copy(dir);
    let file = Connection::open(copy.path().join(FILES[0])).expect("the copy opens");
    #[expect(clippy::disallowed_methods, reason = "no server answers here; its clock is this one")]
    let now = Timestamp::now().as_millisecond();
    let mut scan = Scan::new();
    // A quarantined job is dead, and gone if it was deleted later.
    let sql = "SELECT id, topic, CAST(body AS TEXT), pool.due_at, policy,
                      attempts.state, at, number, aside.gone
               FROM pool LEFT JOIN attempts USING (serial) LEFT JOIN aside USING (serial)";
    let mut statement = file.prepare(sql).expect("the tables are as expected");
    let mut rows = statement.query(()).expect("it can be read");
    while let Some(row) = rows.next().expect("it can be read") {
        add(row, now, topics, &mut scan).expect("the columns are as expected");
    }
    let sql = "SELECT serial FROM attempts WHERE serial NOT IN (SELECT serial FROM pool)";
    let mut statement = file.prepare(sql).expect("the tables are as expected");
    let serials = statement.query_map((), |row| row.get::<_, i64>(0)).expect("it can be read");
    for serial in serials {
        let name = format!("attempts of {}, which is not there", serial.expect("a number"));
        scan.entry(name).or_default().attempts += 1;
    }
    scan
}

fn add(row: &Row<'_>, now: i64, topics: &[&str], scan: &mut Scan) -> rusqlite::Result<()> {
    let (id, topic): (String, String) = (row.get(0)?, row.get(1)?);
    let (due_at, policy): (i64, String) = (row.get(3)?, row.get(4)?);
    let most = policy.split(';').find_map(|field| field.strip_prefix("m="));
    let most: i64 = most.map_or(20, |most| most.parse().expect("a number"));
    let popped: Option<String> = row.get(5)?;
    let (at, number) = (row.get::<_, Option<i64>>(6)?, row.get::<_, Option<i64>>(7)?);
    let gone: Option<bool> = row.get(8)?;
    let passed = at.unwrap_or(due_at) <= now;
    let state = match (popped.as_deref(), gone) {
        (_, Some(true)) => return Ok(()),
        (_, Some(false)) => "dead",
        (Some("finished"), _) => return Ok(()),
        (Some("dead"), _) if passed => return Ok(()),
        (Some("dead"), _) => "dead",
        (Some("reserved"), _) if !passed => "reserved",
        (Some("reserved"), _) if most > 0 && number.unwrap_or_default() >= most => "dead",
        _ if passed => "ready",
        _ => "delayed",
    };
    let stored = scan.entry(id).or_default();
    stored.bodies.push(row.get(2)?);
    // A job that was kicked keeps its row for its history.
    stored.attempts += usize::from(number.unwrap_or_default() != 0);
    // As on Redis, where sets are read by topic.
    if topics.contains(&topic.as_str()) {
        stored.sets.push(format!(":{state}:{topic}"));
    }
    Ok(())
}

/// Copies both files at one moment: no write came in between.
fn copy(dir: &Path) -> TempDir {
    let end = Instant::now() + patience();
    loop {
        let copy = tempfile::tempdir().expect("a temporary folder");
        let before = written(dir);
        for name in FILES {
            let copied = fs::copy(dir.join(name), copy.path().join(name));
            // A server that ended in order leaves no log.
            assert!(copied.is_ok() || name != FILES[0], "{copied:?}");
        }
        if before == written(dir) {
            return copy;
        }
        assert!(Instant::now() < end, "the file is written all the time");
        std::thread::sleep(Duration::from_millis(20)); // no event reports that writes have stopped
    }
}

/// Returns when each file was last written, and its length.
fn written(dir: &Path) -> Vec<Option<(SystemTime, u64)>> {
    let about = |name: &str| fs::metadata(dir.join(name)).ok();
    let times = FILES.map(|name| about(name).map(|a| (a.modified().expect("a time"), a.len())));
    times.to_vec()
}
