//! A disk that tests can break: `shim.c`, preloaded into the server.

use std::fs;
use std::{
    os::unix::fs::{FileExt, MetadataExt},
    sync::OnceLock,
};

use crate::disk::prelude::*;

pub const EIO: i32 = 5;
pub const ENOSPC: i32 = 28;
pub const EDQUOT: i32 = 122;

/// Fields of the control file. `shim.c` describes them.
#[derive(Clone, Copy)]
pub enum Field {
    WriteError,
    SyncError,
    CapacityKib,
    FullError,
    Syncs,
    ReadError,
    Changes,
    CrashAt,
    CrashWithin,
    Ahead,
    CrashSynced,
    SyncMillis,
    InodeSyncs,
    /// This field and the next are not the shim's: a process on the disk reports its progress to
    /// the test.
    Attempted,
    Acknowledged,
}

pub struct Control(File);

impl Control {
    pub fn open(file: &Path) -> Self {
        Self(File::options().read(true).write(true).open(file).expect("opened"))
    }

    pub fn set(&self, field: Field, value: i32) {
        self.0.write_all_at(&value.to_ne_bytes(), field as u64 * 4).expect("written");
    }

    pub fn get(&self, field: Field) -> i32 {
        let mut bytes = [0; 4];
        self.0.read_exact_at(&mut bytes, field as u64 * 4).expect("read");
        i32::from_ne_bytes(bytes)
    }
}

/// Data of a synced file that a later power cut restores.
#[derive(Clone, Copy)]
pub enum Keep {
    Bytes,
    /// Only the length, which is enough for a file that only grows.
    Lengths,
}

/// A disk that tests can break, and the log of its servers.
pub struct Disk {
    dir: TempDir,
    root: PathBuf,
    control: Control,
}

impl Disk {
    pub fn new() -> Self {
        Self::below(&std::env::temp_dir())
    }

    /// Creates a disk, and starts a server on it.
    pub async fn with_server() -> (Self, Process) {
        let disk = Self::new();
        let server = disk.server().await;
        (disk, server)
    }

    /// Creates a disk in a new folder below `folder`.
    pub fn below(folder: &Path) -> Self {
        let dir = tempfile::tempdir_in(folder).expect("a temporary folder");
        let root = dir.path().join("disk");
        fs::create_dir(&root).expect("made");
        Self::made(dir, root)
    }

    /// Creates a disk whose root is the existing directory `root`.
    pub fn at(root: PathBuf) -> Self {
        Self::made(tempfile::tempdir().expect("a temporary folder"), root)
    }

    fn made(dir: TempDir, root: PathBuf) -> Self {
        fs::create_dir(dir.path().join("synced")).expect("made");
        let file = dir.path().join("control");
        fs::write(&file, [0; 4 * (Field::Acknowledged as usize + 1)]).expect("written");
        let control = Control::open(&file);
        Self { dir, root, control }
    }

    /// Returns the directory that the server uses as the disk.
    pub fn root(&self) -> PathBuf {
        self.root.clone()
    }

    pub fn set(&self, field: Field, value: i32) {
        self.control.set(field, value);
    }

    pub fn get(&self, field: Field) -> i32 {
        self.control.get(field)
    }

    /// Limits the disk to this capacity, beyond which it is full.
    pub fn limit(&self, kib: i32) {
        self.set(Field::FullError, ENOSPC);
        self.set(Field::CapacityKib, kib);
    }

    /// Returns the folder of the servers' store.
    pub fn data(&self) -> PathBuf {
        self.root.join("state/data")
    }

    /// Returns the total length of the store's files in KiB.
    pub fn used_kib(&self) -> i32 {
        let lengths = files_below(&self.data()).into_iter();
        let used: u64 = lengths.filter_map(|file| Some(file.metadata().ok()?.len())).sum();
        i32::try_from(used / 1024).expect("a small store")
    }

    pub fn attach_to(&self, command: &mut Command, preloaded: &[PathBuf]) {
        command.envs(self.variables(preloaded, Keep::Bytes));
    }

    /// Returns the environment variables of a process on this disk. `libraries` are preloaded in
    /// addition to the shim.
    pub fn variables(&self, libraries: &[PathBuf], keep: Keep) -> Vec<(&'static str, PathBuf)> {
        let preloaded = std::iter::once(shim()).chain(libraries.iter().map(PathBuf::as_path));
        let kept = match keep {
            Keep::Bytes => "DISK_SYNCED",
            Keep::Lengths => "DISK_LENGTHS",
        };
        vec![
            ("LD_PRELOAD", std::env::join_paths(preloaded).expect("paths").into()),
            ("DISK_ROOT", self.root()),
            ("DISK_CONTROL", self.dir.path().join("control")),
            (kept, self.synced()),
        ]
    }

    /// Returns the folder of the synced contents. The name of each file there is its path with `%`
    /// for `/`.
    pub fn synced(&self) -> PathBuf {
        self.dir.path().join("synced")
    }

    /// Starts a server with its data in two new nested directories on this disk.
    pub async fn server(&self) -> Process {
        self.server_with(&[], Vec::new()).await
    }

