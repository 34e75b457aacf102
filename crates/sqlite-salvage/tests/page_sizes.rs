//! Tests on files of every page size of SQLite, through the public interface alone.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, config::DbConfig};
use sqlite_salvage::{Field, Log, Pages};

const SIZES: [usize; 8] = [512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536];
const ROWS: i64 = 700;

/// Creates a file whose second half of rows is only in its log.
fn file(dir: &Path, page_size: usize) -> PathBuf {
    let path = dir.join(format!("{page_size}.db"));
    let file = Connection::open(&path).expect("opened");
    file.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).expect("set");
    file.pragma_update(None, "page_size", page_size).expect("set");
    file.pragma_update(None, "auto_vacuum", "INCREMENTAL").expect("set");
    file.pragma_update(None, "journal_mode", "WAL").expect("set");
    file.pragma_update(None, "wal_autocheckpoint", 0).expect("set");
    file.execute_batch("CREATE TABLE t (n INTEGER PRIMARY KEY, text TEXT, real REAL, big BLOB)")
        .expect("created");
    for n in 1..=ROWS {
        let big = (n % 100 == 0).then(|| vec![7; 10_000]);
        file.execute(
            "INSERT INTO t VALUES (?, ?, ?, ?)",
            (n, format!("row {n}"), 0.5 + n as f64, big),
        )
        .expect("inserted");
        if n == ROWS / 2 {
            file.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(()))
                .expect("checkpointed");
        }
    }
    drop(file);
    path
}

#[test]
fn all_rows_of_a_sound_file_and_its_log_are_read() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    for size in SIZES {
        let path = file(dir.path(), size);
        let log = Log::read(&path.with_extension("db-wal"), size).expect("read").expect("a log");
        assert_eq!((log.page_size(), log.damage(), log.torn()), (size, None, 0));
        let mut pages = Pages::open(&path, size).expect("opened");
        assert!(pages.is_root(3), "{size}");
        assert_eq!(pages.unsound(3), None, "{size}");
        let table = pages.leaves(3);
        assert!(table.gaps.is_empty(), "{size}: {:?}", table.gaps);
        let mut next = 1;
        for leaf in table.leaves {
            let found = pages.cells(leaf.page).expect("its rows");
            assert_eq!(found.unreadable, Some(0), "{size}");
            for cell in found.cells {
                let fields = cell.fields().expect("its fields");
                let [Field::Null, Field::Bytes(text), Field::Real(real), big] = fields[..] else {
                    panic!("{size}: {fields:?}");
                };
                assert_eq!((cell.serial, text), (next, format!("row {next}").as_bytes()));
                assert!((real - 0.5 - next as f64).abs() < 0.1);
                let is_big = matches!(big, Field::Bytes(bytes) if *bytes == [7; 10_000]);
                assert_eq!(is_big, next % 100 == 0);
                next += 1;
            }
        }
        assert_eq!(next, ROWS + 1, "{size}");
    }
}

#[test]
fn any_inconsistent_page_of_a_large_table_is_found() {
    const SIZE: usize = 512;
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("large.db");
    let large = Connection::open(&path).expect("opened");
    large.pragma_update(None, "page_size", SIZE).expect("set");
    large.pragma_update(None, "auto_vacuum", "INCREMENTAL").expect("set");
    large.execute_batch("CREATE TABLE t (n INTEGER PRIMARY KEY, text TEXT)").expect("created");
    let fill =
        "INSERT INTO t WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 6000)
                SELECT n, 'the text of a row ' || n FROM c";
    large.execute_batch(fill).expect("filled");
    drop(large);
    let sound = std::fs::read(&path).expect("read");
    let leaves = Pages::open(&path, SIZE).expect("opened").leaves(3).leaves;
    assert!(leaves.len() > 200, "it is not large: {} leaves", leaves.len());
    assert_eq!(Pages::open(&path, SIZE).expect("opened").unsound(3), None);
    for leaf in leaves {
        let mut damaged = sound.clone();
        // The low byte of the leaf's cell count.
        damaged[(leaf.page as usize - 1) * SIZE + 4] ^= 1;
        std::fs::write(&path, damaged).expect("written");
        let pages = Pages::open(&path, SIZE).expect("opened");
        assert_eq!(pages.unsound(3), Some(leaf.page));
    }
    // The root names its first child a second time, so SQLite would read its rows twice, and never
    // those of the second child.
    let mut doubled = sound;
    let root = 2 * SIZE;
    let cell = |number: usize| {
        let pointer = root + 12 + 2 * number;
        root + usize::from(u16::from_be_bytes([doubled[pointer], doubled[pointer + 1]]))
    };
    let (first, second) = (cell(0), cell(1));
    doubled.copy_within(first..first + 4, second);
    std::fs::write(&path, doubled).expect("written");
    assert_eq!(Pages::open(&path, SIZE).expect("opened").unsound(3), Some(3));
}

#[test]
fn an_invalid_page_size_is_refused() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    for size in [0, 256, 1000, 131_072] {
        let refused = Pages::open(&dir.path().join("x.db"), size).map(drop).expect_err("refused");
        assert_eq!(refused.kind(), std::io::ErrorKind::InvalidInput, "{size}");
    }
}
