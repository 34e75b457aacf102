//! A queue in memory, for tests of applications. Only the test moves its clock.
//!
//! The application gets an ordinary [`Queue`], so nothing else in it changes:
//!
//! ```
//! # use std::time::Duration;
//! use delay_queue_client::{BoxError, Job, Queue, Worker, fake::Fake};
//!
//! async fn remind(job: Job<u32>) -> Result<(), BoxError> {
//!     println!("customer {} forgot the cart", job.body);
//!     Ok(())
//! }
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), BoxError> {
//! let fake = Fake::new();
//! let queue: Queue = fake.queue();
//! queue.put("reminders", &7).delay(Duration::from_secs(900)).await?;
//!
//! let worker = Worker::new(queue).on("reminders", remind);
//! assert!(fake.run_due(&worker).await.is_empty());
//! fake.advance(Duration::from_secs(900));
//! assert_eq!(fake.run_due(&worker).await.len(), 1);
//! # Ok(()) }
//! ```
//!
//! It has puts, gets, cancellations, topic settings and everything that workers call; no pushes,
//! schedules or limits, and no history. Exponential backoffs have no jitter.

mod job;
mod jobs;
mod put;
pub(crate) mod server;

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, SystemTime},
};

use serde::de::IgnoredAny;

use self::server::Server;
use crate::{
    Queue, Worker, batch,
    transport::Transport,
    value::time,
    worker::{Ack, Verb, outcome},
};

/// The fake of a server.
#[derive(Clone, Debug)]
pub struct Fake {
    server: Arc<Server>,
}

/// An attempt that [`Fake::run_due`] ran.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ran {
    /// Id of the job.
    pub id: String,
    /// Number of the attempt.
    pub attempt: u32,
    /// End of the attempt.
    pub ended: Ended,
    /// Text of the error, or reason of the bury.
    pub error: Option<String>,
}

/// End of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The handler returned `Ok`.
    Finished,
    /// It returned an error, or panicked.
    Released,
    /// It returned [`Bury`](crate::Bury), or the body did not fit.
    Buried,
    /// It returned [`Snooze`](crate::Snooze).
    Snoozed,
}

impl Default for Fake {
    fn default() -> Self {
        Fake::new()
    }
}

impl Fake {
    /// Returns an empty queue whose clock shows the present.
    pub fn new() -> Self {
        Fake::at(time::now())
    }

    /// Returns an empty queue whose clock shows this time.
    pub fn at(now: SystemTime) -> Self {
        Fake { server: Arc::new(Server::new(now)) }
    }

    /// Returns the queue for the application.
    pub fn queue(&self) -> Queue {
        Queue::with(Transport::Fake(Arc::clone(&self.server)), Duration::ZERO)
    }

    /// Returns the time of its clock.
    pub fn now(&self) -> SystemTime {
        self.server.now()
    }

    /// Moves its clock. TTRs, expiries and retentions end as at a server.
    pub fn advance(&self, duration: Duration) {
        self.server.advance(duration);
    }

    /// Runs the handlers of a worker with each job that is due, once, by priority, then due time,
    /// one after another. Jobs that become due meanwhile are included.
    pub async fn run_due(&self, worker: &Worker) -> Vec<Ran> {
        let queue = self.queue();
        let topics: Vec<&str> = worker.handlers().iter().map(|(topic, _)| topic.as_str()).collect();
        let mut ran = Vec::new();
        let mut ids = HashSet::new();
        while let Some(job) = self.server.pop_next(&topics, &ids) {
            ids.insert(job.id.clone());
            let (reserved, attempt) = (job.reserved(), job.attempt);
            let handler = worker.handlers().iter().find(|(topic, _)| *topic == job.topic);
            let Some((_, handler)) = handler.cloned() else { continue };
            let handled = tokio::spawn(async move { handler.call(job).await }).await;
            let mut ack = Ack::new(reserved, outcome(handled), None);
            ran.push(Ran {
                id: ack.fields.id.clone(),
                attempt,
                ended: ended(&ack),
                error: ack.fields.error.clone(),
            });
            // As a worker does if the result is not kept; a job that its handler has deleted is
            // gone.
            if !is_taken(&queue, &ack).await && ack.fields.result.take().is_some() {
                is_taken(&queue, &ack).await;
            }
        }
        ran
    }
}

async fn is_taken(queue: &Queue, ack: &Ack) -> bool {
    let answers = batch::send::<_, IgnoredAny>(queue, ack.verb.name(), &[&ack.fields]).await;
    answers.is_ok_and(|answers| answers.iter().all(Result::is_ok))
}

fn ended(ack: &Ack) -> Ended {
    match ack.verb {
        Verb::Finish => Ended::Finished,
        Verb::Bury => Ended::Buried,
        Verb::Release if ack.fields.error.is_none() => Ended::Snoozed,
        Verb::Release => Ended::Released,
    }
}
