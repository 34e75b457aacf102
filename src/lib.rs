//! A durable delay queue over plain HTTP: a job is put now and delivered to a consumer when it is
//! due; if the consumer does not finish it in time, it comes back.
//!
//! The way of a request: `http` (extract, one call, answer) → `queue` (validate, find the bucket,
//! join what else goes there) → `store` (one transition for a batch, atomic).
//!
//! The way of a due job: deadline → the bucket's timer in `queue` → `store` promotes what is due →
//! those who wait for its topics are woken → one pop for as many as wait → their answers.
//!
//! Arrows run one way: `cli → server → http → queue → store → job`. `ARCHITECTURE.md` is the map.

#![warn(clippy::too_many_lines)]

pub mod access;
pub mod cli;
pub mod config;
pub mod http;
pub mod job;
pub mod queue;
pub mod server;
pub mod store;

mod metrics;
mod suggest;
mod tls_error;
mod traces;

#[cfg(any(test, fuzzing))]
pub mod fuzzing;

/// Inner parts that `benches` measures, or measures others with. No part of what this crate promises.
#[doc(hidden)]
pub mod measured {
    use std::{io, time::Duration};

    use crate::server::{ConnectionLimits, Connections, Times};
    pub use crate::{
        cli::bench::{Bench, Destination, Failure, Jobs, Peer, Wire, run_peer},
        queue::Coalescer,
        store::redis::{Record, record, record_rest},
    };

    /// Serves routes on the connections that the server's own are served on.
    pub async fn serve(listener: tokio::net::TcpListener, routes: axum::Router) -> io::Result<()> {
        let (header, write) = (Duration::from_secs(60), Duration::from_secs(30));
        let limits = ConnectionLimits {
            times: Times { header, idle: header, write },
            head: 64 << 10,
            most: usize::MAX,
            most_per_address: usize::MAX,
        };
        let connections = Connections::new(limits, None);
        connections.serve(listener.into(), routes).await
    }
}
