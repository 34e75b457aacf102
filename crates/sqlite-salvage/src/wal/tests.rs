//! Tests on logs written by SQLite.

use std::fs;

use proptest::prelude::*;
use rusqlite::Connection;

use super::*;

const PAGE: usize = 4096;
const FRAME: usize = FRAME_HEADER + PAGE;

/// Returns a log of some transactions without a checkpoint.
fn log(transactions: usize) -> Vec<u8> {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let file = Connection::open(dir.path().join("x.db")).expect("opened");
    file.pragma_update(None, "journal_mode", "WAL").expect("set");
    file.execute_batch("CREATE TABLE t (n INTEGER PRIMARY KEY, text TEXT)").expect("created");
    for n in 0..transactions {
        file.execute("INSERT INTO t VALUES (?, ?)", (n, "x".repeat(3000))).expect("inserted");
    }
    fs::read(dir.path().join("x.db-wal")).expect("the log")
}

fn read(bytes: &[u8]) -> Log {
    Log::parse(bytes, PAGE).expect("read").expect("a log")
}

#[test]
fn a_whole_log_is_not_damaged() {
    for transactions in [1, 2, 20] {
        let log = read(&log(transactions));
        assert!(log.header_is_sound && log.frames.iter().all(Frame::is_sound), "{transactions}");
        assert_eq!(log.damage(), None);
        assert_eq!(log.torn(), 0);
    }
    assert!(Log::parse(&b"short"[..], PAGE).expect("read").is_none());
}

#[test]
fn a_truncated_log_is_torn_but_not_damaged() {
    let whole = log(12);
    // Cuts at many bytes of the last frames, and at some bytes before them.
    let every = whole.len() - 3 * FRAME..whole.len();
    for end in (0..whole.len()).step_by(397).chain(every.step_by(7)) {
        if let Some(log) = Log::parse(&whole[..end], PAGE).expect("read") {
            assert_eq!(log.damage(), None, "after {end} bytes");
        }
    }
}

#[test]
fn any_wrong_frames_of_the_last_transaction_are_torn() {
    let whole = log(12);
    let (commits, last) = {
        let log = read(&whole);
        let commits: Vec<usize> =
            (0..log.frames.len()).filter(|&n| log.frames[n].commit > 0).collect();
        (commits.clone(), commits[commits.len() - 2] + 1)
    };
    assert!(commits[commits.len() - 1] > last, "the last transaction has several frames");
    for wrong in last..=commits[commits.len() - 1] {
        let mut torn = whole.clone();
        let at = HEADER + wrong * FRAME;
        torn[at..at + FRAME].fill(0);
        assert_eq!(read(&torn).damage(), None, "frame {wrong}");
    }
}

#[test]
fn a_flipped_byte_before_the_last_transaction_is_damage() {
    let whole = log(12);
    let sound = read(&whole);
    let commits: Vec<usize> =
        (0..sound.frames.len()).filter(|&n| sound.frames[n].commit > 0).collect();
    let last = HEADER + (commits[commits.len() - 2] + 1) * FRAME;
    // Flips every byte of the headers, and some bytes of each page.
    let headers =
        (0..HEADER).chain((HEADER..last).filter(|at| (at - HEADER) % FRAME < FRAME_HEADER));
    for at in headers.chain((HEADER..last).step_by(97)) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        let log = read(&bytes);
        let damage = log.damage().unwrap_or_else(|| panic!("byte {at}"));
        assert!(damage.commits > 0 && damage.offset as usize <= at, "byte {at}: {damage:?}");
        // The rest of the log can still be read.
        let (pages, size) = log.pages();
        assert_eq!(size, sound.pages().1, "byte {at}");
        let lost = pages.values().filter(|version| **version == Version::Lost).count();
        assert!(lost <= 2, "byte {at}: {lost} pages");
    }
}

#[test]
fn remains_of_failed_commits_are_not_damage() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| dir.path().join(name);
    let base = Connection::open(path("base.db")).expect("opened");
    base.pragma_update(None, "journal_mode", "WAL").expect("set");
    base.execute_batch("CREATE TABLE t (n INTEGER PRIMARY KEY, text TEXT)").expect("created");
    // Three commits on the same state, as if the sync of the first two had failed.
    let commit = |name: &str, bytes: usize| {
        for end in ["", "-wal"] {
            let from = path(&format!("base.db{end}"));
            fs::copy(from, path(&format!("{name}{end}"))).expect("copied");
        }
        let file = Connection::open(path(name)).expect("opened");
        file.execute("INSERT INTO t VALUES (1, ?)", ["x".repeat(bytes)]).expect("inserted");
        fs::read(path(&format!("{name}-wal"))).expect("the log")
    };
    let (longest, longer, mut short) =
        (commit("a", 60_000), commit("b", 30_000), commit("c", 1_000));
    assert!(short.len() < longer.len() && longer.len() < longest.len());
    assert_eq!(short[..HEADER], longest[..HEADER]);
    short.extend_from_slice(&longer[short.len()..]);
    short.extend_from_slice(&longest[short.len()..]);
    let log = read(&short);
    assert!(log.frames.iter().any(|frame| !frame.follows && frame.current));
    assert_eq!(log.damage(), None);
    assert!(log.torn() > 0);
}

proptest! {
    #[test]
    fn no_bytes_cause_a_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..20_000), sound in any::<bool>()) {
        if sound && bytes.len() > HEADER {
            bytes[..4].copy_from_slice(&MAGIC.to_be_bytes());
            bytes[8..12].copy_from_slice(&512_u32.to_be_bytes());
            let sum = Order::Little.sum((0, 0), &bytes[..24]);
            bytes[24..28].copy_from_slice(&sum.0.to_be_bytes());
            bytes[28..32].copy_from_slice(&sum.1.to_be_bytes());
        }
        if let Some(log) = Log::parse(&bytes[..], PAGE).expect("read") {
            let _ = (log.damage().map(|damage| damage.to_string()), log.torn(), log.pages());
        }
    }

    #[test]
    fn a_log_that_is_torn_at_any_byte_is_not_damaged(end in 0..FRAME * 3, zeros in any::<bool>()) {
        let mut whole = log(6);
        let cut = whole.len() - end.min(whole.len());
        // The last transaction has at most three frames: a cut within them loses no synced commit.
        let last = { let log = read(&whole); let all = log.frames.len();
            HEADER + (0..all - 1).rev().find(|&n| log.frames[n].commit > 0).map_or(0, |n| n + 1) * FRAME };
        let cut = cut.max(last);
        if zeros { whole[cut..].fill(0) } else { whole.truncate(cut) }
        prop_assert_eq!(read(&whole).damage(), None);
    }
}
