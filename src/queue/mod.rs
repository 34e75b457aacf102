//! The service: what clients may ask for, over any store.
//!
//! A transition finds the bucket of each job and joins what else goes to the same server of the store
//! (`batching`), and tells what follows from it (`transitions`) to the timer and to waiting
//! pops. Nothing here knows HTTP or a kind of store, or reads a clock to decide anything.

mod batching;
mod context;
mod delivery;
mod error;
mod figures;
mod pop;
mod put;
mod timer;
mod topic_settings;
mod topics;
mod transitions;

use std::{sync::Arc, time::Duration};

use prometheus_client::registry::Registry;
use tokio::runtime::Handle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{
    batching::{dispatcher::Dispatcher, has_job_id::HasJobId, sticky::StickyBucket},
    context::Context,
    delivery::{
        peeks::Peeks, pending_delivery::Returner, unanswered::Unanswered, waiters::Waiters,
    },
    figures::{
        last_errors::LastErrors, lateness::Lateness, metrics, readiness::Checks, stats::Stats,
        survey::Surveys,
    },
    timer::{Timer, handle::TimerHandle, hint_listener::HintListener},
    topic_settings::{Refresher, TopicSettingsCache},
    transitions::Transitions,
};
use crate::{
    job::{Change, IdMaker, Job, JobId, Policy, Refusal, ReservationKey, State, Topic, UnixMillis},
    store::{
        Bury, Claim, Clock, Release, Reply, Store, StoreError, StoreResult, Target, Touch,
        Transitioned,
    },
};

pub use batching::coalescer::Coalescer;
pub use delivery::pending_delivery::PendingDelivery;
pub use error::QueueError;
pub use figures::{
    last_errors::LastError, lateness::LateMinute, readiness::Readiness, stats::Counters,
    survey::Survey,
};
pub use pop::Pop;
pub use put::Put;
pub use topics::{Listed, Position};

/// How long after it was given up a call may still be carried out: by a server that stood still, or
/// over a network that did.
const LATE_CALL: Duration = Duration::from_secs(60);

/// How the queue behaves.
#[derive(Debug, Clone)]
pub struct QueueSettings {
    /// What applies to jobs that do not say.
    pub defaults: Policy,
    /// Whether finish, release, touch and bury demand a reservation.
    pub require_reservation: bool,
    /// The longest sleep of a timer.
    pub poll_interval: Duration,
}

/// The queue.
pub struct Queue {
    store: Arc<dyn Store>,
    settings: QueueSettings,
    ids: IdMaker,
    /// Which buckets take jobs without an id.
    sticky: StickyBucket,
    transitions: Transitions,
    /// By bucket.
    unanswered: Arc<[Arc<Unanswered>]>,
    timer: Arc<TimerHandle>,
    waiters: Arc<Waiters>,
    peeks: Peeks,
    topics: Arc<TopicSettingsCache>,
    stats: Arc<Stats>,
    lateness: Arc<Lateness>,
    last_errors: LastErrors,
    surveys: Arc<Surveys>,
    checks: Checks,
    /// Waiting pops are answered empty from now on.
    no_waiting: CancellationToken,
    /// Timers end, and what could not be given back yet is tried once more.
    stopping: CancellationToken,
    timers: TaskTracker,
    /// Calls to the store, and jobs on their way back.
    calls: TaskTracker,
}

