//! What servers on one store tell each other.
//!
//! Hints make things quick and save calls; any of them may be lost, and no job depends on one.

use tokio::sync::mpsc;

use crate::job::{Bucket, Topic};

/// A piece of news.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hint {
    /// The timer of a bucket has looked there: nobody else need for a while.
    Polled(Bucket),
    /// Jobs of a topic are ready that nobody waits for where this comes from.
    Ready {
        /// Where.
        bucket: Bucket,
        /// Of which topic.
        topic: Topic,
        /// How many.
        count: u64,
    },
    /// What is set for topics has changed.
    Settings,
}

/// The news of others, as they come.
pub type Subscription = mpsc::Receiver<Hint>;
