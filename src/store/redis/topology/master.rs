//! A server that has jobs: one on its own, the one that Sentinels name, or one of a cluster.

use tokio_util::task::AbortOnDropHandle;

use redis::Value;

use super::{
    connector::{Connector, Endpoint},
    sync_watch::SyncWatch,
};
use crate::store::redis::transport::{Confirmation, Connected, Failure, Node, Write};

/// A master's connections, and how to make another one.
pub struct Master {
    pub node: Node,
    pub connector: Connector,
    /// Where `store.ack` relies on what may be changed while the server runs.
    sync: Option<SyncWatch>,
    _watch: Option<AbortOnDropHandle<()>>,
}

impl Master {
    /// Begins with the connection `first`, if there is one; `by` confirms writes.
    pub fn start(
        name: String,
        connector: Connector,
        first: Option<Connected>,
        by: Option<Confirmation>,
    ) -> Self {
        let has_one_slot = connector.preflight.has_one_slot();
        let node = Node::new(name, connector.reconnect(), first, by, has_one_slot);
        let watch = match &connector.endpoint {
            Endpoint::At(_) => None,
            Endpoint::Sentinels(sentinels) => {
                Some(tokio::spawn(sentinels.clone().watch(node.connections().collect())))
            }
        };
        let relies_on_sync = connector.preflight.relies_on_sync();
        let sync = relies_on_sync.then(|| SyncWatch::start(node.calls()));
        Self { node, connector, sync, _watch: watch.map(AbortOnDropHandle::new) }
    }

    /// Sends a write; its answer means what `store.ack` says.
    pub async fn write(&self, write: Write) -> Result<Value, Failure> {
        self.sync.as_ref().map_or(Ok(()), SyncWatch::check)?;
        self.node.write(write).await
    }

    /// Refuses while an answer to a write would not mean what `store.ack` says.
    pub fn check_writes(&self) -> Result<(), Failure> {
        self.sync.as_ref().map_or(Ok(()), SyncWatch::check)?;
        self.node.check_confirmed()
    }
}