impl Queue {
    /// Starts the queue and its timers on the current runtime. Its metrics, and its store's, are in
    /// `registry` from then on.
    ///
    /// # Errors
    /// The store's: topic settings must be known before the first job is delivered.
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
            surveys,
            checks: Checks::default(),
            no_waiting: CancellationToken::new(),
            stopping,
            timers: TaskTracker::new(),
            calls,
        };
        queue.start_timers().await;
        Ok(queue)
    }

    async fn start_timers(&self) {
        // First of all: from here on no export or import begins.
        let heard = match self.store.shared() {
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
        let follow = Refresher {
            store: Arc::clone(&self.store),
            topics: Arc::clone(&self.topics),
            waiters: Arc::clone(&self.waiters),
            pause: self.settings.poll_interval,
        };
        self.timers.spawn(follow.run(self.stopping.clone()));
        if let Some(heard) = heard {
            let listen = HintListener {
                heard,
                store: Arc::clone(&self.store),
                timer: Arc::clone(&self.timer),
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

    /// The key of the tags that clients get with their reservations.
    pub fn reservation_key(&self) -> Arc<ReservationKey> {
        self.store.reservation_key()
    }

    /// Finishes jobs; answers their topics. Like all of these: each job has its own outcome, in the
    /// order given.
    pub async fn finish(&self, jobs: Vec<Claim>) -> Vec<Result<Topic, QueueError>> {
        self.each(jobs, &self.transitions.finish).await
    }

    /// Releases jobs.
    pub async fn release(&self, jobs: Vec<Release>) -> Vec<Result<Transitioned, QueueError>> {
        let errors = errors(&jobs, |job| (&job.held.id, job.error.as_deref()));
        let done = self.each(jobs, &self.transitions.release).await;
        self.note_errors(errors, &done);
        done
    }

    /// Extends reservations; answers when they end.
    pub async fn touch(&self, jobs: Vec<Touch>) -> Vec<Result<UnixMillis, QueueError>> {
        self.each(jobs, &self.transitions.touch).await
    }

    /// Buries jobs.
    pub async fn bury(&self, jobs: Vec<Bury>) -> Vec<Result<Transitioned, QueueError>> {
        let errors = errors(&jobs, |job| (&job.held.id, job.error.as_deref()));
        let done = self.each(jobs, &self.transitions.bury).await;
        self.note_errors(errors, &done);
        done
    }

    /// Notes the errors of jobs that moved.
    fn note_errors(
        &self,
        errors: Vec<(usize, JobId, String)>,
        done: &[Result<Transitioned, QueueError>],
    ) {
        for (index, id, error) in errors {
            if let Some(Ok(moved)) = done.get(index) {
                let at = Clock::Own.now().floor;
                self.last_errors.note(at, &moved.topic, id, moved.state, &error);
            }
        }
    }

    /// Kicks jobs; answers their topics.
    pub async fn kick(&self, jobs: Vec<Target>) -> Vec<Result<Topic, QueueError>> {
        self.each(jobs, &self.transitions.kick).await
    }

    /// Deletes jobs; answers the states they were in.
    pub async fn delete(&self, jobs: Vec<Target>) -> Vec<Result<State, QueueError>> {
        self.each(jobs, &self.transitions.delete).await
    }

    /// Reschedules jobs; answers them as they are then.
    pub async fn reschedule(&self, jobs: Vec<(Target, Change)>) -> Vec<Result<Job, QueueError>> {
        self.each(jobs, &self.transitions.reschedule).await
    }

    /// Reads a job that its caller may reach.
    ///
    /// # Errors
    /// `NotFound`, or the store's.
    pub async fn get(&self, target: Target) -> Result<Job, QueueError> {
        let bucket = self.store.buckets().of(&target.id);
        let job = self.store.get(bucket, target).await?;
        job.ok_or(QueueError::Refused(Refusal::NotFound))
    }

    /// Has each job done that may be; the others lack a reservation.
    async fn each<I, O>(
        &self,
        jobs: Vec<I>,
        dispatcher: &Dispatcher<I, Reply<O>>,
    ) -> Vec<Result<O, QueueError>>
    where
        I: HasJobId + Send + 'static,
        O: Send + 'static,
    {
        let lacks = |job: &I| self.settings.require_reservation && job.lacks_reservation();
        let refused: Vec<bool> = jobs.iter().map(lacks).collect();
        let jobs = jobs.into_iter().zip(&refused).filter(|(_, refused)| !**refused);
        let mut outcomes = dispatcher.submit(jobs.map(|(job, _)| job).collect()).await.into_iter();
        let reply = |refused: bool| {
            if refused {
                return Err(QueueError::ReservationRequired);
            }
            let missing = || Err(StoreError::unreadable("fewer replies than jobs"));
            let outcome = outcomes.next().unwrap_or_else(missing);
            outcome.map_err(QueueError::Store)?.map_err(QueueError::Refused)
        };
        refused.into_iter().map(reply).collect()
    }
}

/// The errors among these jobs: the index of each, its id, and the text.
fn errors<J>(jobs: &[J], of: fn(&J) -> (&JobId, Option<&str>)) -> Vec<(usize, JobId, String)> {
    let each = jobs.iter().map(of).enumerate();
    each.filter_map(|(index, (id, text))| Some((index, id.clone(), text?.to_owned()))).collect()
}
