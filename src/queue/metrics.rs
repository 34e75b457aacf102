//! What a monitor should watch of the queue and its store.

use std::sync::Arc;

use prometheus_client::registry::Registry;

use super::timer_handle::TimerHandle;
use crate::{
    metrics::{counter, gauge},
    store::Store,
};

pub fn register(registry: &mut Registry, store: &Arc<dyn Store>, timer: &Arc<TimerHandle>) {
    let help =
        "How often a bucket was found without the jobs it had: the store was emptied or replaced.";
    let of = Arc::clone(store);
    counter(registry, "data_losses", help, move || of.condition().data_losses);
    let help = "How often the store's clock jumped by more than three seconds.";
    let of = Arc::clone(store);
    counter(registry, "clock_jumps", help, move || of.condition().clock_jumps.count);
    let help = "1 if the store has no room: puts are refused, finishing and deleting go on.";
    let of = Arc::clone(store);
    gauge(registry, "store_full", help, move || of.condition().is_full.into());
    let of = Arc::clone(timer);
    gauge(registry, "buckets", "Buckets of the store.", move || of.buckets());
    let help = "Buckets that are out of reach: they refuse, the others go on.";
    let of = Arc::clone(timer);
    gauge(registry, "buckets_unavailable", help, move || of.failing().len());
}
