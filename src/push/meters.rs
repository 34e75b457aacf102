//! Metrics of pushes, by target.

use std::{sync::Arc, time::Duration};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};

use super::{target::Target, verdict::Verdict};
use crate::metrics::{SECONDS, collect, gauges};

/// Counters and times of requests.
#[derive(Clone)]
pub struct Meters {
    jobs: Family<Outcome, Counter>,
    seconds: Family<Of, Histogram>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    target: String,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Of {
    target: String,
}

const OUTCOMES: [&str; 4] = ["accepted", "refused", "later", "failed"];

impl Meters {
    /// Registers the metrics. `targets` returns the current targets.
    pub fn new(
        registry: &mut Registry,
        targets: impl Fn() -> Vec<Arc<Target>> + Send + Sync + 'static,
    ) -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(SECONDS);
        let meters =
            Self { jobs: Family::default(), seconds: Family::new_with_constructor(histogram) };
        let help = "Pushed jobs, by the verdict of their endpoint";
        registry.register("push_jobs", help, meters.jobs.clone());
        let help = "Time of a request of a push, with its answer";
        registry.register("push_request_seconds", help, meters.seconds.clone());
        collect(registry, "push_targets", move |encoder| {
            let targets = targets();
            let series = |value: fn(&Target) -> u64| {
                let of =
                    move |target: &Arc<Target>| ([("target", target.name.clone())], value(target));
                targets.iter().map(of).collect::<Vec<_>>()
            };
            let help = "1 if the target of a push, or a push to it, fails and is only probed.";
            gauges(encoder, "push_target_open", help, series(|target| target.is_open().into()))?;
            let help = "Requests of pushes that are under way.";
            gauges(
                encoder,
                "push_requests_in_flight",
                help,
                series(|target| target.in_flight() as u64),
            )
        });
        meters
    }

    /// Counts the jobs of a request.
    pub fn count(&self, target: &str, verdicts: &[Verdict], time: Duration) {
        for verdict in verdicts {
            let outcome = match verdict {
                Verdict::Accepted(_) => OUTCOMES[0],
                Verdict::Refused(_) => OUTCOMES[1],
                Verdict::Later { .. } => OUTCOMES[2],
                Verdict::Failed(_) => OUTCOMES[3],
            };
            self.jobs.get_or_create(&Outcome { target: target.to_owned(), outcome }).inc();
        }
        self.seconds.get_or_create(&Of { target: target.to_owned() }).observe(time.as_secs_f64());
    }

    /// Removes the series of a target without a push.
    pub fn remove(&self, target: &str) {
        for outcome in OUTCOMES {
            self.jobs.remove(&Outcome { target: target.to_owned(), outcome });
        }
        self.seconds.remove(&Of { target: target.to_owned() });
    }
}
