//! Connection to one node that receives the hints of its buckets.

use std::{sync::Arc, time::Duration};

use redis::{Pipeline, PushInfo, PushKind, Value};
use tokio::sync::mpsc;

use super::{Outbox, RETRY_INTERVAL};
use crate::{
    job::Bucket,
    store::{Hint, redis::topology::Connector},
};

/// Time without a message after which the connection is tested. Because timers poll, a missing hint
/// delays a job by at most the poll interval.
const SILENCE: Duration = Duration::from_secs(3);

pub struct Subscriber {
    pub connector: Connector,
    pub outbox: Arc<Outbox>,
    pub buckets: Vec<usize>,
    pub heard: mpsc::Sender<Hint>,
}

impl Subscriber {
    /// Listens, connects again after each failure, and never ends.
    pub async fn run(self) {
        let mut last_warned = String::new();
        loop {
            let ended = self.listen().await;
            if let Err(cause) = ended {
                // Timers poll meanwhile, so a lasting failure is harmless: it is logged once per
                // cause.
                if cause != last_warned {
                    tracing::warn!(
                        cause,
                        "lost the subscription to hints; falling back to polling"
                    );
                    last_warned = cause;
                }
            }
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }

    /// Listens until the connection ends, or a channel moves to another node.
    async fn listen(&self) -> Result<(), String> {
        let host = self.connector.endpoint.host().await.map_err(|error| error.to_string())?;
        let (pushes, mut pushed) = mpsc::unbounded_channel();
        let dialed = self.connector.dialer.listen(&host, pushes).await;
        let mut connection = dialed.map_err(|error| error.to_string())?;
        let mut pipeline = Pipeline::new();
        let channel = |bucket: &usize| self.outbox.channels[*bucket].0.as_str();
        for bucket in &self.buckets {
            pipeline.cmd("SSUBSCRIBE").arg(channel(bucket));
        }
        let subscribed = connection.send_packed_commands(&pipeline, 0, pipeline.len()).await;
        let subscribed = subscribed.and_then(|all| {
            all.into_iter().map(Value::extract_error).collect::<Result<Vec<_>, _>>()
        });
        subscribed.map_err(|error| error.to_string())?;
        let count = u16::try_from(self.outbox.channels.len()).unwrap_or(u16::MAX);
        let all: Vec<Bucket> =
            crate::job::Buckets::try_from(count).map_err(|e| e.to_string())?.all().collect();
        let buckets = self.buckets.iter().map(|bucket| (channel(bucket), all[*bucket])).collect();
        loop {
            let push = tokio::select! {
                push = pushed.recv() => push,
                () = tokio::time::sleep(SILENCE) => {
                    // A former or frozen master would never send anything. Unlike PING, TIME needs
                    // only a right that the store needs anyway.
                    let answer = connection.send_packed_command(&redis::cmd("TIME")).await;
                    answer.map_err(|error| error.to_string())?;
                    match self.connector.endpoint.is_still(&host) {
                        true => continue,
                        false => return Ok(()),
                    }
                }
            };
            let Some(PushInfo { kind, data }) = push else { return Ok(()) };
            match (kind, &data[..]) {
                (PushKind::SMessage, [Value::BulkString(channel), Value::BulkString(text)]) => {
                    let (channel, text) =
                        (String::from_utf8_lossy(channel), String::from_utf8_lossy(text));
                    for hint in self.outbox.read(&channel, &text, &buckets) {
                        // If the queue is full, the hint is dropped, because timers poll anyway.
                        drop(self.heard.try_send(hint));
                    }
                }
                (PushKind::Disconnection | PushKind::SUnsubscribe, _) => return Ok(()),
                _ => {}
            }
        }
    }
}
