//! The fuzz target of damaged files: the pages of a database and its log.

use std::{
    cell::RefCell,
    fs::{self, File},
    os::unix::fs::FileExt,
};

use super::{Pages, Reader, Salvaged};
use crate::{
    job::{Millis, NewJob, OnConflict, Schedule, State, Topic, UnixMillis},
    store::file::{
        index::Attempt,
        machine::{ErrorText, Write},
        records::Records,
        wal::Log,
    },
};

const PAGE: usize = 4096;
const JOBS: u64 = 60;

thread_local! {
    static DAMAGED: RefCell<(tempfile::TempDir, Vec<u8>)> = RefCell::new(sound());
}

/// A folder with a sound file, and its bytes: jobs of one page and of several, every third popped.
fn sound() -> (tempfile::TempDir, Vec<u8>) {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("jobs.db");
    let (mut records, _) = Records::open(&path, None).expect("a new file");
    let mut writes: Vec<Write> = (1..=JOBS).map(insert).collect();
    writes.extend((1..=JOBS).step_by(3).map(pop));
    let topic: Topic = "t".parse().expect("a topic");
    writes.push(Write::Defaults { topic, text: Some("{}".to_owned()) });
    writes.push(Write::Aside { serial: 7, gone: false });
    records.write(&writes, true).map_err(|(_, cause)| cause).expect("written");
    records.commit().expect("committed");
    records.empty_log().expect("carried over");
    drop(records);
    let bytes = fs::read(&path).expect("the file");
    (dir, bytes)
}

fn body(serial: u64) -> String {
    let length = if serial.is_multiple_of(30) { 3000 } else { 20 };
    format!("\"{}\"", serial.to_string().repeat(length))
}

fn insert(serial: u64) -> Write {
    let due_at = UnixMillis::new(1_800_000_000_000 + serial);
    let job = NewJob {
        id: format!("job:{serial}").parse().expect("an id"),
        topic: "t".parse().expect("a topic"),
        body: body(serial).into(),
        schedule: Schedule::At(due_at),
        ttr: Millis::new(60_000),
        max_attempts: 20,
        backoff: None,
        dead_retention: Millis::new(1_000),
        traceparent: None,
        on_conflict: OnConflict::Reject,
    };
    Write::Insert { serial, job, created_at: due_at, due_at }
}

fn pop(serial: u64) -> Write {
    let at = UnixMillis::new(1_800_000_060_000 + serial);
    let (ttr, died_at) = (Millis::new(60_000), UnixMillis::new(0));
    let attempt =
        Attempt { number: 1, reservation: None, due_at: at, died_at, ttr, expired: false };
    let error = ErrorText::Set(Some("ttr expired".to_owned()));
    Write::Attempt { serial, state: State::Reserved, at, attempt, error }
}

/// A sound file of which some bytes are changed (page, place in it, byte; four bytes each), up to an
/// empty change, behind which stands a log. It is read without a panic, and no job comes out
/// that is not one of those that were put.
pub fn file_pages(data: &[u8]) {
    DAMAGED.with_borrow(|(dir, sound)| {
        let (path, log) = (dir.path().join("jobs.db"), dir.path().join("jobs.db-wal"));
        let file = File::options().write(true).open(&path).expect("the file");
        let end = data.chunks_exact(4).position(|change| change == [0; 4]);
        let (changes, rest) = data.split_at(end.map_or(data.len(), |end| end * 4));
        let places: Vec<usize> = changes
            .chunks_exact(4)
            .map(|change| {
                let within = usize::from(u16::from_le_bytes([change[1], change[2]])) % PAGE;
                (usize::from(change[0]) * PAGE + within) % sound.len()
            })
            .collect();
        for (at, change) in places.iter().zip(changes.chunks_exact(4)) {
            file.write_all_at(&change[3..], *at as u64).expect("written");
        }
        let rest = rest.get(4..).unwrap_or_default();
        fs::write(&log, rest).expect("written");
        if let Ok(Some(log)) = Log::read(&log) {
            let _ = (log.damage().map(|damage| damage.to_string()), log.torn(), log.pages());
        }
        let found = read(Pages::open(&path).expect("opened"));
        if changes.is_empty() && rest.is_empty() {
            assert_eq!(found, Salvaged { jobs: JOBS, ..Salvaged::default() });
        }
        for at in places {
            file.write_all_at(&sound[at..=at], at as u64).expect("written");
        }
    });
}

/// All that a salvage reads. Jobs are counted without their attempts.
fn read(pages: Pages) -> Salvaged {
    let mut reader = Reader { pages, found: Salvaged::default() };
    let _ = reader.buckets();
    reader.topics(&mut Vec::new());
    reader.aside();
    let attempts = reader.attempts();
    for leaf in reader.leaves("pool") {
        for cell in reader.cells(leaf) {
            let Some(job) = reader.job(&cell) else { continue };
            let serial = cell.serial.cast_unsigned();
            let Write::Insert { job: put, .. } = insert(serial) else { unreachable!() };
            assert_eq!(job.job, put, "an invented job");
            let now = UnixMillis::new(2_000_000_000_000);
            reader.add(&cell, job, &attempts, (false, now), &mut Vec::new());
        }
    }
    reader.found
}
