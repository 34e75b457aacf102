//! Crashes at every change of the disk: the process is killed before each write, cut, sync and
//! change of a name of the workload, and once more within it (half of the bytes written; the sync
//! done but not reported). The test opens the remains in three ways: as a killed process leaves
//! them; as a power cut does that kept only synced bytes; and as one that also kept some sectors
//! written since, in any order. Each time the store has exactly what the model has after some
//! number of steps from the last acknowledged one to the last attempted one.
//!
//! The process is this test program with the store in it, not the server: it takes some
//! milliseconds instead of a quarter of a second, so that each run tries all crash points; and the
//! store's clock can be set, so that every time of every job is compared exactly. `crash.rs` and
//! `power.rs` cover what the server adds.

use std::{
    fs,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
};

use delay_queue::{
    job::{Nonce, UnixMillis},
    store::{Store, TopicSettingsStore},
};
use tempfile::TempDir;

use crate::{
    disk::shim::{Control, Disk, Field},
    store::{
        bench::Bench,
        equivalence::Side,
        workload::{
            Found, Random, Step, World, ballast, folder, go, on_all_cores, open, settle, steps,
        },
    },
};

/// Environment variable with the number of steps for the process; without it, the test runs on an
/// ordinary disk.
const STEPS: &str = "SWEEP_STEPS";
const PROCESS: &str = "disk::sweep::a_store_does_what_the_model_does_step_by_step";
const SECTOR: usize = 512;

