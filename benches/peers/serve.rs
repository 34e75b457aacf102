//! Serves routes on the same kind of connections as the server.

use std::{io, time::Duration};

use axum::Router;
use delay_queue::server::{ConnectionLimits, Connections, Times};
use tokio::net::TcpListener;

/// Serves routes until the listener fails.
pub async fn serve(listener: TcpListener, routes: Router) -> io::Result<()> {
    let (header, write) = (Duration::from_secs(60), Duration::from_secs(30));
    let limits = ConnectionLimits {
        times: Times { header, idle: header, write },
        max_head_bytes: 64 << 10,
        max: usize::MAX,
        max_per_address: usize::MAX,
    };
    Connections::new(limits, None).serve(listener.into(), routes).await
}
