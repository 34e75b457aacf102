//! Files of the fixed workload, with the log torn at every offset or one bit of any byte flipped.
//! Only interrupted commits may be lost without a report, and no job may differ from the model's in
//! body or time. Each run tries one of [`STRIDE`] cases, with a varying first case. With `EVERY=1`,
//! it tries all.

use crate::store::prelude::*;
use crate::{
    store::workload::{Random, ballast, folder, on_all_cores, open, steps},
    support::file_log::{FRAME, HEADER, written},
};

/// How many commits at the end of the log are torn.
const COMMITS: usize = 3;
/// Distance between the tried cases. It is a prime, so that runs reach all offsets of a page and
/// all outcomes.
const STRIDE: usize = 17;
/// The bytes of a frame that show whether it ends a commit.
const COMMIT_FIELD: std::ops::Range<usize> = 4..8;

/// Returns the numbers of the cases to try, out of `count`.
fn case_numbers(count: usize) -> Vec<usize> {
    match std::env::var_os("EVERY") {
        Some(_) => (0..count).collect(),
        None => (std::process::id() as usize % STRIDE..count).step_by(STRIDE).collect(),
    }
}

/// Contents of a store and the number of unreadable rows and pages, or the error message.
type Contents = Result<(Found, u64), String>;

/// Files of a store after the workload, copied before the store was closed, and their expected
/// contents.
struct Files {
    database: Vec<u8>,
    log: Vec<u8>,
    /// Length of the log after each step since the store was last opened, and the number of steps
    /// by then. The store has checkpointed nothing since.
    ends: Vec<(usize, usize)>,
    worlds: Vec<World>,
    given: Vec<(JobId, Reservation)>,
}

impl Files {
    async fn new() -> Self {
        loop {
            // Repeats on a slow machine, where the writer may checkpoint the log a second after its
            // start.
            if let Some(files) = Self::create().await {
                return files;
            }
        }
    }

    async fn create() -> Option<Self> {
        let dir = new_folder();
        let (steps, worlds) = (steps(), World::all(&steps()));
        let mut tested = StoreUnderTest::new(Bench::file_in(dir.path().to_owned()).await);
        let database = || fs::read(dir.path().join("jobs.db")).expect("the database");
        let log = || written(&dir.path().join("jobs.db-wal"));
        let (mut ends, mut opened) = (Vec::new(), Vec::new());
        for (number, step) in steps.iter().enumerate() {
            run_step(&mut tested, number as u64, step).await;
            if let Step::Reopen = step {
                (ends, opened) = (Vec::new(), database());
            }
            ends.push((log().len(), number + 1));
        }
        let (database, log, given) = (database(), log(), tested.given);
        tested.bench.store.close().await;
        let grows = ends.is_sorted_by_key(|(length, _)| *length);
        // The database file grows by zeros before its log does.
        let (kept, grown) = database.split_at_checked(opened.len())?;
        let is_same = kept == opened && grown.iter().all(|byte| *byte == 0);
        (is_same && grows).then_some(Self { database, log, ends, worlds, given })
    }

    /// Returns the expected contents of a store whose log is sound up to this length.
    fn found(&self, sound: usize) -> Found {
        let whole = self.ends.iter().rev().find(|(length, _)| *length <= sound);
        let step = whole.expect("the first entry is the empty log").1;
        let at = self.worlds[self.worlds.len() - 1].now();
        let given = |number: u64| self.given[usize::try_from(number).expect("small") - 1].1;
        self.worlds[step].found(at, given)
    }

    /// Returns the offsets at which commits end, the last one first.
    fn commits(&self) -> Vec<usize> {
        let mut ends: Vec<usize> = self.ends.iter().map(|(length, _)| *length).collect();
        ends.dedup();
        ends.reverse();
        ends
    }

    /// Opens a store with these files and reads all of it.
    async fn read(&self, dir: &Path, database: &[u8], log: Option<&[u8]>) -> Contents {
        fs::write(dir.join("jobs.db"), database).expect("written");
        match log {
            Some(log) => fs::write(dir.join("jobs.db-wal"), log).expect("written"),
            None => drop(fs::remove_file(dir.join("jobs.db-wal"))),
        }
        let at = self.worlds[self.worlds.len() - 1].now();
        let store = open(dir, at).await.map_err(|error| error.to_string())?;
        let found = Found::of(&store).await;
        let unreadable = store.condition().unreadable;
        store.close().await;
        Ok((found, unreadable))
    }
}

fn new_folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir_in(folder()).expect("a temporary folder");
    ballast(dir.path());
    dir
}

#[tokio::test]
async fn a_torn_log_opens_with_its_last_whole_commit() {
    let files = Files::new().await;
    let commits = files.commits();
    println!("the log has {} bytes, commits end at {commits:?}", files.log.len());
    let first = commits[COMMITS];
    let ends = ["cut", "zeroed", "garbage after the cut"];
    let cases = case_numbers((files.log.len() - first + 1) * ends.len());
    on_all_cores(cases.len(), |runtime, n| {
        let n = cases[n];
        let (offset, end) = (first + n / ends.len(), ends[n % ends.len()]);
        let mut log = files.log[..offset].to_vec();
        match end {
            "zeroed" => log.resize(files.log.len(), 0),
            "garbage after the cut" => {
                let mut random = Random::new(offset as u64);
                log.resize_with(offset + FRAME + 100, || random.next().to_le_bytes()[0]);
            }
            _ => {}
        }
        let pairs = log.iter().zip(&files.log);
        let sound = pairs.take_while(|(found, written)| found == written).count();
        let dir = new_folder();
        let read = runtime.block_on(files.read(dir.path(), &files.database, Some(&log)));
        let (found, unreadable) = read.unwrap_or_else(|error| panic!("{end} at {offset}: {error}"));
        assert!(found == files.found(sound), "{end} at {offset}: {found:#?}");
        assert_eq!(unreadable, 0, "{end} at {offset}");
    });
}

