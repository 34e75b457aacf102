//! The queue: its parts, how they start, and how they stop.

use std::{sync::Arc, time::Duration};

use prometheus_client::registry::Registry;
use tokio::{
    runtime::Handle,
    sync::{Notify, Semaphore},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    batching::sticky::StickyBucket,
    context::Context,
    delivery::{peeks::Peeks, pending_delivery::Returner, unanswered::Unanswered},
    figures::{
        last_errors::LastErrors, lateness::Lateness, stats::Stats, store_checks::StoreChecks,
        survey::Surveys,
    },
    metrics,
    settings_cache::{Refresher, TopicSettingsCache},
    timer::{Timer, handle::TimerHandle, hint_listener::HintListener},
    transitions::Transitions,
    waiters::Waiters,
    watches::{Watcher, Watches},
};
use crate::{
    job::{IdMaker, Policy, ReservationKey},
    store::{Store, StoreResult},
};

/// Settings of the queue.
#[derive(Debug, Clone)]
pub struct QueueSettings {
    /// Policy of a job, for fields that neither its put nor its topic sets.
    pub defaults: Policy,
    /// Whether finish, release, touch and bury require a reservation.
    pub require_reservation: bool,
    /// Longest sleep of the timer.
    pub poll_interval: Duration,
}

/// The queue of one store.
pub struct Queue {
    pub(super) store: Arc<dyn Store>,
    pub(super) settings: QueueSettings,
    pub(super) ids: IdMaker,
    /// Chooses the buckets of jobs without an id.
    pub(super) sticky: StickyBucket,
    pub(super) transitions: Transitions,
    /// Indexed by bucket.
    pub(super) unanswered: Arc<[Arc<Unanswered>]>,
    pub(super) timer: Arc<TimerHandle>,
    pub(super) waiters: Arc<Waiters>,
    pub(super) peeks: Peeks,
    pub(super) topics: Arc<TopicSettingsCache>,
    pub(super) stats: Arc<Stats>,
    pub(super) lateness: Arc<Lateness>,
    pub(super) last_errors: LastErrors,
    pub(super) watches: Arc<Watches>,
    /// Notified when this or another server has changed schedules.
    pub(super) schedules_changed: Arc<Notify>,
    pub(super) surveys: Arc<Surveys>,
    pub(super) checks: StoreChecks,
    /// Limits steps that compare jobs with a filter to one at a time.
    pub(super) filter_turns: Semaphore,
    /// When cancelled, waiting pops return without jobs.
    pub(super) no_waiting: CancellationToken,
    /// When cancelled, timers end, and undelivered jobs are given back in one last attempt.
    stopping: CancellationToken,
    timers: TaskTracker,
    /// Calls of the store, and the return of undelivered jobs.
    pub(super) calls: TaskTracker,
}

impl Queue {
    /// Starts the queue and its timers on the current runtime, and registers the metrics of the
    /// queue and its store in `registry`.
    ///
    /// # Errors
    /// The error of the store: topic settings must be known before the first job is delivered.
    pub async fn start(
        store: Arc<dyn Store>,
        settings: QueueSettings,
        registry: &mut Registry,
    ) -> StoreResult<Self> {
        let topics = Arc::new(TopicSettingsCache::new(store.settings(0).await?));
        let buckets = store.buckets();
        let publisher = Arc::clone(&store);
        let publish = Box::new(move |hint| publisher.publish(hint));
        let waiters = Arc::new(Waiters::new(buckets, publish));
        let context = Context {
            store: Arc::clone(&store),
            timer: Arc::new(TimerHandle::new(buckets)),
            waiters: Arc::clone(&waiters),
            calls: TaskTracker::new(),
            stats: Arc::default(),
            lateness: Arc::default(),
        };
        let surveys = Arc::default();
        metrics::register(registry, &context, &surveys, &topics);
        let stopping = CancellationToken::new();
        let returner = Arc::new(Returner {
            unpop: context.unpop(),
            tasks: context.calls.clone(),
            runtime: Handle::current(),
            stop: stopping.clone(),
        });
        let unanswered = |bucket| Unanswered::new(bucket, context.clone(), stopping.clone());
        let unanswered = buckets.all().map(unanswered).map(Arc::new).collect();
        let Context { timer, calls, stats, lateness, .. } = context.clone();
        let queue = Self {
            transitions: context.transitions(&returner, &unanswered),
            unanswered,
            timer,
            store,
            settings,
            ids: IdMaker::default(),
            sticky: StickyBucket::default(),
            waiters,
            peeks: Peeks::new(&context),
            topics,
            stats,
            lateness,
            last_errors: LastErrors::default(),
            watches: Arc::default(),
            schedules_changed: Arc::default(),
            surveys,
            checks: StoreChecks::default(),
            filter_turns: Semaphore::new(1),
            no_waiting: CancellationToken::new(),
            stopping,
            timers: TaskTracker::new(),
            calls,
        };
        queue.start_timers().await;
        Ok(queue)
    }

    async fn start_timers(&self) {
        // Must come first: an export or import does not begin while a server has joined.
        let hints = match self.store.shared() {
            Some(shared) => shared.join().await,
            None => None,
        };
        let timer = Timer {
            store: Arc::clone(&self.store),
            handle: Arc::clone(&self.timer),
            waiters: Arc::clone(&self.waiters),
            stats: Arc::clone(&self.stats),
            poll_interval: self.settings.poll_interval,
        };
        self.timers.spawn(timer.run(self.stopping.clone()));
        let refresher = Refresher {
            store: Arc::clone(&self.store),
            topics: Arc::clone(&self.topics),
            waiters: Arc::clone(&self.waiters),
            pause: self.settings.poll_interval,
        };
        self.timers.spawn(refresher.run(self.stopping.clone()));
        let watcher =
            Watcher { store: Arc::clone(&self.store), watches: Arc::clone(&self.watches) };
        self.timers.spawn(watcher.run(self.stopping.clone()));
        self.timers.spawn(walk(Arc::clone(&self.store), self.stopping.clone()));
        if let Some(hints) = hints {
            let listener = HintListener {
                hints,
                store: Arc::clone(&self.store),
                timer: Arc::clone(&self.timer),
                waiters: Arc::clone(&self.waiters),
                topics: Arc::clone(&self.topics),
                schedules_changed: Arc::clone(&self.schedules_changed),
            };
            self.timers.spawn(listener.run(self.stopping.clone()));
        }
    }

    /// Ends all waiting pops. From then on, every pop is answered at once.
    pub fn stop_waiting(&self) {
        self.no_waiting.cancel();
    }

    /// Ends the timers, waits for calls and the return of undelivered jobs, and closes the store.
    pub async fn stop(&self) {
        self.stop_waiting();
        self.stopping.cancel();
        self.timers.close();
        self.timers.wait().await;
        self.calls.close();
        self.calls.wait().await;
        self.store.close().await;
    }

    /// Returns the key of the tags that clients get with their reservations.
    pub fn reservation_key(&self) -> Arc<ReservationKey> {
        self.store.reservation_key()
    }
}

/// Looks through the jobs of a shared store after restarts of its nodes, until `stop`.
async fn walk(store: Arc<dyn Store>, stop: CancellationToken) {
    let steps = async {
        while let Some(shared) = store.shared() {
            tokio::time::sleep(shared.walk().await).await;
        }
    };
    tokio::select! {
        () = steps => {}
        () = stop.cancelled() => {}
    }
}
