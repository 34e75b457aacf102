//! Tests on files written by SQLite, and on random bytes.

use std::{fs, sync::LazyLock};

use proptest::prelude::*;
use rusqlite::Connection;

use super::*;

const PAGE: usize = 4096;

/// Creates a file with one table, whose root is page 3.
fn file(rows: i64, bytes: usize) -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("x.db");
    let file = Connection::open(&path).expect("opened");
    file.pragma_update(None, "auto_vacuum", "INCREMENTAL").expect("set");
    file.execute_batch("CREATE TABLE t (n INTEGER PRIMARY KEY, text TEXT, number INTEGER)")
        .expect("created");
    file.execute_batch("BEGIN").expect("begun");
    for n in 1..=rows {
        let text = format!("{n}:{}", "x".repeat(bytes));
        file.execute("INSERT INTO t VALUES (?, ?, ?)", (n, text, -n)).expect("inserted");
    }
    file.execute_batch("COMMIT").expect("committed");
    drop(file);
    (dir, path)
}

fn rows(path: &Path) -> (Vec<i64>, usize) {
    let mut pages = Pages::open(path, PAGE).expect("opened");
    let leaves = pages.leaves(3);
    let found = leaves.leaves.iter().filter_map(|leaf| pages.cells(leaf.page));
    let cells: Vec<Cell> = found.flat_map(|found| found.cells).collect();
    for cell in &cells {
        if let Some([Field::Null, Field::Bytes(text), Field::Number(number)]) =
            cell.fields().as_deref()
        {
            assert!(text.starts_with(format!("{}:", cell.serial).as_bytes()));
            assert_eq!(*number, -cell.serial);
        }
    }
    (cells.iter().map(|cell| cell.serial).collect(), leaves.gaps.len())
}

#[test]
fn every_row_is_found_whatever_its_length() {
    for (count, bytes) in [(0, 0), (1, 1), (500, 10), (500, 900), (60, 4_058), (30, 20_000)] {
        let (_dir, path) = file(count, bytes);
        assert_eq!(rows(&path), ((1..=count).collect(), 0), "{count} rows of {bytes} bytes");
        let pages = Pages::open(&path, PAGE).expect("opened");
        for number in 1..=pages.count {
            if let Some(Cells { cells, unreadable }) = pages.cells(number).filter(|found| {
                !found.cells.is_empty() && pages.page(number).is_some_and(|page| page[0] == LEAF)
            }) {
                assert!(
                    number == 1 || unreadable == Some(0),
                    "page {number}: {unreadable:?} {}",
                    cells.len()
                );
            }
        }
    }
}

#[test]
fn a_circular_overflow_chain_reads_no_more_than_the_file() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("x.db");
    let mut bytes = vec![0; 3 * PAGE];
    let (leaf, cell) = (PAGE, 1000);
    bytes[leaf] = LEAF;
    bytes[leaf + 4] = 1;
    bytes[leaf + 8..leaf + 10].copy_from_slice(&1000_u16.to_be_bytes());
    // Length half a gigabyte, rowid 1, and an overflow page that names itself as the next one.
    bytes[leaf + cell..leaf + cell + 6].copy_from_slice(&[0x82, 0x80, 0x80, 0x80, 0x00, 1]);
    let next = leaf + cell + 6 + local_part(PAGE, 1 << 29);
    bytes[next..next + 4].copy_from_slice(&3_u32.to_be_bytes());
    bytes[2 * PAGE..2 * PAGE + 4].copy_from_slice(&3_u32.to_be_bytes());
    fs::write(&path, &bytes).expect("written");
    let Cells { cells, unreadable } =
        Pages::open(&path, PAGE).expect("opened").cells(2).expect("a leaf");
    let longest = cells.iter().map(|cell| cell.payload.len()).max().unwrap_or_default();
    assert!(longest <= bytes.len(), "{longest} bytes");
    assert_eq!((cells.len(), unreadable), (0, Some(1)), "the cell counts as unreadable");
}

/// Asserts that all 2,000 rows of a file with an interior root page are found, whichever of these
/// changes is made.
fn assert_all_rows_after(changes: impl Fn(&[u8]) -> Vec<(usize, Vec<u8>)>) {
    let (_dir, path) = file(2_000, 100);
    let sound = fs::read(&path).expect("the file");
    assert_eq!(sound[ROOT], INTERIOR);
    for (at, new) in changes(&sound) {
        let mut bytes = sound.clone();
        bytes[at..at + new.len()].copy_from_slice(&new);
        fs::write(&path, &bytes).expect("written");
        let (mut found, _) = rows(&path);
        found.sort_unstable();
        assert_eq!(
            found,
            (1..=2_000).collect::<Vec<_>>(),
            "at {at}: {:?}",
            &new[..new.len().min(4)]
        );
    }
}

/// Offset of the table's root page.
const ROOT: usize = 2 * PAGE;

#[test]
fn a_damaged_interior_page_loses_no_row() {
    assert_all_rows_after(|sound| {
        let root = &sound[ROOT..ROOT + PAGE];
        let [first, second] = [u16_at(root, 12), u16_at(root, 14)];
        let mut changes: Vec<(usize, Vec<u8>)> =
            [0, 3, 8, 13, 40].map(|at| (ROOT + at, vec![0x77])).into();
        changes.push((ROOT, vec![LEAF]));
        // The page names a child twice, or its cell count is one too low.
        changes.push((ROOT + first, root[second..second + 4].to_vec()));
        changes.push((ROOT + 4, vec![root[4] - 1]));
        changes
    });
}