/// Returns the bytes with one bit of the byte at `at` flipped.
fn flipped(bytes: &[u8], at: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at] ^= 1 << (Random::new(at as u64).next() % 8);
    bytes
}

#[tokio::test]
async fn a_flipped_byte_of_the_log_is_refused_or_a_torn_end() {
    let files = Files::new().await;
    let commits = files.commits();
    let cases = case_numbers(files.log.len());
    on_all_cores(cases.len(), |runtime, n| {
        let (at, dir) = (cases[n], new_folder());
        let log = flipped(&files.log, at);
        let (found, unreadable) =
            match runtime.block_on(files.read(dir.path(), &files.database, Some(&log))) {
                Ok(read) => read,
                Err(error) => {
                    assert!(error.contains("its log jobs.db-wal is damaged at byte"), "{error}");
                    assert_eq!(fs::read(dir.path().join("jobs.db-wal")).expect("kept"), log);
                    return;
                }
            };
        let begin = *commits.iter().find(|end| **end <= at).unwrap_or(&0);
        assert!(found == files.found(begin), "byte {at}: {found:#?}");
        assert_eq!(unreadable, 0, "byte {at}");
        let in_frame = at.saturating_sub(HEADER) % FRAME;
        // These bytes separate the commit before from the last one. Without them, both look like
        // one torn commit.
        let joins_commits = at >= commits[2] && COMMIT_FIELD.contains(&in_frame);
        assert!(at >= commits[1] || joins_commits, "byte {at}");
    });
}

#[tokio::test]
async fn a_flipped_byte_of_the_database_changes_no_job() {
    let files = Files::new().await;
    let (dir, whole) = (new_folder(), files.log.len());
    // After a close, all data is in the database file.
    files.read(dir.path(), &files.database, Some(&files.log)).await.expect("sound");
    let database = fs::read(dir.path().join("jobs.db")).expect("the database");
    assert!(!dir.path().join("jobs.db-wal").exists());
    let expected = files.found(whole);
    let mut cases = case_numbers(database.len());
    // No store opens if the headers of the two rows of the layout are damaged.
    for name in ["schema=", "reservations="] {
        let texts = database.windows(name.len()).enumerate();
        let found = texts.filter(|(_, text)| *text == name.as_bytes());
        cases.extend(found.flat_map(|(at, _)| at - 4..at));
    }
    println!("{} bytes, {} jobs", database.len(), expected.jobs.len());
    on_all_cores(cases.len(), |runtime, n| {
        let (at, dir) = (cases[n], new_folder());
        let read = runtime.block_on(files.read(dir.path(), &flipped(&database, at), None));
        check_flipped(&expected, read, at);
    });
}

/// Checks that a flipped byte has changed no job, setting or token, and hidden no job without a
/// report.
fn check_flipped(expected: &Found, read: Contents, at: usize) {
    let (found, unreadable) = match read {
        Ok(read) => read,
        Err(error) => {
            let named = ["jobs.db", "the store in /", "the store: it was created with"];
            assert!(named.iter().any(|words| error.contains(words)), "byte {at}: {error}");
            return;
        }
    };
    for (id, job) in &found.jobs {
        let known = expected.jobs.get(id).unwrap_or_else(|| panic!("byte {at}: unknown job {id}"));
        // The error text is lost if the damage hits the number in its row.
        let lost_error = job.error.is_none() && known.error.is_some();
        let error = known.error.clone().filter(|_| !lost_error);
        // A damaged history counts as empty, and so do the start and the consumer of the attempt.
        let ends = |past: &PastAttempt| (past.attempt, past.ended_at, past.outcome);
        let is_known = |end| known.history.iter().map(ends).any(|known| known == end);
        assert!(job.history.iter().map(ends).all(is_known), "byte {at}: {:?}", job.history);
        let (history, consumer) = (known.history.clone(), known.consumer.clone());
        let whole = Job { history, consumer, started_at: known.started_at, ..job.clone() };
        assert_eq!(whole, Job { error, ..known.clone() }, "byte {at} has changed {id}");
    }
    for (topic, pause) in &found.settings.paused {
        let known = expected.settings.paused.get(topic);
        assert_eq!(known, Some(pause), "byte {at} has changed {topic}");
    }
    for (topic, defaults) in &found.settings.defaults {
        let known = expected.settings.defaults.get(topic);
        assert_eq!(known, Some(defaults), "byte {at} has changed {topic}");
    }
    for token in &found.tokens {
        let same = |known: &StoredToken| (&known.name, &known.text) == (&token.name, &token.text);
        assert!(expected.tokens.iter().any(same), "byte {at} has changed {token:?}");
    }
    let missing = expected.jobs.len() - found.jobs.len();
    let is_reported = missing == found.damaged.len() || unreadable > 0;
    assert!(is_reported, "byte {at}: jobs are missing without a report");
}
