//! Writes that are answered only after a replica or the disk has them.
//!
//! `WAIT` and `WAITAOF` cover only the writes of their own connection, and block it. So confirmed
//! writes have a separate connection. All waiting writes are sent on it as one batch, followed by
//! one WAIT. New writes wait for the next batch.
//!
//! Since Redis 7.2, these commands wait only for the connection's last command that was propagated
//! to replicas and the AOF. After a call that changed nothing (a put that kept an existing job), or
//! on a new connection, they would confirm at once, even if no replica has the data that the answer
//! reports. So each WAIT follows a write that is always propagated.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use redis::{Cmd, Pipeline, Value};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};
use tokio_util::task::AbortOnDropHandle;

use super::{
    confirmation::{CONFIRM_TIMEOUT_MS, Confirmation},
    connection::Connection,
    dialer::CONNECT_TIMEOUT,
    error::{Failure, Remedy},
};
use crate::store::{Applied, StoreError};

/// Maximum number of calls in a batch.
const MAX_BATCH_CALLS: usize = 64;
/// Time between two commands that keep an idle connection open. The Redis setting `timeout` closes
/// connections after one idle second at the earliest.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_millis(500);
/// Idle time after which a connection is tested before the next batch.
const TEST_AFTER_IDLE: Duration = Duration::from_millis(10);
/// Write that is always propagated: it deletes or sets one field. It begins with a delete, so that
/// even a full Redis accepts it.
const PROPAGATE: &str =
    "if redis.call('HDEL',KEYS[1],'f')==0 then redis.call('HSET',KEYS[1],'f','') end";

/// Sender of confirmed writes to one server.
pub struct Confirmed {
    connection: Arc<Connection>,
    queue: mpsc::UnboundedSender<Order>,
    by: Confirmation,
    /// Whether the last write is unconfirmed.
    is_unconfirmed: Arc<AtomicBool>,
    _task: AbortOnDropHandle<()>,
}

/// A command, and a key in its slot that the confirmation may change.
pub struct Write {
    pub command: Cmd,
    pub key: String,
}

/// A write, and the channel of the caller that waits for its answer.
struct Order {
    write: Write,
    reply: oneshot::Sender<Result<Value, Failure>>,
}

impl Confirmed {
    /// Starts the writer on a connection that carries no other commands.
    /// `calls` is the other connection to the same server.
    pub fn new(
        connection: Arc<Connection>,
        calls: Arc<Connection>,
        by: Confirmation,
        has_one_slot: bool,
    ) -> Self {
        let (queue, orders) = mpsc::unbounded_channel();
        let max_keys = if has_one_slot { 1 } else { MAX_BATCH_CALLS };
        let is_unconfirmed = Arc::<AtomicBool>::default();
        let writer = Writer {
            connection: Arc::clone(&connection),
            calls,
            by,
            max_keys,
            last_keys: Vec::new(),
            confirmed_on: None,
            is_unconfirmed: Arc::clone(&is_unconfirmed),
            used: Instant::now(),
        };
        let task = AbortOnDropHandle::new(tokio::spawn(writer.run(orders)));
        Self { connection, queue, by, is_unconfirmed, _task: task }
    }

    pub fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Fails while the last write is unconfirmed.
    pub fn check(&self) -> Result<(), Failure> {
        match self.is_unconfirmed.load(Ordering::Relaxed) {
            true => Err(unavailable(format!("{} confirms earlier writes", self.by.subject()))),
            false => Ok(()),
        }
    }

    /// Sends a write and waits for its confirmation.
    pub async fn write(&self, write: Write) -> Result<Value, Failure> {
        let (reply, replied) = oneshot::channel();
        let gone = || unavailable("this server no longer belongs to the store");
        self.queue.send(Order { write, reply }).map_err(|_| gone())?;
        // The writer ends only between two batches, or together with the whole store.
        let lost = |_| Failure {
            remedy: Remedy::FindMaster,
            error: StoreError::unknown("this server no longer belongs to the store"),
        };
        replied.await.unwrap_or_else(|error| Err(lost(error)))
    }
}

