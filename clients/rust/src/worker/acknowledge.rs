//! The loop that sends outcomes, gathered into batches: one request of each kind at a time, with
//! what has gathered since the last one.

use std::sync::Arc;

use serde::de::IgnoredAny;
use tokio::{
    select,
    sync::mpsc::UnboundedReceiver,
    time::{Instant, sleep_until},
};
use tracing::{error, warn};

use super::{
    ack::{Ack, Verb},
    outage::Outage,
};
use crate::{Applied, Error, Queue, batch};

/// Bytes of one request, unless a single outcome has more.
const MAX_BYTES: usize = 1 << 20;

pub(super) struct Acknowledger {
    queue: Queue,
    outage: Arc<Outage>,
    receiver: UnboundedReceiver<Ack>,
    waiting: Vec<Ack>,
    /// Topics whose results are not kept, after one warning.
    warned: Vec<String>,
}

impl Acknowledger {
    pub(super) fn new(queue: Queue, outage: Arc<Outage>, receiver: UnboundedReceiver<Ack>) -> Self {
        Acknowledger { queue, outage, receiver, waiting: Vec::new(), warned: Vec::new() }
    }

    /// Sends outcomes until every sender is dropped, which then wait for no answer.
    pub(super) async fn run(mut self) {
        while self.gather().await {
            let now = Instant::now();
            for verb in [Verb::Finish, Verb::Release, Verb::Bury] {
                loop {
                    let batch = self.take(verb, now);
                    if batch.is_empty() {
                        break;
                    }
                    self.send(verb, batch).await;
                }
            }
        }
    }

    /// Waits until an outcome may be sent. Returns false when every sender is dropped.
    async fn gather(&mut self) -> bool {
        let next = self.waiting.iter().map(|ack| ack.not_before).min();
        let wake = async {
            match next {
                Some(next) => sleep_until(next).await,
                None => std::future::pending().await,
            }
        };
        select! {
            biased;
            count = self.receiver.recv_many(&mut self.waiting, batch::MAX_JOBS) => count > 0,
            () = wake => true,
        }
    }

    /// Takes the outcomes of the next request of a kind.
    fn take(&mut self, verb: Verb, now: Instant) -> Vec<Ack> {
        let (mut count, mut bytes) = (0, 0);
        self.waiting
            .extract_if(.., |ack| {
                let size = ack.size();
                let is_taken = ack.verb == verb
                    && ack.not_before <= now
                    && count < batch::MAX_JOBS
                    && (count == 0 || bytes + size <= MAX_BYTES);
                if is_taken {
                    (count, bytes) = (count + 1, bytes + size);
                }
                is_taken
            })
            .collect()
    }

    async fn send(&mut self, verb: Verb, acks: Vec<Ack>) {
        let fields: Vec<_> = acks.iter().map(|ack| &ack.fields).collect();
        let answers = batch::send::<_, IgnoredAny>(&self.queue, verb.name(), &fields).await;
        match answers {
            Ok(answers) => {
                self.outage.succeeded();
                for (ack, answer) in acks.into_iter().zip(answers) {
                    if let Err(error) = answer {
                        self.failed(ack, &error);
                    }
                }
            }
            Err(error) => {
                self.outage.failed(&error);
                for ack in acks {
                    self.failed(ack, &error);
                }
            }
        }
    }

    fn failed(&mut self, mut ack: Ack, error: &Error) {
        let (id, topic, verb) = (&ack.fields.id, &ack.topic, ack.verb.name());
        match error.status() {
            // An earlier attempt was applied, although its answer was lost.
            Some(404 | 409) if ack.is_unknown => {}
            Some(404 | 409) => {
                warn!(job = id, topic, "{id} lost its reservation before its {verb}: {error}");
            }
            Some(413 | 422) if ack.fields.result.is_some() => {
                if !self.warned.contains(topic) {
                    warn!(
                        job = id,
                        topic,
                        "{id} is finished without its result, as later ones of {topic} may be: {error}"
                    );
                    self.warned.push(topic.clone());
                }
                ack.fields.result = None;
                self.waiting.push(ack);
            }
            // Another token may come, and the touches end if it does not.
            _ if error.is_passing() || matches!(error.status(), Some(401 | 403)) => {
                ack.is_unknown |= error.applied() == Applied::Unknown;
                ack.not_before = Instant::now() + ack.backoff.wait(error.retry_after());
                self.waiting.push(ack);
            }
            _ => error!(job = id, topic, "{id} may run again, for its {verb} was refused: {error}"),
        }
    }
}
