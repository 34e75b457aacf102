//! Workers: they pop jobs, run handlers and acknowledge the results.

mod ack;
mod acknowledge;
mod attempt;
mod consumer;
mod failure;
mod handler;
mod hold;
mod outage;
mod pop;
mod shutdown;

use std::{future::Future, pin::pin, sync::Arc, time::Duration};

use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    sync::{Semaphore, mpsc, watch},
    task::JoinSet,
    time::timeout,
};

pub(crate) use self::ack::Ack;
#[cfg(feature = "fake")]
pub(crate) use self::{ack::Verb, attempt::outcome};
use self::{acknowledge::Acknowledger, attempt::AbortOnDrop, handler::Handler, outage::Outage};
pub use self::{
    failure::{BoxError, Bury, Snooze},
    shutdown::shutdown_signal,
};
use crate::{Error, Job, Queue};

/// Time for the outcomes that are left after the grace, if the server is unavailable.
const LAST_OUTCOMES: Duration = Duration::from_secs(5);

/// A worker: handlers by topic, and how many of them run at once.
///
/// A handler takes a [`Job`] and returns a `Result`:
///
/// - `Ok` finishes the job. A value other than `()` is its result, if the job is kept.
/// - [`Bury`] and [`Snooze`], also as the [source](std::error::Error::source) of another error,
///   bury the job or give it back for later.
/// - Any other error, or a panic, releases the job with its text, for the job's backoff.
///
/// The worker touches a job at a third of its TTR. If the reservation is lost, or at the end of
/// the grace at shutdown, it drops the future of the handler at its next `.await`.
#[derive(Debug)]
#[must_use = "a worker does nothing until it runs"]
pub struct Worker {
    queue: Queue,
    /// In the order of the topics in a pop.
    handlers: Vec<(String, Handler)>,
    concurrency: usize,
    grace: Duration,
    wait: Duration,
    consumer: String,
}

/// Parts that the loops of a running worker share.
#[derive(Debug)]
struct Shared {
    queue: Queue,
    /// In the order of the topics in a pop.
    handlers: Vec<(String, Handler)>,
    wait: Duration,
    consumer: String,
    /// One permit for each handler that may run.
    slots: Arc<Semaphore>,
    /// Each slot has at most one outcome here.
    acks: mpsc::UnboundedSender<Ack>,
    outage: Arc<Outage>,
    phase: watch::Receiver<Phase>,
}

/// Part of a worker's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Running,
    /// The grace is over: handlers are cancelled.
    Cancelling,
    /// The outcomes that the server has not answered are lost.
    Ending,
}

impl Shared {
    /// Waits for this phase.
    async fn reaches(&self, phase: Phase) {
        let mut current = self.phase.clone();
        // The sender lives as long as the worker.
        let _ = current.wait_for(|current| *current >= phase).await;
    }
}

impl Worker {
    /// Returns a worker without handlers.
    pub fn new(queue: Queue) -> Self {
        let consumer = consumer::name();
        let (grace, wait) = (Duration::from_secs(25), Duration::from_secs(20));
        Worker { queue, handlers: Vec::new(), concurrency: 16, grace, wait, consumer }
    }

    /// Sets how many handlers run at once, at least 1. Default: 16.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = concurrency.clamp(1, Semaphore::MAX_PERMITS);
        self
    }

    /// Sets how long running handlers may continue after the shutdown began. Default: 25 s.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Sets how long a pop waits for a job at the server, up to 60 s. Default: 20 s.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Sets the name that the server shows with the jobs of this worker: up to 64 of
    /// `A-Z a-z 0-9 . _ : @ / -`; others become `-`. Default: the host and the process id.
    pub fn consumer(mut self, consumer: impl Into<String>) -> Self {
        self.consumer = consumer::allowed(&consumer.into());
        self
    }

    /// Sets the handler of a topic. Jobs of topics that were set earlier are popped first.
    pub fn on<T, F, Fut, R, E>(mut self, topic: impl Into<String>, handler: F) -> Self
    where
        T: DeserializeOwned + Send + 'static,
        F: Fn(Job<T>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, E>> + Send + 'static,
        R: Serialize,
        E: Into<BoxError> + 'static,
    {
        let topic = topic.into();
        self.handlers.retain(|(other, _)| *other != topic);
        self.handlers.push((topic, Handler::new(handler)));
        self
    }

    /// Runs until this future is ready, for instance [`shutdown_signal`]. Then the worker pops no
    /// more jobs. Running handlers have the grace to end; after that they are cancelled, and their
    /// jobs are given back at once, without counting the attempt.
    ///
    /// To drop the returned future instead cancels the handlers at once, and their jobs wait for
    /// the end of their TTR.
    ///
    /// # Errors
    ///
    /// The refusal of the first pop: the URL, the token, a topic or another setting is wrong.
    /// Later failures are logged and retried.
    pub async fn run_until(self, shutdown: impl Future) -> Result<(), Error> {
        if self.handlers.is_empty() {
            let reason = "the worker has no handler; set one with Worker::on".to_owned();
            return Err(Error::Usage { field: "topics", reason });
        }
        let (acks, receiver) = mpsc::unbounded_channel();
        let (phase, running) = watch::channel(Phase::Running);
        let outage = Arc::new(Outage::default());
        let acknowledger =
            Acknowledger::new(self.queue.clone(), Arc::clone(&outage), receiver).run();
        let _acknowledger = AbortOnDrop(tokio::spawn(acknowledger));
        let slots = Arc::new(Semaphore::new(self.concurrency));
        let Worker { queue, handlers, wait, consumer, grace, .. } = self;
        let shared =
            Shared { queue, handlers, wait, consumer, slots, acks, outage, phase: running };

        let mut attempts = JoinSet::new();
        let popped = pop::until(&Arc::new(shared), &mut attempts, pin!(shutdown)).await;
        for (time, next) in [(grace, Phase::Cancelling), (LAST_OUTCOMES, Phase::Ending)] {
            if timeout(time, ended(&mut attempts)).await.is_err() {
                phase.send_replace(next);
            }
        }
        ended(&mut attempts).await;
        popped
    }

    #[cfg(feature = "fake")]
    pub(crate) fn handlers(&self) -> &[(String, Handler)] {
        &self.handlers
    }
}

async fn ended(attempts: &mut JoinSet<()>) {
    while attempts.join_next().await.is_some() {}
}
