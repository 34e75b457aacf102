//! One cluster for all tests of a process. Each test uses its own prefix.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, Ordering},
    mpsc,
};

use crate::support::cluster::Cluster;

/// Returns the cluster. The first call starts it.
pub fn shared() -> Arc<Cluster> {
    static SHARED: OnceLock<Arc<Cluster>> = OnceLock::new();
    let start = || {
        let (send, receive) = mpsc::channel();
        // The cluster's processes end with the thread that started them, so this thread must
        // outlive all tests.
        std::thread::spawn(move || {
            send.send(Arc::new(Cluster::steady())).expect("the caller waits");
            loop {
                std::thread::park();
            }
        });
        receive.recv().expect("the cluster starts")
    };
    Arc::clone(SHARED.get_or_init(start))
}

/// Returns a prefix that no other test of this process uses.
pub fn prefix() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("test:{}", NEXT.fetch_add(1, Ordering::Relaxed))
}