/// Task that sends batches of writes on its connection, one after another.
struct Writer {
    connection: Arc<Connection>,
    calls: Arc<Connection>,
    by: Confirmation,
    /// Maximum number of keys that the confirmation of a batch changes. Without slots, one key is
    /// enough. On a cluster, each slot of the batch needs a key, because any slot may be migrating.
    max_keys: usize,
    /// Keys changed for the last confirmation.
    last_keys: Vec<String>,
    /// Number of the connection whose last write was confirmed, if any.
    confirmed_on: Option<u64>,
    /// Shared with [`Confirmed`].
    is_unconfirmed: Arc<AtomicBool>,
    /// Time of the connection's last use.
    used: Instant,
}

impl Writer {
    async fn run(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        let mut batch = Vec::new();
        loop {
            match timeout(KEEP_ALIVE_INTERVAL, orders.recv_many(&mut batch, MAX_BATCH_CALLS)).await
            {
                Ok(0) => return,
                Ok(_) => {}
                Err(_) => {
                    self.keep_alive().await;
                    continue;
                }
            }
            let (writes, replies): (Vec<Write>, Vec<_>) =
                batch.drain(..).map(|order| (order.write, order.reply)).unzip();
            let answers = match self.write(writes).await {
                Ok(answers) => answers,
                Err(failure) => replies.iter().map(|_| Err(failure.clone())).collect(),
            };
            self.used = Instant::now();
            self.note_confirmation();
            for (reply, answer) in replies.into_iter().zip(answers) {
                let _ = reply.send(answer); // the caller may have gone
            }
        }
    }

    /// Keeps the idle connection open, waits until a closed one is replaced, and confirms earlier
    /// writes in advance, so that the next batch need not wait for this.
    async fn keep_alive(&mut self) {
        let is_usable = self.try_connection().await.is_ok();
        let number = self.connection.number();
        let is_confirmed = self.confirmed_on == number || self.last_keys.is_empty();
        if is_usable && number.is_some() && !is_confirmed {
            let confirmed = self.confirm_earlier(&self.last_keys).await;
            self.confirmed_on = confirmed.ok().and(number);
        }
        self.used = Instant::now();
        self.note_confirmation();
    }

    /// Replaces both connections to a server that does not answer. If only one were replaced, a
    /// call of two steps could wait for each of them in turn.
    fn give_up_silent(&self) {
        for connection in [&self.connection, &self.calls] {
            connection.renew("the server does not answer");
        }
    }

    fn note_confirmation(&self) {
        let is_unconfirmed = self.confirmed_on.is_none() && !self.last_keys.is_empty();
        self.is_unconfirmed.store(is_unconfirmed, Ordering::Relaxed);
    }

    /// Tests the connection, and waits while a closed one is replaced. A batch on a closed
    /// connection would have an unknown outcome, although the server never executed it.
    async fn try_connection(&self) -> Result<(), Failure> {
        // Does not send PING, which would need another right; the store needs the right to TIME
        // anyway.
        match self.connection.command(&redis::cmd("TIME")).await {
            Err(Failure { remedy: Remedy::FindMaster, .. }) => {
                // Without a connection the batch is refused.
                drop(timeout(CONNECT_TIMEOUT, self.connection.reconnected()).await);
                Ok(())
            }
            Err(failure) if failure.error.applied() == Applied::Unknown => {
                self.give_up_silent();
                Err(unavailable(&failure.error))
            }
            Ok(_) | Err(_) => Ok(()), // it answers
        }
    }

