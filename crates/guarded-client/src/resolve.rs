//! Resolution of names.

use std::{
    io,
    net::{SocketAddr, ToSocketAddrs},
    pin::Pin,
    sync::Arc,
};

use tokio::sync::Semaphore;

/// Addresses of a name, later.
pub type Resolving = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;

/// Source of the addresses of names.
pub trait Resolve: Send + Sync + 'static {
    /// Resolves a name (never a literal address). The client resolves each name once at a time, for
    /// all connections that wait for it, and again for later ones; after a failure not for 5
    /// seconds. Connections go to the returned ports.
    fn resolve(&self, host: &str, port: u16) -> Resolving;
}

/// Resolver of the operating system, with a bounded number of lookups at once.
#[derive(Clone, Debug)]
pub struct SystemResolver {
    permits: Arc<Semaphore>,
}

impl SystemResolver {
    /// Allows `lookups` at once; more wait.
    ///
    /// A lookup occupies one of the runtime's blocking threads until the system's resolver gives
    /// up, even if its request timed out long before. The bound keeps a slow name server from
    /// occupying all of them.
    pub fn new(lookups: usize) -> Self {
        Self { permits: Arc::new(Semaphore::new(lookups.clamp(1, Semaphore::MAX_PERMITS))) }
    }
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self::new(64)
    }
}

impl Resolve for SystemResolver {
    fn resolve(&self, host: &str, port: u16) -> Resolving {
        let permits = self.permits.clone();
        let host = host.to_owned();
        Box::pin(async move {
            let permit = permits.acquire_owned().await.map_err(io::Error::other)?;
            let lookup = tokio::task::spawn_blocking(move || {
                let _permit = permit;
                (host, port).to_socket_addrs().map(Iterator::collect)
            });
            lookup.await.map_err(io::Error::other)?
        })
    }
}
