//! Samples of calls for tests with constructed histories.

use crate::faults::prelude::*;

/// Returns a put into the topic `t` whose job has three attempts.
pub fn put(id: Option<&str>, body: &str, delay: Duration) -> Ask {
    let (topic, server, max_attempts, expires_after) = ("t", 0, 3, None);
    let (id, body) = (id.map(Text::from), Text::from(body));
    Ask::Put { topic, server, id, body, delay, max_attempts, expires_after }
}

/// Returns the delivery of a job of the topic `t`, with a TTR of a second.
pub fn delivery(id: &str, attempt: u32, due_at: i64, popped_at: i64) -> Delivery {
    Delivery {
        topic: "t",
        id: id.into(),
        body: format!("body of {id}").into(),
        attempt,
        reservation: format!("r{attempt}").into(),
        due_at,
        reserved_until: popped_at + 1000,
        ttr: Duration::from_secs(1),
        expires_at: None,
    }
}

/// Returns a pop of the topic `t` with this result.
pub fn pop(jobs: impl IntoIterator<Item = Delivery>) -> (Ask, StoreResult) {
    let popped = StoreResult::Done(Answer::Popped(jobs.into_iter().collect()));
    (Ask::Pop { topic: "t", server: 0 }, popped)
}
