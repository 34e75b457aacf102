//! The metrics of the process: one registry is made at the start and handed to each part, which
//! registers its own families.
//!
//! A part that counts something itself registers a counter or a histogram of `prometheus_client` and
//! keeps a clone of it. The functions here register a value that is kept elsewhere and read on each
//! scrape.

use std::fmt;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{counter::ConstCounter, gauge::ConstGauge},
    registry::Registry,
};

/// What every family begins with.
const PREFIX: &str = "delay_queue";

/// A registry without families.
pub fn registry() -> Registry {
    Registry::with_prefix(PREFIX)
}

/// Registers a value that only grows.
pub fn counter(
    registry: &mut Registry,
    name: &'static str,
    help: &'static str,
    read: impl Fn() -> u64 + Send + Sync + 'static,
) {
    let encode = move |encoder: &mut DescriptorEncoder| {
        let counter = ConstCounter::new(read());
        counter.encode(encoder.encode_descriptor(name, help, None, counter.metric_type())?)
    };
    registry.register_collector(Box::new(Reading { name, encode }));
}

/// Registers a value that grows and shrinks.
pub fn gauge(
    registry: &mut Registry,
    name: &'static str,
    help: &'static str,
    read: impl Fn() -> usize + Send + Sync + 'static,
) {
    let encode = move |encoder: &mut DescriptorEncoder| {
        let gauge = ConstGauge::new(i64::try_from(read()).unwrap_or(i64::MAX));
        gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)
    };
    registry.register_collector(Box::new(Reading { name, encode }));
}

/// One family, read on each scrape.
struct Reading<F> {
    name: &'static str,
    encode: F,
}

impl<F> fmt::Debug for Reading<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl<F> Collector for Reading<F>
where
    F: Fn(&mut DescriptorEncoder) -> fmt::Result + Send + Sync + 'static,
{
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        (self.encode)(&mut encoder)
    }
}
