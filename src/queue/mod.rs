//! The service: what clients may ask for, over any store.
//!
//! Everything goes by buckets: a call finds the bucket of each job, joins what else goes there
//! (`coalescer`), and tells those it concerns (`waiters`, `timer`). Nothing here knows HTTP or a
//! kind of store, or reads a clock to decide anything.

mod addressed;
mod coalescer;
mod error;
mod handed;
mod lane;
mod news;
mod pop;
mod put;
mod readiness;
mod stats;
mod timer;
mod topic_settings;
mod topics;
mod turn;
mod unanswered;
mod waiters;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::future::join_all;
use tokio::runtime::Handle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{
    addressed::Addressed,
    handed::WayBack,
    lane::{Lane, Scene},
    news::Listen,
    stats::Stats,
    timer::{Bell, Timer},
    topic_settings::{Follow, Topics},
    turn::Turn,
    waiters::Waiters,
};
use crate::{
    job::{Bucket, Change, Defaults, IdMaker, Job, JobId, Refusal, State, Topic, UnixMillis},
    store::{Bury, Held, Moved, Outcome, Release, Reply, Store, StoreError, Touch},
};

pub use coalescer::Coalescer;
pub use error::QueueError;
pub use handed::Handed;
pub use pop::Pop;
pub use put::Put;
pub use readiness::Readiness;
pub use stats::Since;
pub use topics::{Listed, Position};

/// How the queue behaves.
#[derive(Debug, Clone)]
pub struct QueueSettings {
    /// What applies to jobs that do not say.
    pub defaults: Defaults,
    /// Whether finish, release, touch and bury demand a reservation.
    pub require_reservation: bool,
    /// The longest sleep of a timer.
    pub max_sleep: Duration,
}

/// The queue.
pub struct Queue {
    store: Arc<dyn Store>,
    settings: QueueSettings,
    ids: IdMaker,
    /// Whose turn it is to take jobs without an id.
    turn: Turn,
    lanes: Vec<Lane>,
    bells: Vec<Arc<Bell>>,
    waiters: Arc<Waiters>,
    topics: Arc<Topics>,
    stats: Arc<Stats>,
    /// Waiting pops are answered empty from now on.
    no_waiting: CancellationToken,
    /// Timers end, and what could not be given back yet is tried once more.
    stopping: CancellationToken,
    timers: TaskTracker,
    /// Calls to the store, and jobs on their way back.
    calls: TaskTracker,
}

impl Queue {
    /// Starts the queue and its timers on the current runtime.
    ///
    /// # Errors
    /// The store's: what is set for topics must be known before the first job is handed out.
    pub async fn start(store: Arc<dyn Store>, settings: QueueSettings) -> Outcome<Self> {
        let topics = Arc::new(Topics::new(store.settings(0).await?));
        let buckets = store.buckets();
        let teller = Arc::clone(&store);
        let tell = Box::new(move |hint| teller.tell(hint));
        let waiters = Arc::new(Waiters::new(buckets, tell));
        let bells: Vec<Arc<Bell>> = buckets.all().map(|_| Arc::new(Bell::new())).collect();
        let calls = TaskTracker::new();
        let stopping = CancellationToken::new();
        let stats = Arc::new(Stats::default());
        let scenes: Vec<Scene> = buckets
            .all()
            .map(|bucket| Scene {
                bucket,
                store: Arc::clone(&store),
                bell: Arc::clone(&bells[bucket.index()]),
                waiters: Arc::clone(&waiters),
                calls: calls.clone(),
                stats: Arc::clone(&stats),
            })
            .collect();
        let way_back = Arc::new(WayBack {
            buckets,
            give_back: scenes.iter().map(Scene::give_back).collect(),
            tasks: calls.clone(),
            runtime: Handle::current(),
            stop: stopping.clone(),
        });
        let queue = Self {
            lanes: scenes.iter().map(|scene| scene.lane(&way_back)).collect(),
            store,
            settings,
            ids: IdMaker::default(),
            turn: Turn::default(),
            bells,
            waiters,
            topics,
            stats,
            no_waiting: CancellationToken::new(),
            stopping,
            timers: TaskTracker::new(),
            calls,
        };
        queue.start_timers();
        Ok(queue)
    }

