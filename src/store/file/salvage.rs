//! Takes out of a damaged store what can be read, into a new one.
//!
//! Every row is confirmed by its checksum before it is taken. A job whose attempts cannot be read
//! comes as dead, so that it is not delivered by mistake; what is missing is counted.

#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod settings;

use std::{
    collections::{HashMap, HashSet},
    fmt,
    path::Path,
};

use super::{
    index::Attempt,
    machine::{ErrorText, Write},
    pages::{Cell, Field, Pages},
    records::{AttemptRow, PoolRow, Records, attempt, state, text_checksum},
};
use crate::{
    job::{
        Backoff, Buckets, JobId, Millis, NewJob, OnConflict, Schedule, State, Topic, UnixMillis,
    },
    store::OpenError,
};

/// The first pages of the tables: a new file is always made in the same order.
pub const ROOTS: [(&str, u32); 6] =
    [("layout", 3), ("pool", 4), ("attempts", 5), ("topics", 6), ("aside", 8), ("tokens", 9)];
/// Writes of one transaction, about.
const BATCH: usize = 1000;
/// When a job whose attempts are lost goes by itself: never (the end of the year 9999).
const NEVER: UnixMillis = UnixMillis::new(253_402_300_799_999);

/// What was found.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Salvaged {
    /// Jobs that are in the new store, in the state they were in.
    pub jobs: u64,
    /// Jobs that are in the new store as dead, since their attempts cannot be read.
    pub uncertain: u64,
    /// Jobs that are known and cannot be read.
    pub damaged: u64,
    /// Pages whose jobs, if they had any, are not known.
    pub pages: u64,
    /// Access tokens that are known and cannot be read.
    pub tokens: u64,
}

impl fmt::Display for Salvaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { jobs, uncertain, damaged, pages, tokens } = self;
        if *tokens > 0 {
            write!(f, "{tokens} access tokens are damaged: create them anew before you serve; ")?;
        }
        write!(
            f,
            "{jobs} jobs can be read; {uncertain} more come as dead, since their attempts are \
             damaged; {damaged} are damaged, and {pages} damaged pages may have had others"
        )
    }
}

/// Reads the store's file `from` and makes `into`, which must not be there.
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
        what: file.display().to_string(),
        cause: cause.to_string(),
    };
    let pages = Pages::open(from).map_err(|cause| failed(from, &cause))?;
    let mut reader = Reader { pages, found: Salvaged::default() };
    // Without the layout any number of buckets will do: it decides where jobs are in memory only.
    let buckets = asked.or_else(|| reader.buckets());
    let (mut records, _) = Records::open(into, buckets)?;
    let mut writes = Vec::new();
    let mut take = |batch: &mut Vec<Write>| -> Result<(), OpenError> {
        let written = records.write(batch, true).map_err(|(_, cause)| cause);
        batch.clear();
        written.and_then(|()| records.commit()).map_err(|cause| failed(into, &cause))
    };
    reader.topics(&mut writes);
    reader.tokens(&mut writes);
    take(&mut writes)?;
    let aside = reader.aside();
    let attempts = reader.attempts();
    let (mut serials, mut ids) = (HashSet::new(), HashSet::new());
    let pool = reader.leaves("pool");
    for leaf in pool {
        for cell in reader.cells(leaf) {
            let Some(job) = reader.job(&cell) else { continue };
            let gone = aside.get(&cell.serial);
            if gone == Some(&true) || !serials.insert(cell.serial) || !ids.insert(job.id.clone()) {
                continue;
            }
            reader.add(&cell, job, &attempts, (gone.is_some(), now), &mut writes);
            if writes.len() >= BATCH {
                take(&mut writes)?;
            }
        }
    }
    take(&mut writes)?;
    // Until here the disk may have had no room for more than the log.
    records.empty_log().map_err(|cause| failed(into, &cause))?;
    Ok(reader.found)
}

/// What can be known of all attempts.
struct Attempts {
    rows: HashMap<i64, (Attempt, State, UnixMillis, Option<String>)>,
    /// Rows that are not what was written.
    damaged: Vec<(i64, Option<(AttemptRow, i64)>)>,
    gaps: Vec<(i64, i64)>,
}

struct Reader {
    pages: Pages,
    found: Salvaged,
}

struct Found {
    id: JobId,
    job: NewJob,
    created_at: UnixMillis,
    due_at: UnixMillis,
}

