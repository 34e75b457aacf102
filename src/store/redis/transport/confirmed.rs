//! Writes that are answered only when a replica, or the disk, has them.
//!
//! `WAIT` and `WAITAOF` speak for the writes of their own connection alone, and block it. So
//! these writes have a connection that carries nothing else: whatever has come goes down it as one
//! batch with one WAIT behind it, and meanwhile the next batch gathers.
//!
//! Since Redis 7.2 they wait only for the last command of the connection that propagated. A call
//! that changed nothing (a put that kept the living job), or a new connection, would be confirmed at
//! once, though what it answers from is on no replica. So a write that always propagates goes
//! directly before each WAIT.

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

/// Most calls of one batch.
const MOST: usize = 64;
/// The time between two commands that keep an idle connection open. Redis' setting `timeout` closes
/// connections after one idle second at the earliest.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_millis(500);
/// A connection that has been idle for longer is tried before the next batch.
const TRIED_AFTER: Duration = Duration::from_millis(10);
/// A write that always propagates: its one field comes and goes. It begins by freeing, so a full
/// Redis takes it as well.
const PROPAGATE: &str =
    "if redis.call('HDEL',KEYS[1],'f')==0 then redis.call('HSET',KEYS[1],'f','') end";

/// The way of confirmed writes to one server.
pub struct Confirmed {
    connection: Arc<Connection>,
    queue: mpsc::UnboundedSender<Order>,
    by: Confirmation,
    /// What was written last is not confirmed.
    is_unsure: Arc<AtomicBool>,
    _task: AbortOnDropHandle<()>,
}

/// A write, and a key in its slot that may change with its confirmation.
pub struct Write {
    pub command: Cmd,
    pub key: String,
}

struct Order {
    write: Write,
    reply: oneshot::Sender<Result<Value, Failure>>,
}

impl Confirmed {
    /// On a connection that carries nothing else.
    pub fn new(connection: Arc<Connection>, by: Confirmation, has_one_slot: bool) -> Self {
        let (queue, orders) = mpsc::unbounded_channel();
        let keys = if has_one_slot { 1 } else { MOST };
        let is_unsure = Arc::<AtomicBool>::default();
        let writer = Writer {
            connection: Arc::clone(&connection),
            by,
            keys,
            last_keys: Vec::new(),
            sure_of: None,
            is_unsure: Arc::clone(&is_unsure),
            used: Instant::now(),
        };
        let task = AbortOnDropHandle::new(tokio::spawn(writer.run(orders)));
        Self { connection, queue, by, is_unsure, _task: task }
    }

    pub fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Refuses while what was written last is not confirmed.
    pub fn check(&self) -> Result<(), Failure> {
        match self.is_unsure.load(Ordering::Relaxed) {
            true => Err(away(format!("{} confirms what was written before", self.by.who()))),
            false => Ok(()),
        }
    }

    /// Has a write done and confirmed.
    pub async fn write(&self, write: Write) -> Result<Value, Failure> {
        let (reply, replied) = oneshot::channel();
        let gone = || away("the server is not used any more");
        self.queue.send(Order { write, reply }).map_err(|_| gone())?;
        // The writer ends only between two batches, or with the whole store.
        let lost = |_| Failure {
            remedy: Remedy::FindMaster,
            error: StoreError::unknown("the server is not used any more"),
        };
        replied.await.unwrap_or_else(|error| Err(lost(error)))
    }
}

struct Writer {
    connection: Arc<Connection>,
    by: Confirmation,
    /// Most keys of a batch that are changed for its confirmation. Where there are no slots one will
    /// do; on a cluster, one for each slot of the batch, since any of them may be on the move.
    keys: usize,
    /// What was changed for the last confirmation.
    last_keys: Vec<String>,
    /// The number of the connection whose last write was confirmed.
    sure_of: Option<u64>,
    /// See [`Confirmed`].
    is_unsure: Arc<AtomicBool>,
    /// When the connection was last used.
    used: Instant,
}

