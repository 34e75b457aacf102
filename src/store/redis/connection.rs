//! One connection to one Redis, kept up by a task of its own.
//!
//! A call never waits for a connection: while there is none it fails at once, surely not
//! applied. A connection that failed, or let several answers in a row time out (a half-open
//! socket does that for ever), is dropped and made anew; each new one is inspected before use.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use futures::future::BoxFuture;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionInfo, IntoConnectionInfo, Pipeline,
    ProtocolVersion, RedisError, Value, aio::MultiplexedConnection, io::tcp::TcpSettings,
};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::{error, opening::engine};
use crate::store::{OpenError, StoreError};

/// How long a new connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long an answer may take.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Answers that may time out in a row before the connection is given up.
const TIMEOUTS_IN_A_ROW: u32 = 3;
/// The pause before the second attempt to connect, doubled up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// What must hold of a new connection; says why not.
pub(super) type Inspect =
    Arc<dyn Fn(MultiplexedConnection) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// The connection as its users see it.
pub(super) struct Connection {
    state: Arc<watch::Sender<Link>>,
    timeouts: AtomicU32,
    _keeper: AbortOnDropHandle<()>,
}

#[derive(Clone)]
enum Link {
    Up { number: u64, connection: MultiplexedConnection },
    Down { cause: Arc<str> },
}

/// What makes new connections.
struct Keeper {
    client: Client,
    address: String,
    inspect: Inspect,
    state: Arc<watch::Sender<Link>>,
}

/// Reads `url` and makes a first connection to it, for the caller to look around with.
pub(super) async fn first(url: &str) -> Result<(Client, MultiplexedConnection, String), OpenError> {
    let info =
        url.into_connection_info().map_err(|cause| engine("the address in store.url", &cause))?;
    let address = info.addr().to_string();
    let keepalive = redis::io::tcp::socket2::TcpKeepalive::new().with_time(CONNECT_TIMEOUT);
    let tcp = TcpSettings::default()
        .set_nodelay(true)
        .set_keepalive(keepalive)
        .set_user_timeout(RESPONSE_TIMEOUT);
    // Replies are read as this version of the protocol gives them, whatever the URL says.
    let redis = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP2);
    let info: ConnectionInfo = info.set_tcp_settings(tcp).set_redis_settings(redis);
    let client = Client::open(info).map_err(|cause| engine(&address, &cause))?;
    let connection = connect(&client).await.map_err(|cause| engine(&address, &cause))?;
    Ok((client, connection, address))
}

async fn connect(client: &Client) -> Result<MultiplexedConnection, RedisError> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT_TIMEOUT))
        .set_response_timeout(Some(RESPONSE_TIMEOUT));
    client.get_multiplexed_async_connection_with_config(&config).await
}

impl Connection {
    /// Keeps `connection` up; later ones must pass `inspect`.
    pub(super) fn keep(
        client: Client,
        connection: MultiplexedConnection,
        address: String,
        inspect: Inspect,
    ) -> Self {
        let state = Arc::new(watch::Sender::new(Link::Up { number: 0, connection }));
        let keeper = Keeper { client, address, inspect, state: Arc::clone(&state) };
        let task = AbortOnDropHandle::new(tokio::spawn(keeper.run()));
        Self { state, timeouts: AtomicU32::new(0), _keeper: task }
    }

    /// Sends one command and waits for its answer.
    pub(super) async fn command(&self, command: &Cmd) -> Result<Value, Failure> {
        let (number, mut connection) = self.current()?;
        let answer = connection.send_packed_command(command).await.and_then(Value::extract_error);
        self.judge(number, answer)
    }

    /// Sends several commands in one write; answers in order.
    pub(super) async fn pipeline(&self, pipeline: &Pipeline) -> Result<Vec<Value>, Failure> {
        let (number, mut connection) = self.current()?;
        let answers = connection.send_packed_commands(pipeline, 0, pipeline.len()).await;
        let answer = answers.and_then(|all| all.into_iter().map(Value::extract_error).collect());
        self.judge(number, answer)
    }

    /// No call uses this connection from now on; the keeper makes another one.
    fn give_up(&self, number: u64) {
        let lost = |link: &mut Link| match link {
            Link::Up { number: current, .. } if *current == number => {
                *link = Link::Down { cause: "the connection was lost".into() };
                true
            }
            _ => false,
        };
        self.state.send_if_modified(lost);
    }

    fn current(&self) -> Result<(u64, MultiplexedConnection), Failure> {
        match &*self.state.borrow() {
            Link::Up { number, connection } => Ok((*number, connection.clone())),
            Link::Down { cause } => Err(Failure::Final(StoreError::away(cause))),
        }
    }

    /// Turns an error into what callers need, and reports a connection that is of no more use.
    fn judge<T>(&self, number: u64, answer: Result<T, RedisError>) -> Result<T, Failure> {
        let error = match answer {
            Ok(value) => {
                self.timeouts.store(0, Ordering::Relaxed);
                return Ok(value);
            }
            Err(error) => error,
        };
        let fault = error::fault(&error);
        let give_up = match fault {
            error::Fault::NoScript => return Err(Failure::NoScript),
            error::Fault::TimedOut => {
                self.timeouts.fetch_add(1, Ordering::Relaxed) + 1 >= TIMEOUTS_IN_A_ROW
            }
            error::Fault::Broken | error::Fault::WrongServer => true,
            error::Fault::Refused | error::Fault::Full | error::Fault::Bug => false,
        };
        if give_up {
            self.timeouts.store(0, Ordering::Relaxed);
            self.give_up(number);
        }
        Err(Failure::Final(error::store_error(fault, &error)))
    }
}

/// Why a command has no answer.
pub(super) enum Failure {
    /// Redis does not know the script by its hash: send the text.
    NoScript,
    /// Everything else.
    Final(StoreError),
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::NoScript => Self::away("redis does not know the script"),
            Failure::Final(error) => error,
        }
    }
}

impl Keeper {
    async fn run(self) {
        let mut number = 0;
        let mut state = self.state.subscribe();
        while state.wait_for(|link| matches!(link, Link::Down { .. })).await.is_ok() {
            number += 1;
            tracing::warn!(address = self.address, "lost the connection to redis");
            let connection = self.reconnect().await;
            self.state.send_replace(Link::Up { number, connection });
            tracing::info!(address = self.address, "connected to redis again");
        }
    }

    /// Tries until there is a connection that passes inspection.
    async fn reconnect(&self) -> MultiplexedConnection {
        let mut pause = FIRST_PAUSE;
        let mut last_cause = String::new();
        loop {
            let cause = match connect(&self.client).await {
                Ok(connection) => match (self.inspect)(connection.clone()).await {
                    Ok(()) => return connection,
                    Err(cause) => cause,
                },
                Err(cause) => cause.to_string(),
            };
            if cause != last_cause {
                tracing::warn!(address = self.address, cause, "failed to connect to redis");
                last_cause.clone_from(&cause);
            }
            self.state.send_replace(Link::Down { cause: cause.into() });
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}
