//! State that handlers share.

use std::{
    ops::Deref,
    sync::{Arc, atomic::AtomicBool},
};

use prometheus_client::{metrics::info::Info, registry::Registry};

use super::{
    limits::{in_flight::InFlight, memory::Memory, per_minute::PerMinute, quotas::Quotas},
    requests::Requests,
};
use crate::{
    access::Tokens,
    config::Limits,
    push::Pushes,
    queue::{Capacity, Queue},
    schedules::Schedules,
};

/// State that handlers share; cheap to clone.
#[derive(Clone)]
pub struct App(Arc<Shared>);

/// Parts of the state.
pub struct Shared {
    /// Queue that all handlers call.
    pub queue: Arc<Queue>,
    /// Pushes of topics.
    pub pushes: Arc<Pushes>,
    /// Schedules.
    pub schedules: Arc<Schedules>,
    /// `limits` of the configuration.
    pub limits: Limits,
    /// Memory for requests and answers (`limits.memory_bytes`).
    pub memory: Memory,
    /// Requests being handled (`limits.requests_in_flight`).
    pub in_flight: InFlight,
    /// Limits per caller.
    pub quotas: Quotas,
    /// Limits of topics and of the store.
    pub capacity: Capacity,
    /// Access tokens of the store.
    pub tokens: Arc<Tokens>,
    /// Metrics of requests.
    pub(super) requests: Requests,
    /// Refused requests without a token, per address.
    pub(super) refused: PerMinute,
    /// Metrics that `/metrics` shows, registered at the start.
    pub metrics: Registry,
    /// Whether the server is shutting down; `/readyz` then fails.
    pub draining: AtomicBool,
}

impl App {
    /// Creates the state and registers its metrics.
    pub fn new(
        queue: Arc<Queue>,
        pushes: Arc<Pushes>,
        (schedules, capacity): (Arc<Schedules>, Capacity),
        limits: Limits,
        tokens: Arc<Tokens>,
        mut metrics: Registry,
    ) -> Self {
        let memory = Memory::new(pushes.budget().clone());
        memory.register(&mut metrics);
        let requests = Requests::default();
        requests.register(&mut metrics);
        register_build(&mut metrics);
        Self(Arc::new(Shared {
            queue,
            pushes,
            schedules,
            capacity,
            tokens,
            limits,
            memory,
            requests,
            refused: PerMinute::default(),
            metrics,
            in_flight: InFlight::new(limits.requests_in_flight),
            quotas: Quotas::new(&limits),
            draining: AtomicBool::default(),
        }))
    }
}

impl Deref for App {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

/// Registers the version as a metric.
fn register_build(registry: &mut Registry) {
    let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
    registry.register("build", "The version of this server", build);
}
