//! A server that does nothing but HTTP, to compare with.

use std::{net::SocketAddr, time::Duration};

use tokio::{net::TcpListener, runtime::Runtime};

use super::connections::Connections;

/// Runs on threads of its own until it is dropped.
pub struct Noop {
    /// Where it listens: a free port of loopback.
    pub address: SocketAddr,
    runtime: Option<Runtime>,
}

impl Noop {
    /// Starts it as [`super::run`] serves: the same connections, the same kind of runtime.
    ///
    /// # Errors
    /// No port or no threads.
    pub fn start() -> std::io::Result<Self> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let connections = Connections::new(Duration::from_secs(60), Duration::from_secs(30));
        runtime.spawn(async move {
            let listener = TcpListener::from_std(listener)?;
            connections.serve(listener, crate::http::noop()).await
        });
        Ok(Self { address, runtime: Some(runtime) })
    }
}

impl Drop for Noop {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