impl Reader {
    fn tree(&mut self, table: &str) -> super::pages::Leaves {
        let root = ROOTS.iter().find(|(name, _)| *name == table).map_or(0, |(_, root)| *root);
        let mut leaves = self.pages.leaves(root);
        for leaf in &leaves.pages {
            // A leaf whose cells cannot be found is a gap as well; its neighbours tell how wide.
            if self.pages.cells(*leaf).is_none_or(|(_, wrong)| wrong.is_none()) {
                leaves.gaps.push((i64::MIN, i64::MAX));
            }
        }
        leaves
    }

    fn leaves(&mut self, table: &str) -> Vec<u32> {
        let leaves = self.tree(table);
        self.found.pages += leaves.gaps.len() as u64;
        leaves.pages
    }

    fn cells(&mut self, leaf: u32) -> Vec<Cell> {
        let (cells, wrong) = self.pages.cells(leaf).unwrap_or_default();
        self.found.damaged += wrong.unwrap_or_default() as u64;
        cells
    }

    fn buckets(&mut self) -> Option<Buckets> {
        let leaves = self.pages.leaves(3).pages;
        let cells = leaves.iter().filter_map(|leaf| self.pages.cells(*leaf)).flat_map(|(c, _)| c);
        let texts: Vec<Cell> = cells.collect();
        texts.iter().find_map(|cell| match cell.fields()?.as_slice() {
            [Field::Bytes(text)] => {
                crate::store::Layout::agree(std::str::from_utf8(text).ok()?, None).ok()
            }
            _ => None,
        })
    }

    fn aside(&mut self) -> HashMap<i64, bool> {
        let mut aside = HashMap::new();
        for leaf in self.leaves("aside") {
            for cell in self.cells(leaf) {
                if let Some([_, Field::Number(gone)]) = cell.fields().as_deref() {
                    aside.insert(cell.serial, *gone != 0);
                }
            }
        }
        aside
    }