#[test]
fn a_damaged_pointer_map_loses_no_row() {
    assert_all_rows_after(|sound| {
        let last_child = u32_be(&sound[ROOT + 8..]) as usize;
        let entry = PAGE + (last_child - 3) * 5;
        vec![
            (entry, vec![2]),
            (entry + 4, vec![0x77]),
            (PAGE, vec![0; PAGE]),
            (PAGE, vec![0xff; PAGE]),
        ]
    });
}

#[test]
fn a_leaf_with_a_row_twice_is_inconsistent() {
    let (_dir, path) = file(500, 10);
    let leaf = Pages::open(&path, PAGE).expect("opened").leaves(3).leaves[2].page;
    let mut bytes = fs::read(&path).expect("the file");
    let pointers = (leaf as usize - 1) * PAGE + 8;
    bytes.copy_within(pointers + 2..pointers + 4, pointers);
    fs::write(&path, &bytes).expect("written");
    let Cells { cells, unreadable } =
        Pages::open(&path, PAGE).expect("opened").cells(leaf).expect("a leaf");
    assert_eq!((cells[0].serial, unreadable), (cells[1].serial, None));
}

#[test]
fn rows_beyond_the_count_of_a_leaf_are_old() {
    let (_dir, path) = file(40, 10);
    let file = Connection::open(&path).expect("opened");
    file.execute("DELETE FROM t WHERE n > 30", ()).expect("deleted");
    drop(file);
    let sound = fs::read(&path).expect("the file");
    assert_eq!(sound[ROOT + 3..ROOT + 5], [0, 30]);
    for stored_count in [20, 30, 40, 255] {
        let mut bytes = sound.clone();
        bytes[ROOT + 4] = stored_count;
        fs::write(&path, &bytes).expect("written");
        let Cells { cells, unreadable } =
            Pages::open(&path, PAGE).expect("opened").cells(3).expect("a leaf");
        assert_eq!(unreadable, Some(0));
        let is_row = |cell: &&Cell| cell.fields().is_some_and(|fields| fields.len() == 3);
        let (old, now): (Vec<&Cell>, Vec<&Cell>) =
            cells.iter().filter(is_row).partition(|cell| cell.may_be_old);
        let last = stored_count.min(30).into();
        assert_eq!(
            now.iter().map(|cell| cell.serial).collect::<Vec<_>>(),
            (1..=last).collect::<Vec<_>>()
        );
        assert!(
            stored_count > 30 || old.len() == usize::from(30 - stored_count),
            "{stored_count}: {}",
            old.len()
        );
        assert!(stored_count != 40 || old.iter().any(|cell| cell.serial > 30), "{old:?}");
    }
}

#[test]
fn a_damaged_leaf_is_a_gap_with_its_rowids() {
    let (_dir, path) = file(2_000, 100);
    let mut bytes = fs::read(&path).expect("the file");
    let at = bytes.windows(6).position(|part| part == b"1000:x").expect("a row");
    let page = at / PAGE * PAGE;
    bytes[page..page + PAGE].fill(0xff);
    fs::write(&path, &bytes).expect("written");
    let mut pages = Pages::open(&path, PAGE).expect("opened");
    let leaves = pages.leaves(3).leaves.into_iter();
    let gaps: Vec<Range> = leaves
        .filter(|leaf| pages.cells(leaf.page).is_none_or(|found| found.unreadable != Some(0)))
        .map(|leaf| leaf.range)
        .collect();
    assert!(matches!(gaps[..], [(low, high)] if low < 1000 && 1000 <= high && high - low < 50));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_bytes_cause_a_panic(
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
        cut in any::<prop::sample::Index>(),
        noise in any::<bool>(),
    ) {
        static WHOLE: LazyLock<Vec<u8>> =
            LazyLock::new(|| {
                let (_dir, path) = file(300, 700);
                fs::read(path).expect("the file")
            });
        let (dir, mut bytes) = (tempfile::tempdir().expect("a temporary folder"), WHOLE.clone());
        let path = dir.path().join("x.db");
        if noise {
            bytes.truncate(cut.index(bytes.len()));
        }
        for (place, byte) in flips {
            if !bytes.is_empty() {
                let place = place.index(bytes.len());
                bytes[place] = byte;
            }
        }
        fs::write(&path, &bytes).expect("written");
        let mut pages = Pages::open(&path, PAGE).expect("opened");
        for root in 0..8 {
            for leaf in pages.leaves(root).leaves {
                for cell in pages.cells(leaf.page).into_iter().flat_map(|found| found.cells) {
                    let _ = cell.fields();
                }
            }
        }
    }

    #[test]
    fn no_page_causes_a_panic(page in proptest::collection::vec(any::<u8>(), PAGE), kind in 0..3_usize) {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("x.db");
        let mut bytes = [page.clone(), page.clone(), page].concat();
        bytes[2 * PAGE] = [INTERIOR, LEAF, 0][kind];
        fs::write(&path, bytes).expect("written");
        let mut pages = Pages::open(&path, PAGE).expect("opened");
        let leaves = pages.leaves(3);
        for leaf in leaves.leaves {
            for cell in pages.cells(leaf.page).into_iter().flat_map(|found| found.cells) {
                let _ = cell.fields();
            }
        }
    }
}
