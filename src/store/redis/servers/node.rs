//! One server with its connections: one for everything, one for confirmed writes.

use std::sync::{Arc, Mutex, PoisonError};

use futures::{FutureExt, future::BoxFuture};
use redis::{Cmd, Pipeline, Value, aio::MultiplexedConnection};
use tokio_util::task::AbortOnDropHandle;

use super::{
    confirm::{Confirmation, Confirmed, Write},
    connection::{Connection, Failure, Make},
    dial::Dialer,
    preflight::Preflight,
    sentinel::Sentinels,
};
use crate::store::{OpenError, redis::Host};

/// How a server's address is found.
#[derive(Clone)]
pub enum Endpoint {
    /// It is known.
    At(Host),
    /// Sentinels know it.
    Sentinels(Sentinels),
}

impl Endpoint {
    pub async fn host(&self) -> Result<Host, OpenError> {
        match self {
            Self::At(host) => Ok(host.clone()),
            Self::Sentinels(sentinels) => sentinels.endpoint().await,
        }
    }

    /// Whether the server is at `host` still, as far as is known.
    pub fn is_still(&self, host: &Host) -> bool {
        match self {
            Self::At(_) => true,
            Self::Sentinels(sentinels) => sentinels.is_still(host),
        }
    }
}

/// How connections to a server are made.
#[derive(Clone)]
pub struct Connector {
    pub endpoint: Endpoint,
    pub dialer: Dialer,
    pub preflight: Preflight,
}

impl Connector {
    /// A connection to a server that is fit.
    pub async fn connect(&self) -> Result<(Host, MultiplexedConnection), OpenError> {
        let host = self.endpoint.host().await?;
        let dialed = self.dialer.dial(&host).await;
        let mut connection = dialed.map_err(|cause| self.preflight.engine(&host, &cause))?;
        self.preflight.inspect(&host, &mut connection).await?;
        Ok((host, connection))
    }

    fn make(&self, current: &Arc<Current>) -> Make {
        let (connector, current) = (self.clone(), Arc::clone(current));
        Arc::new(move || {
            let (connector, current) = (connector.clone(), Arc::clone(&current));
            let made: BoxFuture<'static, _> = async move {
                let (host, connection) = connector.connect().await?;
                *current.lock().unwrap_or_else(PoisonError::into_inner) = Some(host);
                Ok(connection)
            }
            .boxed();
            made
        })
    }
}

/// Where a connection leads now.
type Current = Mutex<Option<Host>>;

/// A server.
pub struct Node {
    /// For the log, and to tell nodes apart.
    pub name: String,
    pub connector: Connector,
    calls: Arc<Connection>,
    confirmed: Option<Confirmed>,
    _watch: Option<AbortOnDropHandle<()>>,
}

impl Node {
    /// Begins with `first`, if that is made already.
    pub fn new(
        name: String,
        connector: Connector,
        first: Option<(Host, MultiplexedConnection)>,
        by: Option<Confirmation>,
    ) -> Self {
        let (host, first) = first.unzip();
        let current = Arc::new(Mutex::new(host));
        let calls = Arc::new(Connection::keep(name.clone(), first, connector.make(&current)));
        let mut all = vec![(Arc::clone(&current), Arc::clone(&calls))];
        let confirmed = by.map(|by| {
            let current = Arc::default();
            let writes =
                Connection::keep(format!("{name} (writes)"), None, connector.make(&current));
            let writes = Arc::new(writes);
            all.push((current, Arc::clone(&writes)));
            Confirmed::new(writes, by, connector.preflight.is_cluster())
        });
        let watch = match &connector.endpoint {
            Endpoint::At(_) => None,
            Endpoint::Sentinels(sentinels) => Some(tokio::spawn(watch(sentinels.clone(), all))),
        };
        Self { name, connector, calls, confirmed, _watch: watch.map(AbortOnDropHandle::new) }
    }

    /// Sends a write; its answer means what `store.ack` says.
    pub async fn write(&self, write: Write) -> Result<Value, Failure> {
        match &self.confirmed {
            Some(confirmed) => confirmed.write(write).await,
            None => self.calls.command(&write.command).await,
        }
    }

    /// Sends what needs no confirmation.
    pub async fn command(&self, command: &Cmd) -> Result<Value, Failure> {
        self.calls.command(command).await
    }

    /// Sends several of these; see [`Connection::pipeline`].
    pub async fn pipeline(
        &self,
        pipeline: &Pipeline,
    ) -> Result<Vec<Result<Value, Failure>>, Failure> {
        self.calls.pipeline(pipeline).await
    }

    pub fn is_up(&self) -> bool {
        self.calls.number().is_some()
    }

    /// Completes when there is every connection.
    pub async fn up(&self) {
        self.calls.up().await;
        if let Some(confirmed) = &self.confirmed {
            confirmed.up().await;
        }
    }
}

/// Gives up each connection whose server is not the master any more.
async fn watch(sentinels: Sentinels, all: Vec<(Arc<Current>, Arc<Connection>)>) {
    let each = all.into_iter().map(async |(current, connection)| {
        loop {
            connection.up().await;
            let host = current.lock().unwrap_or_else(PoisonError::into_inner).clone();
            match host {
                Some(host) => {
                    sentinels.moved_from(&host).await;
                    // It may have been made anew since, to the new master.
                    if *current.lock().unwrap_or_else(PoisonError::into_inner) == Some(host) {
                        connection.renew("the Sentinels name another master");
                    }
                }
                None => tokio::task::yield_now().await,
            }
        }
    });
    futures::future::join_all(each).await;
}
