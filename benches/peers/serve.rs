//! Serves routes on the same kind of connections as the server.

use std::{io, sync::Arc, time::Duration};

use axum::{Router, extract::Request, response::Response};
use delay_queue::{
    http::Peer,
    server::{Answers, ConnectionLimits, Connections, Times},
};
use tokio::net::TcpListener;
use tower::ServiceExt;

struct Routes(Router);

impl Answers for Routes {
    async fn answer(&self, request: Request, _: &Peer) -> Response {
        let Ok(response) = self.0.clone().oneshot(request).await;
        response
    }
}

/// Serves routes until the listener fails.
pub async fn serve(listener: TcpListener, routes: Router) -> io::Result<()> {
    let (header, write) = (Duration::from_secs(60), Duration::from_secs(30));
    let limits = ConnectionLimits {
        times: Times { header, idle: header, write },
        max_head_bytes: 64 << 10,
        max: usize::MAX,
        max_per_address: usize::MAX,
    };
    Connections::new(limits, None).serve(listener.into(), Arc::new(Routes(routes))).await
}
