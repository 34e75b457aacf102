//! Helpers of tests that open many copies of a store's files.

use crate::store::prelude::*;

/// Returns a folder in memory, where syncs cost nothing, if this machine has one; otherwise the
/// folder of temporary files.
pub fn folder() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }
}

/// Creates an empty reserve for a full disk, since writing a real one takes most of the time of a
/// start.
pub fn ballast(dir: &Path) {
    let file = fs::File::create(dir.join("ballast")).expect("made");
    file.set_len(8 << 20).expect("extended");
}

/// Opens a store with its clock at `at`, and promotes all due jobs.
pub async fn open(dir: &Path, at: UnixMillis) -> Result<FileStore, OpenError> {
    let options = Options::new(None, Clock::set_at(at));
    let store = FileStore::open(dir, options)?;
    settle(&store).await;
    Ok(store)
}

/// Calls `act` with each number below `count`, on all cores at the same time.
pub fn on_all_cores(count: usize, act: impl Fn(&Runtime, usize) + Sync) {
    let next = AtomicUsize::new(0);
    let workers = 2 * std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().build();
                let runtime = runtime.expect("a runtime");
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= count {
                        return;
                    }
                    act(&runtime, n);
                }
            });
        }
    });
}

/// Random numbers by Xorshift, which are the same for the same seed.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }
}