    fn start_timers(&self) {
        for bucket in self.store.buckets().all() {
            let timer = Timer {
                bucket,
                store: Arc::clone(&self.store),
                bell: Arc::clone(&self.bells[bucket.index()]),
                waiters: Arc::clone(&self.waiters),
                stats: Arc::clone(&self.stats),
                max_sleep: self.settings.max_sleep,
            };
            self.timers.spawn(timer.run(self.stopping.clone()));
        }
        let follow = Follow {
            store: Arc::clone(&self.store),
            topics: Arc::clone(&self.topics),
            waiters: Arc::clone(&self.waiters),
            pause: self.settings.max_sleep,
        };
        self.timers.spawn(follow.run(self.stopping.clone()));
        if let Some(heard) = self.store.hear() {
            let listen = Listen {
                heard,
                store: Arc::clone(&self.store),
                bells: self.bells.clone(),
                waiters: Arc::clone(&self.waiters),
                topics: Arc::clone(&self.topics),
            };
            self.timers.spawn(listen.run(self.stopping.clone()));
        }
    }

    /// Answers every waiting pop, and each one from now on, at once.
    pub fn stop_waiting(&self) {
        self.no_waiting.cancel();
    }

    /// Ends the timers, waits for calls and for what they give back, and closes the store.
    pub async fn stop(&self) {
        self.stop_waiting();
        self.stopping.cancel();
        self.timers.close();
        self.timers.wait().await;
        self.calls.close();
        self.calls.wait().await;
        self.store.close().await;
    }

    /// Finishes jobs; answers their topics. Like all of these: each job has its own outcome, in the
    /// order given.
    pub async fn finish(&self, jobs: Vec<Held>) -> Vec<Result<Topic, QueueError>> {
        self.each(jobs, |lane| &lane.finish).await
    }

    /// Releases jobs.
    pub async fn release(&self, jobs: Vec<Release>) -> Vec<Result<Moved, QueueError>> {
        self.each(jobs, |lane| &lane.release).await
    }

    /// Stretches reservations; answers when they end.
    pub async fn touch(&self, jobs: Vec<Touch>) -> Vec<Result<UnixMillis, QueueError>> {
        self.each(jobs, |lane| &lane.touch).await
    }

    /// Buries jobs.
    pub async fn bury(&self, jobs: Vec<Bury>) -> Vec<Result<Moved, QueueError>> {
        self.each(jobs, |lane| &lane.bury).await
    }

    /// Kicks jobs; answers their topics.
    pub async fn kick(&self, jobs: Vec<JobId>) -> Vec<Result<Topic, QueueError>> {
        self.each(jobs, |lane| &lane.kick).await
    }

    /// Deletes jobs; answers the states they were in.
    pub async fn delete(&self, jobs: Vec<JobId>) -> Vec<Result<State, QueueError>> {
        self.each(jobs, |lane| &lane.delete).await
    }

    /// Reschedules jobs; answers them as they are then.
    pub async fn reschedule(&self, jobs: Vec<(JobId, Change)>) -> Vec<Result<Job, QueueError>> {
        self.each(jobs, |lane| &lane.reschedule).await
    }

    /// Reads a job.
    ///
    /// # Errors
    /// `NotFound`, or the store's.
    pub async fn get(&self, id: JobId) -> Result<Job, QueueError> {
        let bucket = self.store.buckets().of(&id);
        let job = self.store.get(bucket, id).await?;
        job.ok_or(QueueError::Refused(Refusal::NotFound))
    }

    /// Sends each job to its bucket, all buckets at once.
    async fn each<I, O>(
        &self,
        jobs: Vec<I>,
        coalescer: impl Fn(&Lane) -> &Coalescer<I, Reply<O>>,
    ) -> Vec<Result<O, QueueError>>
    where
        I: Addressed + Send + 'static,
        O: Send + 'static,
    {
        let mut replies: Vec<Option<Result<O, QueueError>>> = Vec::new();
        replies.resize_with(jobs.len(), || None);
        let mut by_bucket: BTreeMap<Bucket, (Vec<usize>, Vec<I>)> = BTreeMap::new();
        for (index, job) in jobs.into_iter().enumerate() {
            if self.settings.require_reservation && job.lacks_reservation() {
                replies[index] = Some(Err(QueueError::ReservationRequired));
                continue;
            }
            let (places, jobs) = by_bucket.entry(self.store.buckets().of(job.id())).or_default();
            places.push(index);
            jobs.push(job);
        }
        let calls = by_bucket.into_iter().map(|(bucket, (places, jobs))| {
            let call = coalescer(&self.lanes[bucket.index()]).submit_parts(jobs);
            async move { (places, call.await) }
        });
        for (places, outcomes) in join_all(calls).await {
            for (index, outcome) in places.into_iter().zip(outcomes) {
                replies[index] = Some(match outcome {
                    Ok(reply) => reply.map_err(QueueError::Refused),
                    Err(error) => Err(QueueError::Store(error)),
                });
            }
        }
        let missing = || Err(StoreError::unreadable("fewer replies than jobs").into());
        replies.into_iter().map(|reply| reply.unwrap_or_else(missing)).collect()
    }
}
