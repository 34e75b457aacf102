//! Metrics of schedules.

use std::time::Duration;

use prometheus_client::{
    metrics::{counter::Counter, histogram::Histogram},
    registry::Registry,
};

use crate::metrics::SECONDS;

/// Counters of instants, and the lateness of the puts.
pub struct Meters {
    pub fired: Counter,
    pub skipped: Counter,
    pub missed: Counter,
    pub conflicts: Counter,
    pub clock_ahead: Counter,
    lateness: Histogram,
}

impl Meters {
    pub fn new(registry: &mut Registry) -> Self {
        let counter = |registry: &mut Registry, name, help| {
            let counter = Counter::default();
            registry.register(name, help, counter.clone());
            counter
        };
        let lateness = Histogram::new(SECONDS);
        let help = "Time from an instant of a schedule to the put of its job";
        registry.register("schedule_lateness_seconds", help, lateness.clone());
        Self {
            fired: counter(registry, "schedule_fired", "Instants of schedules whose job was put"),
            skipped: counter(
                registry,
                "schedule_skipped",
                "Instants of schedules that were skipped since the last job had not ended",
            ),
            missed: counter(
                registry,
                "schedule_missed",
                "Instants of schedules that were left out since they were overdue",
            ),
            conflicts: counter(
                registry,
                "schedule_conflicts",
                "Instants of schedules whose id a job of a client had",
            ),
            clock_ahead: counter(
                registry,
                "schedule_clock_ahead",
                "Schedules that went on after the clock had been ahead",
            ),
            lateness,
        }
    }

    /// Counts a job that was put this long after its instant.
    pub fn fired(&self, late: Duration) {
        self.fired.inc();
        self.lateness.observe(late.as_secs_f64());
    }
}
