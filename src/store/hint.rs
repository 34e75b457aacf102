//! What servers on one store publish to each other.
//!
//! Hints make things quick and save calls; any of them may be lost, and no job depends on one.

use tokio::sync::mpsc;

use crate::job::{Bucket, Topic};

/// One hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hint {
    /// A timer has polled the bucket: the others need not for a while.
    Polled(Bucket),
    /// Jobs of a topic are ready, and no consumer waits for them at the sender.
    Ready {
        /// Where.
        bucket: Bucket,
        /// Of which topic.
        topic: Topic,
        /// How many.
        count: u64,
    },
    /// Topic settings have changed.
    Settings,
}

/// The hints of other servers, as they arrive.
pub type Subscription = mpsc::Receiver<Hint>;
