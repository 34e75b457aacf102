//! Redis node and its connections: one for confirmed writes, one for all other calls.

use std::sync::Arc;

use redis::{Cmd, Pipeline, Value};

use super::{
    confirmation::Confirmation,
    confirmed::{Confirmed, Write},
    connection::{Connect, Connected, Connection},
    error::Failure,
};

pub struct Node {
    /// Name that identifies the node, also in the log.
    pub name: String,
    calls: Arc<Connection>,
    confirmed: Option<Confirmed>,
}

impl Node {
    /// Creates a node that reuses the connection `first`, if given. `confirmation` confirms writes;
    /// `has_one_slot` means that all keys share one slot.
    pub fn new(
        name: String,
        connect: Connect,
        first: Option<Connected>,
        confirmation: Option<Confirmation>,
        has_one_slot: bool,
    ) -> Self {
        let calls = Arc::new(Connection::keep(name.clone(), first, Arc::clone(&connect)));
        let confirmed = confirmation.map(|confirmation| {
            let writes = Connection::keep(format!("{name} (writes)"), None, connect);
            let calls = Arc::clone(&calls);
            Confirmed::new(Arc::new(writes), calls, confirmation, has_one_slot)
        });
        Self { name, calls, confirmed }
    }

    /// Sends a write; returns its answer once `store.ack` is fulfilled.
    pub async fn write(&self, write: Write) -> Result<Value, Failure> {
        match &self.confirmed {
            Some(confirmed) => confirmed.write(write).await,
            None => self.calls.command(&write.command).await,
        }
    }

    /// Returns whether answers to writes wait for a confirmation.
    pub fn confirms(&self) -> bool {
        self.confirmed.is_some()
    }

    /// Fails while the last write is unconfirmed.
    pub fn check_confirmed(&self) -> Result<(), Failure> {
        self.confirmed.as_ref().map_or(Ok(()), Confirmed::check)
    }

    /// Sends a command that needs no confirmation.
    pub async fn command(&self, command: &Cmd) -> Result<Value, Failure> {
        self.calls.command(command).await
    }

    /// Sends several commands that need no confirmation; see [`Connection::pipeline`].
    pub async fn pipeline(
        &self,
        pipeline: &Pipeline,
    ) -> Result<Vec<Result<Value, Failure>>, Failure> {
        self.calls.pipeline(pipeline).await
    }

    /// Returns the connections.
    pub fn connections(&self) -> impl Iterator<Item = Arc<Connection>> {
        let writes = self.confirmed.as_ref().map(Confirmed::connection);
        [&self.calls].into_iter().chain(writes).map(Arc::clone)
    }

    /// Replaces every connection with a newly inspected one.
    pub fn renew(&self, cause: &str) {
        self.connections().for_each(|connection| connection.renew(cause));
    }

    /// Returns the connection for all calls but confirmed writes.
    pub fn calls(&self) -> Arc<Connection> {
        Arc::clone(&self.calls)
    }

    /// Returns whether calls can be made now.
    pub fn is_up(&self) -> bool {
        self.calls.number().is_some()
    }

    /// Waits until all connections are up.
    pub async fn up(&self) {
        for connection in self.connections() {
            connection.up().await;
        }
    }
}