/// A test of its own; with [`STEPS`], the process to be killed.
#[tokio::test]
async fn a_store_does_what_the_model_does_step_by_step() {
    let held = std::env::var(STEPS).ok().map(|steps| {
        let variable = |name| PathBuf::from(std::env::var_os(name).expect("set by the disk"));
        let control = Control::open(&variable("DISK_CONTROL"));
        (steps.parse().expect("a number"), variable("DISK_ROOT").join("data"), control)
    });
    let (steps, worlds) = (steps(), World::all(&steps()));
    let (count, bench, control) = match held {
        Some((count, dir, control)) => (count, Bench::file_in(dir).await, Some(control)),
        None => (steps.len(), Bench::file().await, None),
    };
    let tell = |field, step: usize| {
        let number = i32::try_from(step).expect("a small number");
        control.iter().for_each(|control| control.set(field, number));
    };
    let mut side = Side::new(bench);
    for (number, step) in steps[..count].iter().enumerate() {
        tell(Field::Attempted, number + 1);
        if let Step::CarryOver = step {
            tell(Field::Ahead, 5);
        }
        let answer = go(&mut side, number as u64, step).await;
        assert_eq!(answer, worlds[number + 1].answer(), "step {number}: {step:?}");
        tell(Field::Acknowledged, number + 1);
    }
    if control.is_none() {
        settle(&*side.bench.store).await;
        let given = |token: u64| side.given[usize::try_from(token).expect("small") - 1].1;
        let expected = worlds[count].found(worlds[count].now(), given);
        assert_eq!(Found::of(&*side.bench.store).await, expected);
    }
    side.bench.store.close().await;
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Left {
    /// All that was written: the process was killed.
    Written,
    /// Synced bytes only: the power was cut.
    Synced,
    /// Synced bytes, and some sectors written since.
    Sectors,
}

struct Sweep {
    steps: usize,
    worlds: Vec<World>,
    /// Whether the process begins in a directory that has the reserve for a full disk. A start
    /// takes most of its time to make it; without it, each change has only one crash, alternately
    /// before and within it.
    has_ballast: bool,
    outcomes: Mutex<Outcomes>,
}

#[derive(Default, Debug)]
struct Outcomes {
    opened: usize,
    /// Stores as after the last acknowledged step, where one more changing step was attempted.
    before: usize,
    after: usize,
    wrong: Vec<String>,
}

impl Sweep {
    fn new(steps: usize, has_ballast: bool) -> Self {
        let worlds = World::all(&self::steps()[..steps]);
        Self { steps, worlds, has_ballast, outcomes: Mutex::default() }
    }

    /// Runs the process on a new disk. Returns whether it ended by itself.
    fn run(&self, crash_at: usize, within: bool) -> (Disk, bool) {
        let disk = Disk::below(&folder());
        if self.has_ballast {
            fs::create_dir(disk.root().join("data")).expect("made");
            ballast(&disk.root().join("data"));
        }
        disk.set(Field::CrashAt, i32::try_from(crash_at).expect("a small number"));
        disk.set(Field::CrashWithin, i32::from(within));
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args([PROCESS, "--exact"]).env(STEPS, self.steps.to_string());
        disk.hold(&mut command, &[]);
        let output = command.output().expect("this program runs");
        let ended = output.status.success();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(ended || output.status.signal() == Some(9), "crash at {crash_at}: {said}");
        (disk, ended)
    }

    /// Crashes at every change, before it and within it.
    fn all(&self) {
        let (disk, ended) = self.run(0, false);
        assert!(ended, "without a crash it comes to its end");
        let changes = usize::try_from(disk.get(Field::Changes)).expect("a count");
        drop(disk);
        let all = (1..=changes).flat_map(|change| [(change, false), (change, true)]);
        let by_turns =
            |(change, within): &(usize, bool)| self.has_ballast || (change % 2 == 0) == *within;
        let points: Vec<(usize, bool)> = all.filter(by_turns).collect();
        on_all_cores(points.len(), |runtime, n| {
            let (crash_at, within) = points[n];
            let (disk, _) = self.run(crash_at, within);
            for left in [Left::Written, Left::Synced, Left::Sectors] {
                let dir = leave(&disk, left, crash_at as u64);
                runtime.block_on(self.check(&disk, dir.path(), (crash_at, within, left)));
            }
        });
        self.verdict(changes, points.len());
    }

    async fn check(&self, disk: &Disk, dir: &Path, what: (usize, bool, Left)) {
        let step = |field| usize::try_from(disk.get(field)).expect("a step");
        let (acknowledged, attempted) = (step(Field::Acknowledged), step(Field::Attempted));
        let at = self.worlds[attempted].now();
        // No other process runs on the store: the n-th pop has the n-th nonce.
        let given = |token: u64| Nonce::new(token << 12).reservation(0);
        let allowed: Vec<Found> =
            (acknowledged..=attempted).map(|k| self.worlds[k].found(at, given)).collect();
        let found = reopened(&dir.join("data"), at).await;
        let place =
            found.as_ref().ok().and_then(|found| allowed.iter().position(|one| one == found));
        let mut outcomes = self.outcomes.lock().expect("no panic holds it");
        outcomes.opened += 1;
        if allowed.len() > 1 && allowed[0] != allowed[1] {
            outcomes.before += usize::from(place == Some(0));
            outcomes.after += usize::from(place == Some(1));
        }
        if place.is_none() {
            let wrong = match found {
                Err(cause) => cause,
                Ok(found) => format!("found {found:#?}, and expected {:#?}", allowed[0]),
            };
            outcomes.wrong.push(format!("{what:?}, steps {acknowledged} to {attempted}: {wrong}"));
        }
    }

    fn verdict(&self, changes: usize, crashes: usize) {
        let outcomes = self.outcomes.lock().expect("no panic holds it");
        let Outcomes { opened, before, after, wrong } = &*outcomes;
        println!(
            "{changes} changes, {crashes} crashes, {opened} times opened again: {before} without \
             the step under way, {after} with it"
        );
        assert_eq!(*opened, 3 * crashes);
        if let Some(first) = wrong.first() {
            panic!("{} of {opened} are wrong; {first}", wrong.len());
        }
    }
}

/// Opens the remains as a store, and reads all of it; it must be sound, and accept a change.
async fn reopened(dir: &Path, at: UnixMillis) -> Result<Found, String> {
    let store = open(dir, at).await.map_err(|error| error.to_string())?;
    let found = Found::of(&store).await;
    let wrong = store.examine().await.map_err(|error| error.to_string())?;
    let unreadable = store.condition().unreadable;
    if !wrong.is_empty() || unreadable > 0 {
        return Err(format!("{unreadable} unreadable; {wrong:?}"));
    }
    store.set_paused("more".parse().expect("a topic"), true).await.map_err(|e| e.to_string())?;
    store.close().await;
    Ok(found)
}

fn leave(disk: &Disk, left: Left, seed: u64) -> TempDir {
    let dir = tempfile::tempdir_in(folder()).expect("a temporary folder");
    let (written, data) = (disk.root().join("data"), dir.path().join("data"));
    if left == Left::Written {
        copy(&written, &data);
    } else {
        disk.leave(dir.path());
    }
    if left == Left::Sectors && data.is_dir() {
        let mut random = Random::new(seed);
        for file in fs::read_dir(&data).expect("a directory").map(|file| file.expect("a file")) {
            let name = file.file_name().into_string().expect("a name");
            let is_another = disk.synced().join(format!("data%{name}%gone")).exists();
            if name != "ballast"
                && !is_another
                && let Ok(now) = fs::read(written.join(&name))
            {
                let synced = fs::read(file.path()).expect("read");
                fs::write(file.path(), mixed(&synced, &now, &mut random)).expect("written");
            }
        }
    }
    // The reserve has no jobs, and making it anew takes time.
    fs::create_dir_all(&data).expect("made");
    ballast(&data);
    dir
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    for file in fs::read_dir(from).into_iter().flatten().map(|file| file.expect("a file")) {
        if file.file_name() != "ballast" {
            fs::copy(file.path(), to.join(file.file_name())).expect("copied");
        }
    }
}

/// Returns a file of which some sectors are as last written, and the others as synced.
fn mixed(synced: &[u8], now: &[u8], random: &mut Random) -> Vec<u8> {
    let length = if random.next().is_multiple_of(2) { synced.len() } else { now.len() };
    let mut bytes = synced.to_vec();
    bytes.resize(length, 0);
    for at in (0..length.min(now.len())).step_by(SECTOR) {
        let end = (at + SECTOR).min(length).min(now.len());
        if random.next().is_multiple_of(2) {
            bytes[at..end].copy_from_slice(&now[at..end]);
        }
    }
    bytes
}

#[test]
fn a_crash_at_any_disk_change_keeps_acknowledged_jobs() {
    Sweep::new(steps().len(), true).all();
}

#[test]
fn a_crash_at_any_change_of_the_first_start_is_recovered() {
    Sweep::new(0, false).all();
}
