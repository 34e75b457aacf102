//! An undamaged file of the file store, and the contents of each of its pages.

use std::{
    collections::{HashMap, HashSet},
    fs,
};

use bytes::Bytes;
use sqlite_salvage::{Cell, Leaf, Pages};

use crate::{
    job::{
        Millis, NewJob, Outcome, Pause, Policy, Schedule, Setting, SettingKind, State, Topic,
        UnixMillis,
    },
    store::{
        TokenChange,
        file::{
            index::Attempt,
            machine::{ErrorText, Fate, HistoryChange, Write},
            records::{Records, change_of},
            salvage::{PAGE, root, rows::text},
        },
    },
};

pub const JOBS: u64 = 300;
/// Number of additional jobs that were deleted. Their rows remain in the free space of pages.
const DELETED: u64 = 20;
/// The number of a quarantined job.
pub const QUARANTINED: u64 = 7;
/// The number of a quarantined job that was also finished or deleted.
pub const QUARANTINED_GONE: u64 = 9;
/// Number of topics with settings, and of tokens.
const NAMES: u64 = 40;

pub struct Sound {
    pub dir: tempfile::TempDir,
    pub bytes: Vec<u8>,
    pub pauses: Vec<Write>,
    pub defaults: Vec<Write>,
    pub tokens: Vec<Write>,
    /// Jobs in each leaf of `pool`.
    pub jobs_by_leaf: HashMap<usize, HashSet<u64>>,
    /// The leaves of `attempts`, with the rowids that they may have.
    pub attempts_by_leaf: HashMap<usize, Leaf>,
    /// Topics in each leaf of `topics`, as indexes of `pauses` and `defaults`.
    pub topics_by_leaf: HashMap<usize, HashSet<u64>>,
    /// Tokens in each leaf of `tokens`, as indexes of `tokens`.
    pub tokens_by_leaf: HashMap<usize, HashSet<u64>>,
}

impl Sound {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("jobs.db");
        let (mut records, _) = Records::open(&path, None).expect("a new file");
        let (mut pauses, mut defaults, mut tokens) = (Vec::new(), Vec::new(), Vec::new());
        let mut writes: Vec<Write> = (1..=JOBS + DELETED).map(insert).collect();
        writes.extend((1..=JOBS + DELETED).filter(|serial| is_popped(*serial)).map(pop));
        writes.extend((JOBS + 1..=JOBS + DELETED).map(|serial| Write::Delete { serial }));
        writes.push(Write::Quarantine { serial: QUARANTINED, fate: Fate::Dead });
        writes.push(Write::Quarantine { serial: QUARANTINED_GONE, fate: Fate::Gone });
        for number in 0..NAMES {
            pauses.push(pause(number));
            defaults.push(defaults_of(number));
            tokens.push(token(number));
            // A second write of the same topic would leave an old version of its row in the page.
            writes.extend([if has_pause(number) { pause(number) } else { defaults_of(number) }]);
            writes.push(token(number));
        }
        records.write(&writes, true).map_err(|(_, cause)| cause).expect("written");
        records.commit().expect("committed");
        records.empty_log().expect("checkpointed");
        drop(records);
        let bytes = fs::read(&path).expect("the file");
        let mut pages = Pages::open(&path, PAGE).expect("opened");
        let mut leaves = |table| {
            let leaves = pages.leaves(root(table)).leaves;
            assert!(leaves.len() > 1, "{table} has one leaf");
            let cells = |leaf: Leaf| (leaf, pages.cells(leaf.page).expect("its rows").cells);
            leaves.into_iter().map(cells).collect::<Vec<(Leaf, Vec<Cell>)>>()
        };
        let by_page = |leaves: Vec<(Leaf, Vec<Cell>)>, number: fn(&Cell) -> u64| {
            let numbers = |(leaf, cells): &(Leaf, Vec<Cell>)| {
                (leaf.page as usize, cells.iter().map(number).collect())
            };
            leaves.iter().map(numbers).collect()
        };
        Self {
            jobs_by_leaf: by_page(leaves("pool"), |cell| cell.serial.cast_unsigned()),
            attempts_by_leaf: leaves("attempts")
                .iter()
                .map(|(l, _)| (l.page as usize, *l))
                .collect(),
            topics_by_leaf: by_page(leaves("topics"), number_in_name),
            tokens_by_leaf: by_page(leaves("tokens"), number_in_name),
            dir,
            bytes,
            pauses,
            defaults,
            tokens,
        }
    }

    /// Returns whether the pointer map marks a page as the overflow of a row.
    pub fn is_overflow(&self, page: usize) -> bool {
        page > 2 && [3, 4].contains(&self.bytes[PAGE + (page - 3) * 5])
    }
}

