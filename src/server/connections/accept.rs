//! Accepting connections.
//!
//! At shutdown, this loop ends connections gracefully. When descriptors run out, it closes idle
//! connections, so that a full server still answers new clients.

use std::{
    io,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::time::{Instant, sleep};

use super::{ConnectionPermit, Connections};
use crate::{
    http::network,
    server::{
        answers::Answers,
        connection::serve,
        descriptors,
        link::{Link, Phase},
        listener::Listener,
        socket::Socket,
    },
};

/// Pause after a failed accept, unless a connection ends sooner.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// A shortage is over when no accept has failed for this long.
const SHORTAGE_ENDS_AFTER: Duration = Duration::from_secs(10);

impl Connections {
    /// Accepts and serves connections until `stop`. Then serves the connections that the kernel has
    /// already queued, and completes when all have ended.
    pub async fn serve<A: Answers>(&self, listener: Listener, site: Arc<A>) -> io::Result<()> {
        tokio::select! {
            served = self.accept_all(listener, site) => served,
            never = self.sweep() => match never {},
        }
    }

    async fn accept_all<A: Answers>(&self, listener: Listener, site: Arc<A>) -> io::Result<()> {
        let mut shortage = Shortage::default();
        while !self.stop.is_cancelled() {
            let accepted = tokio::select! {
                accepted = self.accept(&listener) => accepted,
                () = self.stop.cancelled() => break,
            };
            self.start(accepted, &site, &mut shortage).await;
        }
        // Accepts connections in the kernel's queue that the runtime has not noticed yet.
        loop {
            let accepted = match self.is_full() {
                true => Err(descriptors::too_many_open_files()),
                false => listener.accept_now(),
            };
            if matches!(&accepted, Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
                break;
            }
            self.start(accepted, &site, &mut shortage).await;
        }
        drop(listener);
        self.ended().await;
        Ok(())
    }

    async fn accept(&self, listener: &Listener) -> io::Result<Socket> {
        match self.is_full() {
            true => Err(descriptors::too_many_open_files()),
            false => listener.accept().await,
        }
    }

    /// Serves an accepted connection, or makes room for the next one after an error.
    async fn start<A: Answers>(
        &self,
        accepted: io::Result<Socket>,
        site: &Arc<A>,
        shortage: &mut Shortage,
    ) {
        match accepted {
            Ok(socket) => {
                let address = socket.address().map(|address| network(address.ip()));
                let permit = address.map(|address| self.by_address.take(address));
                if let (Some(address), Some(None)) = (address, &permit) {
                    tracing::warn!(
                        %address,
                        "closed a connection: its address has reached \
                         limits.connections_per_address; raise it if several clients share the \
                         address"
                    );
                    return;
                }
                self.shared.crowded.store(false, Ordering::Relaxed);
                shortage.log_end();
                let phase = if self.tls.is_some() { Phase::Handshake } else { Phase::Waiting };
                let link = Arc::new(Link::new(socket, phase));
                let slot = self.lock().insert(Arc::clone(&link));
                self.shared.opened.notify_one();
                let (all, site) = (self.clone(), Arc::clone(site));
                self.open.spawn(async move {
                    let (_connection, _address) = (ConnectionPermit { all: &all, slot }, permit);
                    serve(&all, link, site).await;
                });
            }
            Err(error) if descriptors::is_shortage(&error) => {
                self.shared.crowded.store(true, Ordering::Relaxed);
                let closed = self.close_idle();
                shortage.record(&error, closed, self.count());
                tokio::select! {
                    () = self.shared.closed.notified() => {}
                    () = sleep(ACCEPT_PAUSE) => {}
                }
            }
            // The client has disconnected already; the next accept may succeed.
            Err(error) => tracing::debug!(%error, "failed to accept a connection"),
        }
    }
}

/// A period without room for connections, logged once at its start and once at its end.
#[derive(Default)]
struct Shortage {
    last: Option<Instant>,
    refused: u64,
    closed: usize,
}

impl Shortage {
    /// Records a failed accept, and logs the first one of a shortage.
    fn record(&mut self, error: &io::Error, closed: usize, open: usize) {
        if self.last.is_none() {
            let limit = descriptors::limit();
            tracing::warn!(
                %error, open, limit,
                "no room for another connection: closing the connections that have been idle \
                 longest (to allow more, raise limits.connections, or the open-file limit with \
                 ulimit -n or LimitNOFILE in systemd)"
            );
        }
        self.last = Some(Instant::now());
        self.refused += 1;
        self.closed += closed;
    }

    /// Ends the shortage, if it is over, and logs its end. Called at each successful accept.
    fn log_end(&mut self) {
        if self.last.is_some_and(|last| last.elapsed() >= SHORTAGE_ENDS_AFTER) {
            let Self { refused, closed, .. } = std::mem::take(self);
            tracing::info!(failed_accepts = refused, closed, "there is room for connections again");
        }
    }
}
