//! Connection to one server; a background task reconnects.
//!
//! A call never waits for a connection: if there is none, the call fails at once, with nothing
//! applied. A connection is dropped if it fails, or if several answers in a row time out, as on a
//! half-open socket. Reconnecting finds the address again and inspects the server before it is
//! used.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use futures::future::BoxFuture;
use redis::{Cmd, Pipeline, RedisError, Value, aio::MultiplexedConnection};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::error::{self, Failure, Fault, Remedy};
use crate::store::{Applied, OpenError, StoreError, redis::Host};

/// Answers that may time out in a row before the connection is given up.
const TIMEOUTS_IN_A_ROW: u32 = 3;
/// Pause before the second attempt to connect, doubled up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Address of a server and a connection to it.
pub type Connected = (Host, MultiplexedConnection);
/// Finds the server, connects, and inspects it.
pub type Connect = Arc<dyn Fn() -> BoxFuture<'static, Result<Connected, OpenError>> + Send + Sync>;

/// Connection that is replaced when it fails.
pub struct Connection {
    state: Arc<watch::Sender<Link>>,
    timeouts: AtomicU32,
    _keeper: AbortOnDropHandle<()>,
}

#[derive(Clone)]
enum Link {
    Up {
        number: u64,
        host: Host,
        connection: MultiplexedConnection,
    },
    /// `tried`: at least one attempt to reconnect has failed.
    Down {
        cause: Arc<str>,
        tried: bool,
    },
}

impl Connection {
    /// Keeps a connection up, starting with `first` if there is one. `name` is for the log.
    pub fn keep(name: String, first: Option<Connected>, connect: Connect) -> Self {
        let had_one = first.is_some();
        let link = match first {
            Some((host, connection)) => Link::Up { number: 0, host, connection },
            None => Link::Down { cause: "not connected yet".into(), tried: false },
        };
        let state = Arc::new(watch::Sender::new(link));
        let keeper = Keeper { name, connect, state: Arc::clone(&state), had_one };
        let task = AbortOnDropHandle::new(tokio::spawn(keeper.run()));
        Self { state, timeouts: AtomicU32::new(0), _keeper: task }
    }

    /// Sends one command and waits for its answer.
    pub async fn command(&self, command: &Cmd) -> Result<Value, Failure> {
        let (number, mut connection) = self.current()?;
        let answer = connection.send_packed_command(command).await;
        let answer = answer.map_err(|error| self.judge(number, &error))?;
        self.judge_value(number, answer).inspect(|_| self.answered())
    }

    /// Sends several commands in one write. Returns their answers in order, errors among them; if
    /// the connection fails, the whole call fails.
    pub async fn pipeline(
        &self,
        pipeline: &Pipeline,
    ) -> Result<Vec<Result<Value, Failure>>, Failure> {
        let (number, mut connection) = self.current()?;
        let answers = connection.send_packed_commands(pipeline, 0, pipeline.len()).await;
        let answers = answers.map_err(|error| self.judge(number, &error))?;
        self.answered();
        Ok(answers.into_iter().map(|answer| self.judge_value(number, answer)).collect())
    }

    /// Returns the number of the present connection, if there is one. Each new connection gets a
    /// new number.
    pub fn number(&self) -> Option<u64> {
        match &*self.state.borrow() {
            Link::Up { number, .. } => Some(*number),
            Link::Down { .. } => None,
        }
    }

    /// Waits until there is a connection.
    pub async fn up(&self) {
        self.connected_to().await;
    }

    /// Waits until there is a connection, or an attempt to connect has failed.
    pub async fn reconnected(&self) {
        let is_settled = |link: &Link| !matches!(link, Link::Down { tried: false, .. });
        // The channel cannot close, because `self` has its sender.
        drop(self.state.subscribe().wait_for(is_settled).await);
    }

    /// Waits until there is a connection; returns its number and the server's address.
    pub async fn connected_to(&self) -> (u64, Host) {
        let mut state = self.state.subscribe();
        loop {
            if let Link::Up { number, host, .. } = &*state.borrow_and_update() {
                return (*number, host.clone());
            }
            // The channel cannot close, because `self` has its sender.
            drop(state.changed().await);
        }
    }