/// Returns the number at the end of a row's name, which is its first column.
fn number_in_name(cell: &Cell) -> u64 {
    let fields = cell.fields().expect("its fields");
    let name = text(&fields[0]).expect("a name");
    name.rsplit('-').next().and_then(|number| number.parse().ok()).expect("a number")
}

pub fn is_popped(serial: u64) -> bool {
    serial % 3 == 1
}

/// Returns whether a job is finished; such a job was popped.
pub fn is_finished(serial: u64) -> bool {
    serial % 12 == 4
}

fn body(serial: u64) -> Bytes {
    let length = if serial.is_multiple_of(50) { 3000 } else { 20 };
    let json = Bytes::from(format!("\"{}\"", serial.to_string().repeat(length)));
    match is_finished(serial) {
        true => change_of(Outcome::Finished, Some(&json), None).body.expect("an ending"),
        false => json,
    }
}

fn topic(number: u64) -> Topic {
    format!("topic-{number}").parse().expect("a topic")
}

pub fn insert(serial: u64) -> Write {
    let due_at = UnixMillis::new(1_800_000_000_000 + serial);
    let job = NewJob {
        schedule: Schedule::At(due_at),
        policy: Policy {
            ttr: Millis::new(60_000),
            max_attempts: 20,
            dead_retention: Millis::new(1_000),
            ..Policy::STANDARD
        },
        ..NewJob::new(
            format!("job:{serial}").parse().expect("an id"),
            topic(serial % NAMES),
            body(serial),
        )
    };
    Write::Insert { serial, job, created_at: due_at, due_at }
}

pub fn pop(serial: u64) -> Write {
    let at = UnixMillis::new(1_800_000_060_000 + serial);
    let ttr = Millis::new(60_000);
    let attempt = Attempt { number: 1, was_kicked: true, ..Attempt::none(at, ttr) };
    let (state, error) = match is_finished(serial) {
        true => (State::Finished, None),
        false => (State::Reserved, Some("ttr ended".to_owned())),
    };
    let (error, history) = (ErrorText::Set(error), HistoryChange::default());
    Write::Attempt { serial, state, at, attempt, error, history }
}

fn has_pause(number: u64) -> bool {
    number % 3 == 1
}

fn pause(number: u64) -> Write {
    let until = Some(UnixMillis::new(1_900_000_000_000 + number));
    let pause = if number.is_multiple_of(2) { Pause::OPEN } else { Pause { until } };
    Write::Setting(Setting::pause(topic(number), has_pause(number).then_some(pause)))
}

/// Returns defaults as JSON. The defaults of the first topic take several pages.
fn defaults_of(number: u64) -> Write {
    let length = if number == 0 { 6_000 } else { 200 };
    let text = format!("{{\"ttr\":{number:0>length$}}}");
    let text = (!has_pause(number)).then_some(text);
    Write::Setting(Setting { topic: topic(number), kind: SettingKind::Defaults, text })
}

fn token(number: u64) -> Write {
    let length = if number == 0 { 6_000 } else { 200 };
    let text = format!("{{\"digest\":\"{number:0>length$}\"}}");
    Write::Token(TokenChange::Create { name: format!("token-{number}"), text, is_admin: true })
}
