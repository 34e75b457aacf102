//! Copies the readable rows of a damaged store into a new one.
//!
//! A checksum confirms every row. A job whose attempts cannot be read, or which may have been
//! deleted, is added as dead, or as finished if any readable data shows that it is. So such a job
//! is not delivered by mistake. Lost rows are counted.

mod add;
#[cfg(any(test, fuzzing))]
#[path = "../../../fuzz/inside/file_pages.rs"]
pub mod fuzzing;
mod rows;
mod settings;

use std::{
    collections::{HashMap, HashSet},
    fmt, mem,
    path::Path,
};

use sqlite_salvage::{Cell, Cells, Field, Leaf, Pages, Range};

use super::{
    index::Attempt,
    machine::{Fate, Write},
    records::{AttemptRow, Records, attempt, fate, read_reservation_key},
};
use crate::{
    job::{Buckets, History, ReservationKey, State, UnixMillis},
    store::OpenError,
};
use add::Doubt;
use rows::{Found, attempt_row, pool_row};
use settings::LOST_TOKENS;

/// Root pages of the tables. They never differ, because tables are always created in the same
/// order.
pub const ROOTS: [(&str, u32); 6] =
    [("layout", 3), ("pool", 4), ("attempts", 5), ("topics", 6), ("aside", 8), ("tokens", 9)];
/// Size of a page in bytes. It is not read from the file, since the first page may be damaged.
pub const PAGE: usize = 4096;
/// Approximate number of writes in one transaction.
const BATCH: usize = 1000;

/// Counts of salvaged and of lost rows.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Salvaged {
    /// Jobs in the new store with their former state.
    pub jobs: u64,
    /// Jobs in the new store as dead or finished, because their attempts cannot be read, or because
    /// they may have been deleted.
    pub uncertain: u64,
    /// Jobs whose rows were found and cannot be read.
    pub damaged: u64,
    /// Unreadable pages that may have had jobs.
    pub pages: u64,
    /// Unreadable topic settings and schedules, and unreadable pages that may have contained some.
    pub topics: u64,
    /// Unreadable access tokens, and unreadable pages that may have contained some.
    pub tokens: u64,
    /// Whether no token could be read, although the store may have had tokens.
    pub are_all_tokens_lost: bool,
}

impl fmt::Display for Salvaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { jobs, uncertain, damaged, pages, topics, tokens, are_all_tokens_lost } = self;
        if *are_all_tokens_lost {
            write!(
                f,
                "all access tokens, or pages of them, are damaged: the server refuses every \
                 request until you create tokens and revoke the token `{LOST_TOKENS}`; "
            )?;
        } else if *tokens > 0 {
            write!(
                f,
                "{tokens} access tokens, or pages of them, are damaged: create those that are \
                 missing anew before you serve; "
            )?;
        }
        if *topics > 0 {
            write!(
                f,
                "{topics} settings of topics or schedules, or pages of them, are damaged: see which \
                 topics are no longer paused or without their defaults, and which schedules are \
                 missing; "
            )?;
        }
        write!(
            f,
            "{jobs} jobs can be read; {uncertain} more come as dead or finished, since their \
             attempts are damaged; {damaged} are damaged, and {pages} damaged pages may have had others"
        )
    }
}

/// Reads the store's file `from` and creates the file `into`, which must not exist.
///
/// # Errors
/// `from` cannot be opened at all, or `into` cannot be written.
pub fn salvage(
    from: &Path,
    into: &Path,
    asked: Option<Buckets>,
    now: UnixMillis,
) -> Result<Salvaged, OpenError> {
    let failed = |file: &Path, cause: &dyn fmt::Display| OpenError::Engine {
        subject: file.display().to_string(),
        cause: cause.to_string(),
    };
    let pages = Pages::open(from, PAGE).map_err(|cause| failed(from, &cause))?;
    let mut reader = Reader { pages, found: Salvaged::default() };
    // Without the layout, any number of buckets works, because it affects only memory.
    let buckets = asked.or_else(|| reader.buckets());
    let (mut records, _) = Records::open(into, buckets)?;
    if let Some(key) = reader.reservation_key() {
        records.keep_reservation_key(&key).map_err(|cause| failed(into, &cause))?;
    }
    reader.read(now, |writes| {
        let written = records.write(writes, true).map_err(|(_, cause)| cause);
        written.and_then(|()| records.commit()).map_err(|cause| failed(into, &cause))
    })?;
    // Fails if the disk has no room for the file. Until now, the data may be in the log alone.
    records.empty_log().map_err(|cause| failed(into, &cause))?;
    Ok(reader.found)
}

/// An attempt with its state, its deadline, its error and the job's history.
type Popped = (Attempt, State, UnixMillis, (Option<String>, History));

/// All rows of `attempts`.
struct Attempts {
    rows: HashMap<i64, Popped>,
    /// Damaged rows: serial number, and the row with its checksum if it has the form of one.
    damaged: Vec<(i64, Option<(AttemptRow, i64)>)>,
    /// Ranges of serial numbers in which rows may be unreadable.
    gaps: Vec<Range>,
}

struct Reader {
    pages: Pages,
    found: Salvaged,
}

