//! One cluster for all tests of a process, each with a prefix of its own.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, Ordering},
    mpsc,
};

use crate::support::cluster::Cluster;

/// The cluster, started by the first who asks.
pub fn shared() -> Arc<Cluster> {
    static SHARED: OnceLock<Arc<Cluster>> = OnceLock::new();
    let start = || {
        let (send, receive) = mpsc::channel();
        // Its processes end with the thread that started them, so that one must outlive all tests.
        std::thread::spawn(move || {
            send.send(Arc::new(Cluster::start())).expect("the caller waits");
            loop {
                std::thread::park();
            }
        });
        receive.recv().expect("the cluster starts")
    };
    Arc::clone(SHARED.get_or_init(start))
}

/// A prefix that no other test of this process has.
pub fn prefix() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("test:{}", NEXT.fetch_add(1, Ordering::Relaxed))
}
