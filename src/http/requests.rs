//! Metrics of requests: counts by route, method and status, and the time until the answer.
//!
//! Each route has its counters, and counting is one addition. Labels are formatted only when
//! `/metrics` is read.

use std::{
    array,
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use axum::http::{Method, StatusCode};
use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, LabelSetEncoder},
    metrics::{MetricType, histogram::Histogram},
    registry::Registry,
};

use crate::metrics::{SECONDS, collect, counters};

/// Methods with a label of their own; the last label covers all others.
const METHODS: [&str; 8] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "other"];
/// Counted statuses: 100 to 599.
const FIRST_STATUS: u16 = 100;
const STATUSES: usize = 500;
/// Status counted for a request whose client closed the connection before its answer, as in nginx.
pub const CLIENT_GONE: u16 = 499;

/// Counters of all requests, by route.
#[derive(Clone, Default)]
pub struct Requests(Arc<Mutex<BTreeMap<&'static str, Arc<Counters>>>>);

/// Counters of one route, by method.
#[derive(Default)]
pub struct Counters([OnceLock<Served>; METHODS.len()]);

/// Counters of one route and method.
struct Served {
    /// Requests per status, from [`FIRST_STATUS`].
    statuses: Box<[AtomicU64; STATUSES]>,
    seconds: Histogram,
}

/// A request without an answer yet. If this value is dropped before the answer, the client has
/// disconnected.
pub struct UnansweredRequest {
    counters: Arc<Counters>,
    method: usize,
    at: Instant,
    is_answered: bool,
}

impl Requests {
    pub fn register(&self, registry: &mut Registry) {
        let all = self.clone();
        collect(registry, "http_requests", move |encoder| all.encode(encoder));
    }

    /// Returns the counters of a route.
    pub fn counters(&self, route: &'static str) -> Arc<Counters> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(route).or_default())
    }

    fn encode(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let routes = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut all: Vec<([(&str, &str); 2], &Served)> = Vec::new();
        for (path, counters) in &routes {
            for (method, served) in METHODS.iter().zip(&counters.0) {
                let labels = [("route", *path), ("method", *method)];
                all.extend(served.get().map(|served| (labels, served)));
            }
        }
        all.sort_unstable_by_key(|(labels, _)| *labels);
        let counts = all.iter().flat_map(|([route, method], served)| {
            let each = served.statuses.iter().map(|count| count.load(Ordering::Relaxed));
            let some = each.enumerate().filter(|(_, count)| *count > 0);
            some.map(|(index, count)| {
                let status = (usize::from(FIRST_STATUS) + index).to_string();
                (Labels { route: *route, method: *method, status }, count)
            })
        });
        let help = "Requests answered. Status 499: the client disconnected before the answer.";
        counters(encoder, "http_requests", help, counts)?;
        let name = "http_request_duration_seconds";
        let help = "Time from the head of a request to the head of its answer; a pop waits in it.";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (labels, served) in &all {
            served.seconds.encode(family.encode_family(labels)?)?;
        }
        Ok(())
    }
}

struct Labels<'a> {
    route: (&'a str, &'a str),
    method: (&'a str, &'a str),
    status: String,
}

impl EncodeLabelSet for Labels<'_> {
    fn encode(&self, encoder: &mut LabelSetEncoder) -> fmt::Result {
        [self.route, self.method, ("status", &self.status)].encode(encoder)
    }
}

impl UnansweredRequest {
    /// Records a request to the route of these counters that began `at` this time.
    pub fn new(counters: &Arc<Counters>, method: &Method, at: Instant) -> Self {
        Self { counters: Arc::clone(counters), method: index_of(method), at, is_answered: false }
    }

    /// Counts the request with the status of its answer.
    pub fn answered(mut self, status: StatusCode) {
        self.is_answered = true;
        self.count(status.as_u16());
    }

    fn count(&self, status: u16) {
        let served = self.counters.0[self.method].get_or_init(Served::default);
        // No standard has statuses beyond 599.
        if let Some(count) = served.statuses.get(usize::from(status.wrapping_sub(FIRST_STATUS))) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        served.seconds.observe(self.at.elapsed().as_secs_f64());
    }
}

impl Drop for UnansweredRequest {
    fn drop(&mut self) {
        if !self.is_answered {
            self.count(CLIENT_GONE);
        }
    }
}

impl Default for Served {
    fn default() -> Self {
        let statuses = Box::new(array::from_fn(|_| AtomicU64::new(0)));
        Self { statuses, seconds: Histogram::new(SECONDS) }
    }
}

fn index_of(method: &Method) -> usize {
    let known = METHODS.iter().position(|name| *name == method.as_str());
    known.unwrap_or(METHODS.len() - 1)
}