impl Reader {
    /// Passes all readable rows to `take`, about [`BATCH`] writes at a time.
    fn read<E>(
        &mut self,
        now: UnixMillis,
        mut take: impl FnMut(&mut Vec<Write>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut writes = Vec::new();
        self.topics(&mut writes);
        self.tokens(&mut writes);
        take(&mut writes)?;
        writes.clear();
        let quarantined = self.quarantined();
        let attempts = self.attempts();
        let (mut serials, mut ids) = (HashSet::new(), HashSet::new());
        let pool = self.pages.leaves(root("pool"));
        self.found.pages += pool.gaps.len() as u64;
        let mut old = Vec::new();
        // Rows that may be old come last, so that they do not replace current rows.
        for leaf in pool.leaves.into_iter().map(Some).chain([None]) {
            let cells = leaf.map_or_else(|| mem::take(&mut old), |leaf| self.cells(leaf));
            for cell in cells {
                if cell.may_be_old && leaf.is_some() {
                    old.push(cell);
                    continue;
                }
                let Some(job) = self.job(&cell) else { continue };
                let fate = quarantined.get(&cell.serial).copied();
                if fate == Some(Fate::Gone)
                    || !serials.insert(cell.serial)
                    || !ids.insert(job.id.clone())
                {
                    continue;
                }
                let is_unsure = fate.is_some() || cell.may_be_old;
                let is_finished = fate == Some(Fate::Finished);
                let doubt = Doubt { is_unsure, is_finished, now };
                self.add(&cell, job, &attempts, doubt, &mut writes);
            }
            if writes.len() >= BATCH {
                take(&mut writes)?;
                writes.clear();
            }
        }
        take(&mut writes)
    }

    /// Reads the rows of a leaf of `pool`; counts the unreadable ones.
    fn cells(&mut self, leaf: Leaf) -> Vec<Cell> {
        let found = self.pages.cells(leaf.page);
        match found.as_ref().and_then(|found| found.unreadable) {
            Some(unreadable) => self.found.damaged += unreadable as u64,
            None => self.found.pages += 1,
        }
        found.map(|found| found.cells).unwrap_or_default()
    }

    /// Reads all rows of a small table; returns them and the number of unreadable rows and pages.
    fn rows(&mut self, table: &str) -> (Vec<Cell>, u64) {
        let found = self.pages.leaves(root(table));
        let (mut rows, mut lost) = (Vec::new(), found.gaps.len());
        for leaf in found.leaves {
            let Some(Cells { cells, unreadable }) = self.pages.cells(leaf.page) else {
                lost += 1;
                continue;
            };
            let has_old = cells.iter().any(|cell| cell.may_be_old);
            lost += unreadable.unwrap_or(1).max(usize::from(has_old));
            rows.extend(cells.into_iter().filter(|cell| !cell.may_be_old));
        }
        (rows, lost as u64)
    }

    fn buckets(&mut self) -> Option<Buckets> {
        self.layout(|text| crate::store::Layout::agree(text, None).ok())
    }

    fn reservation_key(&mut self) -> Option<ReservationKey> {
        self.layout(read_reservation_key)
    }

    /// Returns the first result of `read` for a text of the layout.
    fn layout<T>(&mut self, read: impl Fn(&str) -> Option<T>) -> Option<T> {
        let (texts, _) = self.rows("layout");
        texts.iter().find_map(|cell| match cell.fields()?.as_slice() {
            [Field::Bytes(text)] => read(std::str::from_utf8(text).ok()?),
            _ => None,
        })
    }

    fn quarantined(&mut self) -> HashMap<i64, Fate> {
        let mut quarantined = HashMap::new();
        for cell in self.rows("aside").0 {
            if let Some([_, Field::Number(number)]) = cell.fields().as_deref() {
                quarantined.insert(cell.serial, fate(*number));
            }
        }
        quarantined
    }

    fn attempts(&mut self) -> Attempts {
        let found = self.pages.leaves(root("attempts"));
        let mut all = Attempts { rows: HashMap::new(), damaged: Vec::new(), gaps: found.gaps };
        for leaf in found.leaves {
            let found = self.pages.cells(leaf.page);
            if found.as_ref().and_then(|found| found.unreadable) != Some(0) {
                all.gaps.push(leaf.range);
            }
            for cell in found.into_iter().flat_map(|found| found.cells) {
                match attempt_row(&cell) {
                    Some((row, checksum, _)) if cell.may_be_old => {
                        let is_row = row.checksum() == checksum;
                        all.damaged.extend(is_row.then_some((row.serial, None)));
                    }
                    None if cell.may_be_old => {}
                    Some((row, checksum, past)) if row.checksum() == checksum => {
                        match attempt(&row) {
                            Some((state, at, attempt)) => {
                                all.rows.insert(row.serial, (attempt, state, at, past));
                            }
                            None => all.damaged.push((row.serial, None)),
                        }
                    }
                    Some((row, checksum, _)) => {
                        all.damaged.push((row.serial, Some((row, checksum))))
                    }
                    None => all.damaged.push((cell.serial, None)),
                }
            }
        }
        all
    }

    /// Reads a job from its row in `pool`; counts a damaged one.
    fn job(&mut self, cell: &Cell) -> Option<Found> {
        let found = pool_row(cell);
        if found.is_none() && !cell.may_be_old {
            self.found.damaged += 1;
            tracing::error!(serial = cell.serial, "left a damaged job out");
        }
        found
    }
}

fn root(table: &str) -> u32 {
    ROOTS.iter().find(|(name, _)| *name == table).map_or(0, |(_, root)| *root)
}
