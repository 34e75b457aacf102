//! One Redis and one cluster for all tests of a process that neither stop nor configure them. Each
//! test uses its own prefix.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, Ordering},
    mpsc,
};

use crate::support::{Redis, cluster::Cluster};

/// Returns the Redis. The first call starts it.
pub fn redis() -> Arc<Redis> {
    static SHARED: OnceLock<Arc<Redis>> = OnceLock::new();
    let start = || {
        // Without rewrites, Redis opens no other files later.
        let redis = Redis::with(&["--appendonly", "yes", "--auto-aof-rewrite-percentage", "0"]);
        // A static value is never dropped, so its folder would stay.
        std::fs::remove_dir_all(redis.dir.path()).expect("the folder is there");
        redis
    };
    Arc::clone(SHARED.get_or_init(|| started(start)))
}

/// Returns the cluster. The first call starts it.
pub fn cluster() -> Arc<Cluster> {
    static SHARED: OnceLock<Arc<Cluster>> = OnceLock::new();
    Arc::clone(SHARED.get_or_init(|| started(Cluster::steady)))
}

/// Starts processes in a thread that outlives all tests: they end with their thread.
fn started<T: Send + Sync + 'static>(start: impl FnOnce() -> T + Send + 'static) -> Arc<T> {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        send.send(Arc::new(start())).expect("the caller waits");
        loop {
            std::thread::park();
        }
    });
    receive.recv().expect("the processes start")
}

/// Returns a prefix that no other test of this process uses.
pub fn prefix() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("test:{}", NEXT.fetch_add(1, Ordering::Relaxed))
}
