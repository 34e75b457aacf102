//! A server that has jobs: one on its own, the one that Sentinels name, or one of a cluster.

use tokio_util::task::AbortOnDropHandle;

use super::connector::{Connector, Endpoint};
use crate::store::redis::transport::{Confirmation, Connected, Node};

/// A master's connections, and how to make another one.
pub struct Master {
    pub node: Node,
    pub connector: Connector,
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
        Self { node, connector, _watch: watch.map(AbortOnDropHandle::new) }
    }
}