    /// Writes a batch and waits for its confirmation. Writes nothing while the last confirmation is
    /// missing. So during an outage of the replica, one batch has an unknown outcome, and all
    /// others are refused.
    async fn write(&mut self, writes: Vec<Write>) -> Result<Vec<Result<Value, Failure>>, Failure> {
        if self.used.elapsed() > TEST_AFTER_IDLE {
            self.try_connection().await?;
        }
        let number = self.connection.number();
        let (commands, mut keys): (Vec<Cmd>, Vec<String>) =
            writes.into_iter().map(|write| (write.command, write.key)).unzip();
        keys.sort_unstable();
        keys.dedup();
        keys.truncate(self.max_keys);
        if self.confirmed_on != number {
            self.confirm_earlier(&keys).await?;
        }
        self.confirmed_on = None;
        self.last_keys = keys;
        let sent = self.send(commands, &self.last_keys, CONFIRM_TIMEOUT_MS).await;
        let (answers, confirmation) = match sent {
            Ok(sent) => sent,
            Err(failure) => {
                // WAIT would have timed out long before, so the server does not answer at all.
                self.give_up_silent();
                return Err(failure);
            }
        };
        if matches!(confirmation, Waited::Confirmed) {
            self.confirmed_on = number;
            return Ok(answers);
        }
        let unconfirmed = || Failure {
            remedy: Remedy::BackOff,
            error: StoreError::unknown(format!(
                "written, but {} has confirmed it",
                self.by.subject()
            )),
        };
        // Refused calls keep their error; all other calls get an unknown outcome.
        Ok(answers.into_iter().map(|answer| answer.and_then(|_| Err(unconfirmed()))).collect())
    }

    /// Waits until every earlier write on this server is confirmed.
    async fn confirm_earlier(&self, keys: &[String]) -> Result<(), Failure> {
        let sent = self.send(Vec::new(), keys, self.by.short_timeout()).await;
        let (_, confirmation) = sent.map_err(|failure| {
            self.give_up_silent();
            unavailable(&failure.error)
        })?;
        match confirmation {
            Waited::Confirmed => Ok(()),
            Waited::Missing => {
                Err(unavailable(format!("{} confirms earlier writes", self.by.subject())))
            }
            // The keys of the batch have moved, or the server refuses writes: the batch itself
            // would have failed for the same reason.
            Waited::Refused(Failure { remedy, error }) => {
                Err(Failure { remedy, ..unavailable(&error) })
            }
            Waited::Failed(failure) => {
                // The server is no longer a master, or its AOF is off. The checks of a new
                // connection detect both.
                self.connection.renew("the server confirms nothing");
                Err(unavailable(&failure.error))
            }
        }
    }

    /// Sends commands, then a write that is propagated for each of these keys, then one WAIT. If
    /// the connection fails, all results are unknown.
    async fn send(
        &self,
        commands: Vec<Cmd>,
        keys: &[String],
        patience: u32,
    ) -> Result<(Vec<Result<Value, Failure>>, Waited), Failure> {
        let count = commands.len();
        let mut pipeline = Pipeline::with_capacity(count + keys.len() + 1);
        for command in commands {
            pipeline.add_command(command);
        }
        for key in keys {
            pipeline.cmd("EVAL").arg(PROPAGATE).arg(1).arg(key);
        }
        pipeline.add_command(self.by.command(patience));
        let mut answers = self.connection.pipeline(&pipeline).await?;
        let waited = answers.pop();
        let propagated: Result<Vec<Value>, Failure> = match answers.split_off(count) {
            replies if replies.iter().any(Result::is_ok) => Ok(Vec::new()),
            replies => replies.into_iter().collect(),
        };
        let confirmation = match (propagated, waited) {
            (Err(failure), _) => Waited::Refused(failure),
            (Ok(_), Some(Ok(waited))) if self.by.is_confirmed(&waited) => Waited::Confirmed,
            (Ok(_), Some(Err(failure))) => Waited::Failed(failure),
            (Ok(_), _) => Waited::Missing,
        };
        Ok((answers, confirmation))
    }
}

/// Result of a WAIT.
enum Waited {
    /// A replica, or the AOF, has all writes.
    Confirmed,
    /// The confirmation did not arrive in time.
    Missing,
    /// The server refused the WAIT itself.
    Failed(Failure),
    /// No write before the WAIT was propagated, so its answer proves nothing.
    Refused(Failure),
}

fn unavailable(cause: impl ToString) -> Failure {
    Failure { remedy: Remedy::BackOff, error: StoreError::unavailable(cause) }
}