    fn attempts(&mut self) -> Attempts {
        let leaves = self.tree("attempts");
        let mut all = Attempts { rows: HashMap::new(), damaged: Vec::new(), gaps: leaves.gaps };
        // A leaf of which cells are lost may have had all between its neighbours.
        let (mut last, mut open) = (i64::MIN, None);
        for leaf in leaves.pages {
            let (cells, wrong) = self.pages.cells(leaf).unwrap_or_default();
            let serials = || cells.iter().map(|cell| cell.serial);
            if let (Some(low), Some(first)) = (open, serials().min()) {
                all.gaps.push((low, first));
                open = None;
            }
            if wrong != Some(0) {
                open = open.or(Some(last));
            }
            last = serials().max().unwrap_or(last);
            for cell in cells {
                match attempt_row(&cell) {
                    Some((row, checksum, error)) if row.checksum() == checksum => {
                        match attempt(&row) {
                            Some((state, at, attempt)) => {
                                all.rows.insert(row.serial, (attempt, state, at, error));
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
        all.gaps.extend(open.map(|low| (low, i64::MAX)));
        all
    }

    /// A job as it was put.
    fn job(&mut self, cell: &Cell) -> Option<Found> {
        let found = pool_row(cell);
        if found.is_none() {
            self.found.damaged += 1;
            tracing::error!(serial = cell.serial, "left a damaged job out");
        }
        found
    }

    fn add(
        &mut self,
        cell: &Cell,
        found: Found,
        attempts: &Attempts,
        (aside, now): (bool, UnixMillis),
        writes: &mut Vec<Write>,
    ) {
        let serial = cell.serial.cast_unsigned();
        let Found { job, created_at, due_at, .. } = found;
        let ttr = job.ttr;
        writes.push(Write::Insert { serial, job, created_at, due_at });
        let own = attempts.rows.get(&cell.serial).cloned().or_else(|| {
            // Perhaps it is only the number of its row that is damaged.
            attempts.damaged.iter().find_map(|(_, row)| {
                let (row, checksum) = row.as_ref()?;
                let own = AttemptRow { serial: cell.serial, ..*row };
                let (state, at, attempt) = attempt(&own).filter(|_| own.checksum() == *checksum)?;
                Some((attempt, state, at, None))
            })
        });
        let damaged = || attempts.damaged.iter().any(|(number, _)| *number == cell.serial);
        let in_gap =
            || attempts.gaps.iter().any(|(low, high)| *low < cell.serial && cell.serial <= *high);
        // What is not due yet was never popped.
        let uncertain = aside || own.is_none() && (damaged() || due_at <= now && in_gap());
        let (attempt, state, at, error) = match own {
            Some(own) if !aside => own,
            _ if !uncertain => {
                self.found.jobs += 1;
                return;
            }
            _ => {
                self.found.uncertain += 1;
                let attempt = Attempt {
                    number: 1,
                    reservation: None,
                    due_at,
                    died_at: now,
                    ttr,
                    expired: false,
                };
                let error = "what its attempts had left was damaged".to_owned();
                writes.push(Write::Attempt {
                    serial,
                    state: State::Dead,
                    at: NEVER,
                    attempt,
                    error: ErrorText::Set(Some(error)),
                });
                return;
            }
        };
        self.found.jobs += 1;
        writes.push(Write::Attempt { serial, state, at, attempt, error: ErrorText::Set(error) });
    }
}

fn text<'a>(field: &Field<'a>) -> Option<&'a str> {
    match field {
        Field::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
        _ => None,
    }
}

fn number(field: &Field<'_>) -> Option<i64> {
    match field {
        Field::Number(number) => Some(*number),
        _ => None,
    }
}

fn maybe<T>(field: &Field<'_>, read: impl FnOnce() -> Option<T>) -> Option<Option<T>> {
    match field {
        Field::Null => Some(None),
        _ => read().map(Some),
    }
}

fn millis(number: i64) -> Option<u64> {
    u64::try_from(number).ok()
}

fn pool_row(cell: &Cell) -> Option<Found> {
    let fields = cell.fields()?;
    let [_, id, topic, created_at, due_at, ttr, most, backoff, kept, trace, body_sum, sum, body] =
        fields.as_slice()
    else {
        return None;
    };
    let row = PoolRow {
        serial: cell.serial,
        id: text(id)?,
        topic: text(topic)?,
        created_at: number(created_at)?,
        due_at: number(due_at)?,
        ttr: number(ttr)?,
        max_attempts: number(most)?,
        backoff: maybe(backoff, || text(backoff))?,
        dead_retention: number(kept)?,
        traceparent: maybe(trace, || text(trace))?,
        body_checksum: number(body_sum)?,
    };
    let Field::Bytes(body) = body else { return None };
    let sound = row.checksum(&mut Vec::new()) == number(sum)?
        && i64::from(crc32fast::hash(body)) == row.body_checksum;
    if !sound || row.serial <= 0 {
        return None;
    }
    let (id, topic): (JobId, Topic) = (row.id.parse().ok()?, row.topic.parse().ok()?);
    let due_at = UnixMillis::new(millis(row.due_at)?);
    let job = NewJob {
        id: id.clone(),
        topic,
        body: bytes::Bytes::copy_from_slice(body),
        schedule: Schedule::At(due_at),
        ttr: Millis::new(millis(row.ttr)?),
        max_attempts: u32::try_from(row.max_attempts).ok()?,
        backoff: row.backoff.map(str::parse::<Backoff>).transpose().ok()?,
        dead_retention: Millis::new(millis(row.dead_retention)?),
        traceparent: row.traceparent.map(str::parse).transpose().ok()?,
        on_conflict: OnConflict::Reject,
    };
    let created_at = UnixMillis::new(millis(row.created_at)?);
    Some(Found { id, job, created_at, due_at })
}

fn attempt_row(cell: &Cell) -> Option<(AttemptRow, i64, Option<String>)> {
    let fields = cell.fields()?;
    let [_, name, at, count, reservation, due_at, died_at, ttr, sum, error, error_sum] =
        fields.as_slice()
    else {
        return None;
    };
    let row = AttemptRow {
        serial: cell.serial,
        state: state(text(name)?)?,
        at: number(at)?,
        number: number(count)?,
        reservation: maybe(reservation, || number(reservation))?,
        due_at: number(due_at)?,
        died_at: number(died_at)?,
        ttr: number(ttr)?,
    };
    let error = maybe(error, || text(error))?;
    let sound = number(error_sum)? == text_checksum(error);
    let error = if sound { error.map(str::to_owned) } else { Some("(damaged)".to_owned()) };
    Some((row, number(sum)?, error))
}
