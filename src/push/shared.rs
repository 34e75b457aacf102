//! Parts that all pushes of a server share.

use std::sync::Arc;

use guarded_client::Client;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{meters::Meters, share::Places};
use crate::{
    job::{Push, PushPause, Topic},
    queue::Queue,
    store::StoreError,
};

/// Parts that all pushes of a server share.
pub struct Shared {
    pub queue: Arc<Queue>,
    pub client: Client,
    pub places: Places,
    pub meters: Meters,
    /// When cancelled, requests under way end, and their jobs are given back.
    pub abort: CancellationToken,
    /// Workers, requests, and the transitions after them.
    pub tasks: TaskTracker,
}

impl Shared {
    /// Pauses a push of which every request has failed for days, unless a client has paused it.
    pub async fn pause_failing(&self, topic: &Topic) {
        let change = |push: Option<&Push>| {
            let paused = push?.paused.or(Some(PushPause::Failing));
            push.map(|push| Push { paused, ..push.clone() })
        };
        let done = self.queue.change_push::<StoreError>(topic, |push| Ok(change(push))).await;
        match done {
            Ok(Some(Push { paused: Some(PushPause::Failing), .. })) => {
                tracing::warn!(%topic, "paused a push: every request of five days has failed");
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(%topic, %error, "failed to pause a failing push"),
        }
    }
}
