//! Crashes at every change of the disk. A process runs a workload and is killed before each write,
//! truncation, sync and change of a name, and once more within it: after half of the bytes, or
//! after the sync but before its return. The test opens the remains of each crash in three states:
//! as a killed process leaves them; after a power cut that kept only synced bytes; and after a
//! power cut that also kept some unsynced sectors, in any order. In each state, the store must
//! equal the model after one of the steps from the last acknowledged to the last attempted one.
//!
//! The process is this test program with a store, not the server. It needs only some milliseconds
//! per crash, so that each run can try all crash points. Its clock can be set, so that the test can
//! compare every time of every job exactly. `crash.rs` and `power.rs` test the server itself.

use std::{os::unix::process::ExitStatusExt, sync::Mutex};

use delay_queue::{
    job::{Nonce, UnixMillis},
    store::{Store, TopicSettingsStore},
};

use crate::disk::prelude::*;
use crate::{
    disk::shim::Control,
    store::{
        bench::Bench,
        equivalence::StoreUnderTest,
        workload::{
            Found, Random, Step, World, ballast, folder, on_all_cores, open, run_step, settle,
            steps,
        },
    },
};

/// Environment variable with the number of steps that the process makes. Without it, the test makes
/// all steps on an ordinary disk.
const STEPS: &str = "SWEEP_STEPS";
const PROCESS: &str = "disk::sweep::a_store_does_what_the_model_does_step_by_step";
const SECTOR: usize = 512;

/// Compares the store with the model. With [`STEPS`], this test is the process that the other tests
/// kill.
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
    let report = |field, step: usize| {
        let number = i32::try_from(step).expect("a small number");
        control.iter().for_each(|control| control.set(field, number));
    };
    let mut tested = StoreUnderTest::new(bench);
    for (number, step) in steps[..count].iter().enumerate() {
        report(Field::Attempted, number + 1);
        if let Step::Checkpoint = step {
            report(Field::Ahead, 5);
        }
        let answer = run_step(&mut tested, number as u64, step).await;
        assert_eq!(answer, worlds[number + 1].answer(), "step {number}: {step:?}");
        report(Field::Acknowledged, number + 1);
    }
    if control.is_none() {
        settle(&*tested.bench.store).await;
        let given = |token: u64| tested.given[usize::try_from(token).expect("small") - 1].1;
        let expected = worlds[count].found(worlds[count].now(), given);
        assert_eq!(Found::of(&*tested.bench.store).await, expected);
    }
    tested.bench.store.close().await;
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Remains {
    /// All written bytes remain: the process was killed.
    Written,
    /// Only synced bytes remain: the power was cut.
    Synced,
    /// Synced bytes and some unsynced sectors remain: the power was cut.
    Sectors,
}

struct Sweep {
    steps: usize,
    worlds: Vec<World>,
    /// Whether the process starts in a directory that has the reserve for a full disk. Creating the
    /// reserve takes most of a start. So without one, the test crashes only once per change,
    /// alternately before and within it.
    has_ballast: bool,
    outcomes: Mutex<Outcomes>,
}

#[derive(Default, Debug)]
struct Outcomes {
    opened: usize,
    /// Number of stores without the step in progress. Counts only crashes in a step that changes
    /// the store; likewise `after` for stores with this step.
    before: usize,
    after: usize,
    wrong: Vec<String>,
}

impl Sweep {
    fn new(steps: usize, has_ballast: bool) -> Self {
        let worlds = World::all(&self::steps()[..steps]);
        Self { steps, worlds, has_ballast, outcomes: Mutex::default() }
    }

