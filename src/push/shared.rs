//! Parts that all pushes of a server share.

use std::{sync::Arc, time::Duration};

use guarded_client::Client;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    lane::{MAX_FAILING_TIME, NOTE_INTERVAL},
    load::Loads,
    meters::Meters,
    share::Places,
};
use crate::{
    job::{Push, PushPause, Topic, UnixMillis},
    queue::Queue,
    store::{Clock, StoreError},
};

/// Parts that all pushes of a server share.
pub struct Shared {
    pub queue: Arc<Queue>,
    pub client: Client,
    pub places: Places,
    pub loads: Arc<Loads>,
    pub meters: Meters,
    /// When cancelled, requests under way end, and their jobs are given back.
    pub abort: CancellationToken,
    /// Workers, requests, and the transitions after them.
    pub tasks: TaskTracker,
}

impl Shared {
    /// Pauses a push whose requests have failed for days, unless a client has paused it or another
    /// server had a job accepted.
    pub async fn pause_failing(&self, topic: &Topic) {
        let now = Clock::Own.now().floor;
        let change = |push: Option<&Push>| {
            let push = push?;
            let works = is_within(push.accepted_at, now, MAX_FAILING_TIME);
            let paused = push.paused.or(Some(PushPause::Failing).filter(|_| !works));
            Some(Push { paused, ..push.clone() })
        };
        let done = self.queue.change_push::<StoreError>(topic, |push| Ok(change(push))).await;
        match done {
            Ok(Some(Push { paused: Some(PushPause::Failing), .. })) => {
                tracing::warn!(%topic, "paused a push: its requests have failed for five days");
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(%topic, %error, "failed to pause a failing push"),
        }
    }

    /// Notes in a push that a job was accepted, so that no other server pauses it.
    pub async fn note_acceptance(&self, topic: &Topic) {
        let now = Clock::Own.now().floor;
        let is_noted = |push: &Push| is_within(push.accepted_at, now, NOTE_INTERVAL);
        if self.queue.push_of(topic).is_none_or(|push| is_noted(&push)) {
            return;
        }
        let change = |push: Option<&Push>| Some(Push { accepted_at: Some(now), ..push?.clone() });
        let done = self.queue.change_push::<StoreError>(topic, |push| Ok(change(push))).await;
        if let Err(error) = done {
            tracing::debug!(%topic, %error, "failed to note that a push works");
        }
    }
}

/// Returns whether a time is at most this long ago.
fn is_within(at: Option<UnixMillis>, now: UnixMillis, time: Duration) -> bool {
    at.is_some_and(|at| Duration::from(now.since(at)) < time)
}
