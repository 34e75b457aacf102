//! Metrics of the server: each part registers its own families in one registry.
//!
//! A part that counts events registers a counter or a histogram of `prometheus_client` and keeps a
//! clone of it. [`counter`] and [`gauge`] register a value that the part already keeps, and read it
//! on each scrape. [`collect`] registers families whose series are known only during the scrape.

pub mod process;
pub mod text;

use std::fmt;

use prometheus_client::{
    collector::Collector,
    encoding::{
        DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeLabelSet, EncodeMetric,
    },
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Registry,
};

/// Prefix of the names of all families except those in [`process`].
const PREFIX: &str = "delay_queue";

/// Bounds of the histograms of requests and calls, in seconds.
pub const SECONDS: [f64; 18] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0, 30.0, 60.0,
];

pub fn registry() -> Registry {
    Registry::with_prefix(PREFIX)
}

/// Registers a counter that calls `read` on each scrape.
pub fn counter(
    registry: &mut Registry,
    name: &'static str,
    help: &'static str,
    read: impl Fn() -> u64 + Send + Sync + 'static,
) {
    collect(registry, name, move |encoder| one_counter(encoder, name, help, read()));
}

/// Registers a gauge that calls `read` on each scrape.
pub fn gauge(
    registry: &mut Registry,
    name: &'static str,
    help: &'static str,
    read: impl Fn() -> usize + Send + Sync + 'static,
) {
    collect(registry, name, move |encoder| one_gauge(encoder, name, help, read() as u64));
}

/// Registers families that `encode` writes on each scrape.
pub fn collect(
    registry: &mut Registry,
    name: &'static str,
    encode: impl Fn(&mut DescriptorEncoder) -> fmt::Result + Send + Sync + 'static,
) {
    registry.register_collector(Box::new(ScrapeCollector { name, encode }));
}

/// Writes a counter without labels.
pub fn one_counter<V: EncodeCounterValue + fmt::Debug>(
    encoder: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    value: V,
) -> fmt::Result {
    let family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    ConstCounter::new(value).encode(family)
}

/// Writes a gauge without labels.
pub fn one_gauge<V: EncodeGaugeValue + fmt::Debug>(
    encoder: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    value: V,
) -> fmt::Result {
    let family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    ConstGauge::new(value).encode(family)
}

/// Writes a family of counters, one for each set of labels.
pub fn counters<L: EncodeLabelSet, V: EncodeCounterValue + fmt::Debug>(
    encoder: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    series: impl IntoIterator<Item = (L, V)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (labels, value) in series {
        ConstCounter::new(value).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

/// Writes a family of gauges, one for each set of labels.
pub fn gauges<L: EncodeLabelSet, V: EncodeGaugeValue + fmt::Debug>(
    encoder: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    series: impl IntoIterator<Item = (L, V)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in series {
        ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

/// A collector that calls `encode` on each scrape.
struct ScrapeCollector<F> {
    name: &'static str,
    encode: F,
}

impl<F> fmt::Debug for ScrapeCollector<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl<F> Collector for ScrapeCollector<F>
where
    F: Fn(&mut DescriptorEncoder) -> fmt::Result + Send + Sync + 'static,
{
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        (self.encode)(&mut encoder)
    }
}