    /// Runs the process on a new disk. Returns the disk, and whether the process ended by itself.
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
        disk.attach_to(&mut command, &[]);
        let output = command.output().expect("this program runs");
        let ended = output.status.success();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(ended || output.status.signal() == Some(9), "crash at {crash_at}: {said}");
        (disk, ended)
    }

    /// Crashes before and within every change, and checks the remains.
    fn all(&self) {
        let (disk, ended) = self.run(0, false);
        assert!(ended, "the process did not end by itself, although no crash was injected");
        let changes = usize::try_from(disk.get(Field::Changes)).expect("a count");
        drop(disk);
        let all = (1..=changes).flat_map(|change| [(change, false), (change, true)]);
        let by_turns =
            |(change, within): &(usize, bool)| self.has_ballast || (change % 2 == 0) == *within;
        let points: Vec<(usize, bool)> = all.filter(by_turns).collect();
        on_all_cores(points.len(), |runtime, n| {
            let (crash_at, within) = points[n];
            let (disk, _) = self.run(crash_at, within);
            for remains in [Remains::Written, Remains::Synced, Remains::Sectors] {
                let dir = make_remains(&disk, remains, crash_at as u64);
                runtime.block_on(self.check(&disk, dir.path(), (crash_at, within, remains)));
            }
        });
        self.verdict(changes, points.len());
    }

    async fn check(&self, disk: &Disk, dir: &Path, case: (usize, bool, Remains)) {
        let step = |field| usize::try_from(disk.get(field)).expect("a step");
        let (acknowledged, attempted) = (step(Field::Acknowledged), step(Field::Attempted));
        let at = self.worlds[attempted].now();
        // Only this process uses the store, so the n-th pop has the n-th nonce.
        let given = |token: u64| Nonce::new(token << 12).reservation(0);
        let allowed: Vec<Found> =
            (acknowledged..=attempted).map(|k| self.worlds[k].found(at, given)).collect();
        let found = reopened(&dir.join("data"), at).await;
        let steps_done =
            found.as_ref().ok().and_then(|found| allowed.iter().position(|one| one == found));
        let mut outcomes = self.outcomes.lock().expect("no panic holds it");
        outcomes.opened += 1;
        if allowed.len() > 1 && allowed[0] != allowed[1] {
            outcomes.before += usize::from(steps_done == Some(0));
            outcomes.after += usize::from(steps_done == Some(1));
        }
        if steps_done.is_none() {
            let wrong = match found {
                Err(cause) => cause,
                Ok(found) => format!("found {found:#?}, and expected {:#?}", allowed[0]),
            };
            outcomes.wrong.push(format!("{case:?}, steps {acknowledged} to {attempted}: {wrong}"));
        }
    }

    fn verdict(&self, changes: usize, crashes: usize) {
        let outcomes = self.outcomes.lock().expect("no panic holds it");
        let Outcomes { opened, before, after, wrong } = &*outcomes;
        println!(
            "{changes} changes, {crashes} crashes, {opened} times opened again: {before} without \
             the step in progress, {after} with it"
        );
        assert_eq!(*opened, 3 * crashes);
        if let Some(first) = wrong.first() {
            panic!("{} of {opened} stores are wrong; the first: {first}", wrong.len());
        }
    }
}

/// Opens the remains as a store and reads all of it. The store must have no damage and accept a
/// change.
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

fn make_remains(disk: &Disk, remains: Remains, seed: u64) -> TempDir {
    let dir = tempfile::tempdir_in(folder()).expect("a temporary folder");
    let (written, data) = (disk.root().join("data"), dir.path().join("data"));
    if remains == Remains::Written {
        copy(&written, &data);
    } else {
        disk.restore("", dir.path());
    }
    if remains == Remains::Sectors && data.is_dir() {
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
    // Reuses a reserve, which contains no jobs, since creating one takes time.
    fs::create_dir_all(&data).expect("made");
    ballast(&data);
    dir
}

/// Copies the files of a store without the reserve for a full disk, which contains no jobs.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    for file in fs::read_dir(from).into_iter().flatten().map(|file| file.expect("a file")) {
        if file.file_name() != "ballast" && file.path().is_file() {
            fs::copy(file.path(), to.join(file.file_name())).expect("copied");
        }
    }
}

/// Returns a mixture of the synced and the last written contents of a file, sector by sector.
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
