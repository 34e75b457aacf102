//! Writes that are answered only when a replica, or the disk, has them.
//!
//! `WAIT` and `WAITAOF` speak for the writes of their own connection alone, and block it. So
//! these writes have a connection that carries nothing else: whatever has come goes down it as one
//! batch with one WAIT behind it, and meanwhile the next batch gathers.

use std::sync::Arc;

use redis::{Cmd, Pipeline, Value};
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;

use super::{
    connection::{Connection, Failure},
    error::Remedy,
};
use crate::store::StoreError;

/// How long a confirmation may take, in milliseconds. Shorter than any answer may take.
const PATIENCE: u32 = 2_000;
/// Most calls of one batch.
const MOST: usize = 64;

/// What confirms a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// One replica has it in memory.
    Replica,
    /// The server's own AOF is synced to its disk (Redis 7.2 or newer).
    Aof,
}

impl By {
    pub fn command(self, patience: u32) -> Cmd {
        let mut cmd = match self {
            Self::Replica => redis::cmd("WAIT"),
            Self::Aof => redis::cmd("WAITAOF"),
        };
        cmd.arg(1);
        if self == Self::Aof {
            cmd.arg(0);
        }
        cmd.arg(patience);
        cmd
    }

    /// How long a confirmation may take when nothing new has been written, in milliseconds. Mostly
    /// it is there already; a replica on a busy machine is asked, and needs a moment; an AOF may be
    /// synced only every second.
    fn short_patience(self) -> u32 {
        match self {
            Self::Replica => 1_000,
            Self::Aof => PATIENCE,
        }
    }

    /// Whether the answer to the command says that one, at least, has it.
    pub fn is_confirmed(self, answer: &Value) -> bool {
        let count = match (self, answer) {
            (Self::Replica, count) => Some(count),
            (Self::Aof, Value::Array(counts)) => counts.first(),
            (Self::Aof, _) => None,
        };
        matches!(count, Some(Value::Int(1..)))
    }

    fn who(self) -> &'static str {
        match self {
            Self::Replica => "no replica",
            Self::Aof => "not the disk",
        }
    }
}

/// The way of confirmed writes to one server.
pub struct Confirmed {
    connection: Arc<Connection>,
    queue: mpsc::UnboundedSender<Order>,
    _task: AbortOnDropHandle<()>,
}

struct Order {
    command: Cmd,
    reply: oneshot::Sender<Result<Value, Failure>>,
}

impl Confirmed {
    /// On a connection that carries nothing else.
    pub fn new(connection: Arc<Connection>, by: By) -> Self {
        let (queue, orders) = mpsc::unbounded_channel();
        let writer = Writer { connection: Arc::clone(&connection), by, sure_of: None };
        Self { connection, queue, _task: AbortOnDropHandle::new(tokio::spawn(writer.run(orders))) }
    }

    /// Completes when there is a connection.
    pub async fn up(&self) {
        self.connection.up().await;
    }

    /// Has a write done and confirmed.
    pub async fn command(&self, command: Cmd) -> Result<Value, Failure> {
        let (reply, replied) = oneshot::channel();
        let gone = || away("the server is not used any more");
        self.queue.send(Order { command, reply }).map_err(|_| gone())?;
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
    by: By,
    /// The number of the connection whose last write was confirmed.
    sure_of: Option<u64>,
}

impl Writer {
    async fn run(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        let mut batch = Vec::new();
        while orders.recv_many(&mut batch, MOST).await > 0 {
            let (commands, replies): (Vec<Cmd>, Vec<_>) =
                batch.drain(..).map(|order| (order.command, order.reply)).unzip();
            let answers = match self.write(commands).await {
                Ok(answers) => answers,
                Err(failure) => replies.iter().map(|_| Err(failure.clone())).collect(),
            };
            for (reply, answer) in replies.into_iter().zip(answers) {
                let _ = reply.send(answer); // whoever is gone needs no answer
            }
        }
    }

    /// Writes a batch and waits for its confirmation. While the last one is missing, nothing is
    /// written: so an outage of the replica leaves one batch unknown, and refuses all others.
    async fn write(&mut self, commands: Vec<Cmd>) -> Result<Vec<Result<Value, Failure>>, Failure> {
        let number = self.connection.number();
        if self.sure_of != number {
            let answer = self.connection.command(&self.by.command(self.by.short_patience())).await;
            if let Err(failure) = &answer {
                // It is no master any more, or its AOF is off: a new connection finds that out.
                self.connection.renew("the server confirms nothing");
                return Err(away(&failure.error));
            }
            if !matches!(answer, Ok(answer) if self.by.is_confirmed(&answer)) {
                return Err(away(format!("{} confirms what was written before", self.by.who())));
            }
        }
        self.sure_of = None;
        let mut pipeline = Pipeline::with_capacity(commands.len() + 1);
        for command in commands {
            pipeline.add_command(command);
        }
        pipeline.add_command(self.by.command(PATIENCE));
        let mut answers = match self.connection.pipeline(&pipeline).await {
            Ok(answers) => answers,
            Err(failure) => {
                // WAIT ends by itself long before: the next batch would wait in vain as well.
                self.connection.renew("the server does not answer");
                return Err(failure);
            }
        };
        if matches!(answers.pop(), Some(Ok(answer)) if self.by.is_confirmed(&answer)) {
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
}

fn away(cause: impl ToString) -> Failure {
    Failure { remedy: Remedy::BackOff, error: StoreError::away(cause) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_count_of_one_or_more_confirms() {
        let array = |counts: &[i64]| Value::Array(counts.iter().map(|n| Value::Int(*n)).collect());
        assert!(By::Replica.is_confirmed(&Value::Int(1)));
        assert!(By::Replica.is_confirmed(&Value::Int(2)));
        assert!(!By::Replica.is_confirmed(&Value::Int(0)));
        assert!(!By::Replica.is_confirmed(&Value::Okay));
        assert!(By::Aof.is_confirmed(&array(&[1, 0])));
        assert!(!By::Aof.is_confirmed(&array(&[0, 1])));
        assert!(!By::Aof.is_confirmed(&Value::Int(1)));
    }
}
