//! One attempt of a job: runs the handler, keeps the reservation, and passes on the outcome.

use std::{sync::Arc, time::Duration};

use tokio::{
    select,
    sync::{OwnedSemaphorePermit, oneshot},
    task::{JoinError, JoinHandle},
    time::{Instant, timeout},
};
use tracing::warn;

use super::{
    Phase, Shared,
    ack::Ack,
    failure,
    handler::{Handler, Outcome},
    hold::Hold,
};
use crate::job::{Popped, Reserved};

/// Time that a cancelled handler has to reach its next `.await` at shutdown.
const CANCELLED: Duration = Duration::from_secs(1);

/// Handle that aborts its task when it is dropped.
#[derive(Debug)]
pub(super) struct AbortOnDrop<T>(pub(super) JoinHandle<T>);

impl<T> AbortOnDrop<T> {
    /// Aborts the task, and waits until its future is dropped. Returns the result of a task that
    /// had already ended.
    async fn cancelled(mut self) -> Option<Result<T, JoinError>> {
        self.0.abort();
        let ended = (&mut self.0).await;
        let is_cancelled = matches!(&ended, Err(error) if error.is_cancelled());
        (!is_cancelled).then_some(ended)
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Runs the handler of a job that was popped at this instant. Frees the slot once the server has
/// answered the outcome.
pub(super) async fn run(
    shared: Arc<Shared>,
    handler: Handler,
    job: Popped,
    popped_at: Instant,
    slot: OwnedSemaphorePermit,
) {
    let reserved = job.reserved();
    let (id, topic) = (&reserved.id, &reserved.topic);
    let mut hold = Hold::new(&shared, &reserved, popped_at);
    // A task of its own, so that a handler that blocks its thread does not block the touches.
    let mut work = AbortOnDrop(tokio::spawn(async move { handler.call(job).await }));
    let outcome = select! {
        biased;
        ended = &mut work.0 => outcome(ended),
        reason = hold.keep() => {
            warn!(job = id, topic, "{id} lost its reservation, so its handler is cancelled: {reason}");
            work.cancelled().await;
            return;
        }
        () = shared.reaches(Phase::Cancelling) => {
            let ended = timeout(CANCELLED, work.cancelled()).await.unwrap_or_else(|_| {
                warn!(job = id, topic, "the handler of {id} runs on: it reaches no .await");
                None
            });
            ended.map_or(Outcome::Snooze(Duration::ZERO), outcome)
        }
    };
    acknowledge(&shared, &reserved, hold, outcome).await;
    drop(slot);
}

/// Gives a job back for which no handler was started. The attempt does not count.
pub(super) async fn give_back(shared: Arc<Shared>, job: Popped) {
    let reserved = job.reserved();
    let hold = Hold::new(&shared, &reserved, Instant::now());
    acknowledge(&shared, &reserved, hold, Outcome::Snooze(Duration::ZERO)).await;
}

/// Passes on the outcome, and holds the job until the server has answered.
async fn acknowledge(shared: &Shared, reserved: &Reserved, mut hold: Hold<'_>, outcome: Outcome) {
    let (answered, answer) = oneshot::channel();
    // The receiver ends after all attempts.
    let _ = shared.acks.send(Ack::new(reserved.clone(), outcome, Some(answered)));
    let held = async {
        // The outcome may still be accepted after the reservation is lost.
        hold.keep().await;
        std::future::pending::<()>().await;
    };
    select! {
        biased;
        _ = answer => {}
        () = held => {}
        () = shared.reaches(Phase::Ending) => {
            let (id, topic) = (&reserved.id, &reserved.topic);
            warn!(job = id, topic, "the outcome of {id} is lost, and the job will run again: the worker stops while the server is unavailable");
        }
    }
}

/// Returns the outcome of a handler whose task has ended.
pub(crate) fn outcome(ended: Result<Outcome, JoinError>) -> Outcome {
    ended.unwrap_or_else(|error| match error.try_into_panic() {
        Ok(payload) => failure::panicked(&*payload),
        Err(_) => Outcome::Release("the runtime of the worker has stopped".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_had_ended_keeps_its_result() {
        let ended = tokio::spawn(async { 7 });
        let panicked = tokio::spawn(async { panic!("a test") });
        let runs = tokio::spawn(std::future::pending::<()>());
        while !ended.is_finished() || !panicked.is_finished() {
            tokio::task::yield_now().await;
        }
        assert_eq!(AbortOnDrop(ended).cancelled().await.and_then(Result::ok), Some(7));
        let panicked: Option<Result<(), _>> = AbortOnDrop(panicked).cancelled().await;
        assert!(panicked.is_some_and(|ended| ended.is_err_and(|error| error.is_panic())));
        assert!(AbortOnDrop(runs).cancelled().await.is_none());
    }
}
