//! Server with jobs: standalone, the master of Sentinels, or a master of a cluster.

use std::sync::Arc;

use redis::Value;
use tokio_util::task::AbortOnDropHandle;

use super::{
    connector::{Connector, Endpoint},
    risk_watch::RiskWatch,
    sync_watch::SyncWatch,
};
use crate::store::redis::transport::{Confirmation, Connected, Failure, Node, Write};

/// Connections to a master, and the maker of further ones.
pub struct Master {
    pub node: Node,
    pub connector: Connector,
    /// Present if `store.ack` relies on settings that can change while the server runs.
    sync: Option<SyncWatch>,
    risks: RiskWatch,
    _watch: Option<AbortOnDropHandle<()>>,
}

impl Master {
    /// Starts with the connection `first`, if there is one; `by` confirms writes.
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
        let accepts = connector.preflight.accepts_data_loss();
        let risks = RiskWatch::start(node.name.clone(), node.calls(), accepts);
        Self { node, connector, sync, risks, _watch: watch.map(AbortOnDropHandle::new) }
    }

    /// Sends a write; returns its answer once `store.ack` is fulfilled.
    pub async fn write(&self, write: Write) -> Result<Value, Failure> {
        self.sync.as_ref().map_or(Ok(()), SyncWatch::check)?;
        self.node.write(write).await
    }

    /// Takes over an `INFO` answer of this server.
    pub fn note(&self, info: &str) {
        self.risks.note(info);
    }

    /// Returns the text that tells this run of the server from others, once it is known.
    pub fn run(&self) -> Option<Arc<str>> {
        self.risks.run()
    }

    /// Returns why the settings of the server may lose jobs, unless this is accepted.
    pub fn risk(&self) -> Option<Arc<str>> {
        self.risks.risk()
    }

    /// Fails while answers to writes would not fulfil `store.ack`.
    pub fn check_writes(&self) -> Result<(), Failure> {
        self.sync.as_ref().map_or(Ok(()), SyncWatch::check)?;
        self.node.check_confirmed()
    }
}