    /// Gives up the present connection; later calls need the next one.
    pub fn renew(&self, cause: &str) {
        if let Some(number) = self.number() {
            self.give_up(number, cause);
        }
    }

    /// Gives up connection `number`, unless it was replaced meanwhile.
    pub fn give_up(&self, number: u64, cause: &str) {
        let lost = |link: &mut Link| match link {
            Link::Up { number: current, .. } if *current == number => {
                *link = Link::Down { cause: cause.into(), tried: false };
                true
            }
            _ => false,
        };
        self.timeouts.store(0, Ordering::Relaxed);
        self.state.send_if_modified(lost);
    }

    fn current(&self) -> Result<(u64, MultiplexedConnection), Failure> {
        match &*self.state.borrow() {
            Link::Up { number, connection, .. } => Ok((*number, connection.clone())),
            Link::Down { cause, .. } => {
                Err(Failure { remedy: Remedy::FindMaster, error: StoreError::unavailable(cause) })
            }
        }
    }

    fn answered(&self) {
        self.timeouts.store(0, Ordering::Relaxed);
    }

    /// Turns an answer that is one error into a failure. A script answers for several buckets: the
    /// error of one bucket stays in the answer, but is judged for the connection as well.
    fn judge_value(&self, number: u64, answer: Value) -> Result<Value, Failure> {
        match answer {
            Value::ServerError(error) => Err(self.judge(number, &error.into())),
            Value::Array(values) => {
                for value in &values {
                    if let Value::ServerError(error) = value {
                        self.judge(number, &error.clone().into());
                    }
                }
                Ok(Value::Array(values))
            }
            other => Ok(other),
        }
    }

    /// Turns an error into a failure for callers, and gives up the connection if it has become
    /// useless.
    fn judge(&self, number: u64, error: &RedisError) -> Failure {
        let fault = error::fault(error);
        let give_up = match fault {
            Fault { applied: Applied::Unknown, remedy: Remedy::BackOff } => {
                self.timeouts.fetch_add(1, Ordering::Relaxed) + 1 >= TIMEOUTS_IN_A_ROW
            }
            Fault { remedy: Remedy::FindMaster, .. } => true,
            _ => false,
        };
        if give_up {
            self.give_up(number, "the connection was lost");
        }
        Failure { remedy: fault.remedy, error: error::store_error(fault, error) }
    }
}

/// Maker of new connections.
struct Keeper {
    name: String,
    connect: Connect,
    state: Arc<watch::Sender<Link>>,
    /// Whether there was ever a connection, whose loss is worth a log line.
    had_one: bool,
}

impl Keeper {
    async fn run(mut self) {
        let mut number = 0;
        let mut state = self.state.subscribe();
        while state.wait_for(|link| matches!(link, Link::Down { .. })).await.is_ok() {
            if self.had_one {
                tracing::warn!(server = self.name, "lost the connection to redis");
            }
            self.had_one = true;
            number += 1;
            let (host, connection) = self.reconnect().await;
            self.state.send_replace(Link::Up { number, host, connection });
            tracing::info!(server = self.name, "connected to redis");
            // Without this pause, a connection that passes the inspection but fails in use would be
            // replaced in a hot loop.
            tokio::time::sleep(FIRST_PAUSE).await;
        }
    }

    /// Tries until there is a connection that passes inspection.
    async fn reconnect(&self) -> Connected {
        let mut pause = FIRST_PAUSE;
        let mut last_cause = String::new();
        loop {
            let cause = match (self.connect)().await {
                Ok(connected) => return connected,
                Err(error) => error.to_string(),
            };
            if cause != last_cause {
                tracing::warn!(server = self.name, cause, "failed to connect to redis");
                last_cause.clone_from(&cause);
            }
            self.state.send_replace(Link::Down { cause: cause.into(), tried: true });
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}