    /// Starts a server on this disk and on the given clock.
    pub async fn server_on_clock(&self, clock: &ShiftedClock) -> Process {
        self.server_with(&[clock.library()], clock.variables()).await
    }

    async fn server_with(
        &self,
        preloaded: &[PathBuf],
        variables: Vec<(&'static str, PathBuf)>,
    ) -> Process {
        let mut command = program(&self.root(), &["--store", "file:./state/data"]);
        let log = File::options().create(true).append(true).open(self.dir.path().join("log"));
        command.envs(variables).stderr(log.expect("a log"));
        self.attach_to(&mut command, preloaded);
        Process::spawn_with_log(free_port(), command).await
    }

    /// Counts the log lines that contain `words`.
    pub fn said(&self, words: &str) -> usize {
        let log = fs::read_to_string(self.dir.path().join("log")).expect("a log");
        log.lines().filter(|line| line.contains(words)).count()
    }

    /// Cuts the power: only the first unsynced bytes of each file remain. `part` gets the number of
    /// unsynced bytes of a file and returns how many of them remain. No server may run.
    pub fn cut_power(&self, mut part: impl FnMut(usize) -> usize) {
        let synced = self.after_a_power_cut();
        for entry in files_below(synced.path()) {
            let file = self.root.join(entry.strip_prefix(synced.path()).expect("below it"));
            let (written, kept) =
                (fs::read(&file).unwrap_or_default(), fs::read(&entry).expect("read"));
            let same = written.iter().zip(&kept).take_while(|(one, other)| one == other).count();
            let all = written.len().max(kept.len());
            let until = same + part(all - same);
            let (written, kept) =
                (&written[..until.min(written.len())], &kept[until.min(kept.len())..]);
            fs::write(&entry, [written, kept].concat()).expect("written");
        }
        fs::remove_dir_all(&self.root).expect("removed");
        copy(synced.path(), &self.root);
    }

    /// Cuts the power on a disk with [`Keep::Lengths`]: truncates each file to its last synced
    /// length. Returns the number of lost bytes.
    ///
    /// # Panics
    /// If no file was ever synced, since the power cut would have no effect.
    pub fn cut_to_lengths(&self) -> u64 {
        let (mut known, mut cut) = (false, 0);
        for file in files_below(&self.root) {
            let was = fs::metadata(&file).expect("a file");
            let kept = self.synced().join(was.ino().to_string());
            let Ok(length) = fs::read(kept) else { continue };
            let length = u64::from_ne_bytes(length.try_into().expect("eight bytes"));
            let file = File::options().write(true).open(file).expect("a file");
            file.set_len(length).expect("cut");
            (known, cut) = (true, cut + (was.len() - length));
        }
        assert!(known, "no file of {} was ever synced", self.root.display());
        cut
    }

    /// Starts a server on the disk's contents after a power cut.
    pub async fn server_after_a_power_cut(&self) -> (TempDir, Process) {
        let remains = self.after_a_power_cut();
        let server = Process::start(remains.path(), &["--store", "file:./state/data"]).await;
        (remains, server)
    }

    /// Returns a new folder with the disk's contents after a power cut: the names in synced
    /// directories, with the last synced bytes of each file.
    pub fn after_a_power_cut(&self) -> TempDir {
        let remains = tempfile::tempdir().expect("a temporary folder");
        self.restore("", remains.path());
        remains
    }

    /// Writes the contents of the folder `relative` after a power cut into the folder `to`.
    pub fn restore(&self, relative: &str, to: &Path) {
        let copy = |suffix: &str| self.synced().join(relative.replace('/', "%") + suffix);
        for line in fs::read_to_string(copy("%names")).unwrap_or_default().lines() {
            let (kind, name) = line.split_at(1);
            let path = if relative.is_empty() { name.into() } else { format!("{relative}/{name}") };
            let to = to.join(name);
            if kind == "d" {
                fs::create_dir(&to).expect("made");
                self.restore(&path, &to);
            } else {
                let synced = self.synced().join(path.replace('/', "%"));
                fs::write(to, fs::read(synced).unwrap_or_default()).expect("written");
            }
        }
    }
}

/// Returns all files below a folder.
pub fn files_below(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).expect("a directory").flatten();
    entries
        .flat_map(|entry| {
            let path = entry.path();
            if path.is_dir() { files_below(&path) } else { vec![path] }
        })
        .collect()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    for entry in fs::read_dir(from).expect("a directory").flatten() {
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).expect("copied");
        }
    }
}

/// Returns the compiled `shim.c`. The first call compiles it.
fn shim() -> &'static Path {
    static SHIM: OnceLock<PathBuf> = OnceLock::new();
    SHIM.get_or_init(|| {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
        // Compiles to an own file and renames it, since other test processes may compile at the
        // same time.
        let (own, made) =
            (dir.join(format!("disk-{}.so", std::process::id())), dir.join("disk.so"));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/disk/shim.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o"]).arg(&own).arg(source);
        assert!(compiler.status().expect("a C compiler").success());
        fs::rename(own, &made).expect("renamed");
        made
    })
}