impl Writer {
    async fn run(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        let mut batch = Vec::new();
        loop {
            match timeout(KEEP_ALIVE_INTERVAL, orders.recv_many(&mut batch, MOST)).await {
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

    /// Keeps the idle connection open, has a closed one replaced, and has earlier writes confirmed
    /// before the next batch needs that.
    async fn keep_alive(&mut self) {
        let is_usable = self.try_connection().await.is_ok();
        let number = self.connection.number();
        let is_sure = self.sure_of == number || self.last_keys.is_empty();
        if is_usable && number.is_some() && !is_sure {
            let confirmed = self.confirm_former(&self.last_keys).await;
            self.sure_of = confirmed.ok().and(number);
        }
        self.used = Instant::now();
        self.note_confirmation();
    }

    fn note_confirmation(&self) {
        let is_unsure = self.sure_of.is_none() && !self.last_keys.is_empty();
        self.is_unsure.store(is_unsure, Ordering::Relaxed);
    }

    /// Tries the connection, and waits while one that was closed is replaced: a batch that meets a
    /// closed connection would end unknown, although it was never carried out.
    async fn try_connection(&self) -> Result<(), Failure> {
        // Needs no right that the store does not need anyway, as PING would.
        match self.connection.command(&redis::cmd("TIME")).await {
            Err(Failure { remedy: Remedy::FindMaster, .. }) => {
                // Without a connection the batch is refused.
                drop(timeout(CONNECT_TIMEOUT, self.connection.reconnected()).await);
                Ok(())
            }
            Err(failure) if failure.error.applied() == Applied::Unknown => {
                self.connection.renew("the server does not answer");
                Err(away(&failure.error))
            }
            Ok(_) | Err(_) => Ok(()), // it answers
        }
    }

    /// Writes a batch and waits for its confirmation. While the last one is missing, nothing is
    /// written: so an outage of the replica leaves one batch unknown, and refuses all others.
    async fn write(&mut self, writes: Vec<Write>) -> Result<Vec<Result<Value, Failure>>, Failure> {
        if self.used.elapsed() > TRIED_AFTER {
            self.try_connection().await?;
        }
        let number = self.connection.number();
        let (commands, mut keys): (Vec<Cmd>, Vec<String>) =
            writes.into_iter().map(|write| (write.command, write.key)).unzip();
        keys.sort_unstable();
        keys.dedup();
        keys.truncate(self.keys);
        if self.sure_of != number {
            self.confirm_former(&keys).await?;
        }
        self.sure_of = None;
        self.last_keys = keys;
        let sent = self.send(commands, &self.last_keys, CONFIRM_TIMEOUT_MS).await;
        let (answers, confirmation) = match sent {
            Ok(sent) => sent,
            Err(failure) => {
                // WAIT ends by itself long before: the next batch would wait in vain as well.
                self.connection.renew("the server does not answer");
                return Err(failure);
            }
        };
        if matches!(confirmation, Waited::Confirmed) {
            self.sure_of = number;
            return Ok(answers);
        }
        let unconfirmed = || Failure {
            remedy: Remedy::BackOff,
            error: StoreError::unknown(format!("written, but {} has confirmed it", self.by.who())),
        };
        // What was refused is refused.
        Ok(answers.into_iter().map(|answer| answer.and_then(|_| Err(unconfirmed()))).collect())
    }

    /// Has every earlier write on this server confirmed.
    async fn confirm_former(&self, keys: &[String]) -> Result<(), Failure> {
        let sent = self.send(Vec::new(), keys, self.by.short_patience()).await;
        let (_, confirmation) = sent.map_err(|failure| {
            self.connection.renew("the server does not answer");
            away(&failure.error)
        })?;
        match confirmation {
            Waited::Confirmed => Ok(()),
            Waited::Missing => {
                Err(away(format!("{} confirms what was written before", self.by.who())))
            }
            // The keys of the batch are elsewhere, or nothing may be written: the same would
            // have become of the batch.
            Waited::Refused(Failure { remedy, error }) => Err(Failure { remedy, ..away(&error) }),
            Waited::Failed(failure) => {
                // It is no master any more, or its AOF is off: a new connection finds that out.
                self.connection.renew("the server confirms nothing");
                Err(away(&failure.error))
            }
        }
    }

    /// Sends commands, then for each of these keys a write that propagates, then the one WAIT.
    /// Nothing is known if the connection fails.
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
            marks if marks.iter().any(Result::is_ok) => Ok(Vec::new()),
            marks => marks.into_iter().collect(),
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

/// What became of a WAIT.
enum Waited {
    /// One, at least, has everything.
    Confirmed,
    /// It did not come in time.
    Missing,
    /// The WAIT itself is refused.
    Failed(Failure),
    /// No write before it propagated, so it says nothing.
    Refused(Failure),
}

fn away(cause: impl ToString) -> Failure {
    Failure { remedy: Remedy::BackOff, error: StoreError::away(cause) }
}
