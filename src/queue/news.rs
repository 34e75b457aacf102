//! News of ready jobs and changed settings: for those who wait here, and from and to the other
//! servers on the same store.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::{timer::Bell, topic_settings::Topics, waiters::Waiters};
use crate::{
    job::{Bucket, Topic},
    store::{Heard, Hint, Store},
};

/// Jobs have become ready: whoever waits here is woken, and if that is not enough the others are
/// told.
pub(super) fn ready(
    store: &dyn Store,
    waiters: &Waiters,
    topic: &Topic,
    bucket: Bucket,
    count: u64,
) {
    let left = waiters.mark(topic, bucket, count);
    if left > 0 {
        store.tell(Hint::Ready { bucket, topic: topic.clone(), count: left });
    }
}

/// What follows the news of other servers.
pub(super) struct Listen {
    pub(super) heard: Heard,
    pub(super) store: Arc<dyn Store>,
    pub(super) bells: Vec<Arc<Bell>>,
    pub(super) waiters: Arc<Waiters>,
    pub(super) topics: Arc<Topics>,
}

impl Listen {
    /// Runs until `stop`.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        loop {
            let hint = tokio::select! {
                hint = self.heard.recv() => hint,
                () = stop.cancelled() => None,
            };
            match hint {
                Some(Hint::Looked(bucket)) => self.bells[bucket.index()].looked_elsewhere(),
                Some(Hint::Ready { bucket, topic, count }) => {
                    self.waiters.mark(&topic, bucket, count);
                }
                Some(Hint::Settings) => {
                    if let Err(error) = self.topics.refresh(&*self.store, &self.waiters).await {
                        tracing::debug!(%error, "failed to read the settings of topics");
                    }
                }
                None => return,
            }
        }
    }
}
