//! The state that handlers share.

use std::{
    ops::Deref,
    sync::{Arc, atomic::AtomicBool},
};

use axum::extract::FromRef;
use prometheus_client::{metrics::info::Info, registry::Registry};

use super::{
    edge::requests::Requests,
    limits::{
        capacity::Capacity, in_flight::InFlight, memory::Memory, per_minute::PerMinute,
        quotas::Quotas,
    },
};
use crate::{access::Tokens, config::Limits, queue::Queue};

/// The state that handlers share. Each request has some clones of it.
#[derive(Clone)]
pub struct App(Arc<Shared>);

/// The parts of the state.
pub struct Shared {
    /// The service.
    pub queue: Arc<Queue>,
    /// How large things may be.
    pub limits: Limits,
    /// What requests and answers may hold.
    pub memory: Memory,
    /// How many requests are handled at once.
    pub in_flight: InFlight,
    /// What each caller may have.
    pub quotas: Quotas,
    /// How much topics and the store may hold.
    pub capacity: Capacity,
    /// The access tokens.
    pub tokens: Arc<Tokens>,
    /// Which routes were asked for, and what they answered.
    pub(super) requests: Requests,
    /// Refused requests without a token, by the address that they come from.
    pub(super) refused: PerMinute,
    /// What `/metrics` shows; parts register their families at the start.
    pub metrics: Registry,
    /// The server is about to end: not ready any more.
    pub draining: AtomicBool,
}

impl App {
    /// Over this queue, within these limits; `metrics` shows what each part registers.
    pub fn new(
        queue: Arc<Queue>,
        limits: Limits,
        tokens: Arc<Tokens>,
        mut metrics: Registry,
    ) -> Self {
        let memory = Memory::new(limits.memory_bytes);
        memory.register(&mut metrics);
        let requests = Requests::default();
        requests.register(&mut metrics);
        register_build(&mut metrics);
        Self(Arc::new(Shared {
            queue,
            tokens,
            limits,
            memory,
            requests,
            refused: PerMinute::default(),
            metrics,
            in_flight: InFlight::new(limits.requests_in_flight),
            quotas: Quotas::new(&limits),
            capacity: Capacity::new(&limits),
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

impl FromRef<App> for Limits {
    fn from_ref(app: &App) -> Self {
        app.limits
    }
}

impl FromRef<App> for Memory {
    fn from_ref(app: &App) -> Self {
        app.memory.clone()
    }
}

/// What this build is.
fn register_build(registry: &mut Registry) {
    let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
    registry.register("build", "The version of this server", build);
}
