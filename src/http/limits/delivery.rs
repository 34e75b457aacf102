//! The jobs of an answer to a pop, until the client has them.

use std::sync::{Arc, Mutex};

use axum::response::Response;

use crate::{http::problem::Problem, queue::PendingDelivery, store::Applied};

/// The jobs of an answer, in its extensions. They belong to the client as soon as the first bytes
/// of the answer are taken for writing. If the answer is dropped before, the jobs are given back.
#[derive(Clone)]
pub struct Delivery(Arc<Mutex<Option<PendingDelivery>>>);

impl Delivery {
    /// Creates the delivery. Dropping its last clone gives the jobs back, unless `keep` was called.
    pub fn new(pending: PendingDelivery) -> Self {
        Self(Arc::new(Mutex::new(Some(pending))))
    }

    /// Leaves the jobs to the client.
    pub fn keep(&self) {
        self.take().map(PendingDelivery::keep);
    }

    fn take(&self) -> Option<PendingDelivery> {
        self.0.lock().expect("no thread panics while holding this lock").take()
    }
}

/// Gives jobs back whose pop is refused after all. Returns the problem, which says that nothing has
/// changed only if the store has taken the jobs.
pub async fn refuse(delivery: PendingDelivery, problem: Problem) -> Problem {
    match delivery.give_back().await {
        true => problem,
        false => Problem { applied: Applied::Unknown, ..problem },
    }
}

/// Refuses an answer that is complete, and gives its jobs back if it has any.
pub async fn refuse_answer(mut answer: Response, problem: Problem) -> Problem {
    let delivery = answer.extensions_mut().remove::<Delivery>().and_then(|jobs| jobs.take());
    match delivery {
        Some(delivery) => refuse(delivery, problem).await,
        None => problem,
    }
}
