//! The report of a run, as text and as JSON.

use std::{fmt::Write, time::Duration};

use hdrhistogram::Histogram;
use serde::Serialize;

use super::{
    clock::now,
    options::{Ids, Load, Phase},
};

/// An hour in microseconds; longer times count as an hour.
const HOUR: u64 = 3_600_000_000;
/// Name of a delay-queue server in the report.
pub const SERVER: &str = "delay-queue";

/// The options of a run, and the figures of all phases that ran.
#[derive(Serialize)]
pub struct Report {
    url: String,
    ids: Ids,
    due_in_seconds: f64,
    connections: u16,
    body_bytes: u32,
    batch: u16,
    topics: u16,
    pending: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<u64>,
    pub(crate) figures: Vec<Figures>,
    /// Error that ended the run early.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

/// Figures of one phase on one program.
#[derive(Serialize)]
pub struct Figures {
    peer: &'static str,
    phase: Phase,
    /// Time of the first request, in seconds since 1970, to match other measurements.
    began: f64,
    jobs: u64,
    seconds: f64,
    jobs_per_second: f64,
    /// Duration of a request; in pop, of a pop and its finish; in flow and lateness, the time from
    /// the due time to the answer. The next three fields are other quantiles of it.
    p50_ms: f64,
    p99_ms: f64,
    p99_9_ms: f64,
    max_ms: f64,
    /// CPU time per job of the thread that sent the requests, in microseconds.
    generator_us: Option<f64>,
    /// Only of flow and lateness.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    arrivals: Option<Counts>,
}

/// Counts of jobs that waiting consumers got too early, never, or repeatedly.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Counts {
    /// Jobs that arrived before they were due.
    pub early: u64,
    /// Jobs that did not arrive.
    pub lost: u64,
    /// Repeated deliveries.
    pub doubled: u64,
    /// Jobs put per second (flow only).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub puts_per_second: Option<f64>,
}

pub struct Measurements {
    pub jobs: u64,
    micros: Histogram<u64>,
    pub early: u64,
    began: std::time::Instant,
    began_at: Duration,
    cpu: Option<Duration>,
}

impl Measurements {
    pub fn new() -> Self {
        let micros = Histogram::new_with_bounds(1, HOUR, 3).expect("valid bounds");
        let (began, began_at) = (std::time::Instant::now(), now());
        Self { jobs: 0, micros, early: 0, began, began_at, cpu: None }
    }

    /// Restarts the clocks of wall time and processor time.
    pub fn start(&mut self) {
        (self.began, self.began_at) = (std::time::Instant::now(), now());
        self.cpu = cpu_time();
    }

    /// Counts a request for `jobs` jobs.
    pub fn add(&mut self, jobs: u64, took: Duration) {
        self.jobs += jobs;
        self.micros.saturating_record(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }

    /// Counts a job that arrived at `now`, as a duration since 1970, and was due at `due`, in
    /// milliseconds since 1970.
    pub fn record_arrival(&mut self, now: Duration, due: u64) {
        let due = Duration::from_millis(due);
        self.early += u64::from(now < due);
        self.add(1, now.saturating_sub(due));
    }

    pub fn figures(&self, peer: &'static str, phase: Phase) -> Figures {
        let seconds = self.began.elapsed().as_secs_f64();
        let at = |quantile| self.micros.value_at_quantile(quantile) as f64 / 1_000.0;
        let cpu = self.cpu.and_then(|before| cpu_time()?.checked_sub(before));
        Figures {
            peer,
            phase,
            began: self.began_at.as_secs_f64(),
            jobs: self.jobs,
            seconds,
            jobs_per_second: rate(self.jobs, seconds),
            p50_ms: at(0.5),
            p99_ms: at(0.99),
            p99_9_ms: at(0.999),
            max_ms: self.micros.max() as f64 / 1_000.0,
            generator_us: cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / self.jobs.max(1) as f64),
            arrivals: None,
        }
    }
}

impl Figures {
    /// Sets the counts of waiting consumers, and the rate of `jobs` jobs within the measured
    /// `seconds`.
    pub fn set_arrivals(&mut self, (jobs, seconds): (u64, f64), counts: Counts) {
        self.seconds = seconds;
        self.jobs_per_second = rate(jobs, seconds);
        self.arrivals = Some(counts);
    }

    fn line(&self) -> String {
        let mut line = format!(
            "{:<12} {:<9} {:>9} jobs  {:>9.0} jobs/s   p50 {:>8.2} ms   p99 {:>8.2}   p99.9 {:>8.2}   max {:>8.2}",
            self.peer,
            format!("{:?}", self.phase).to_lowercase(),
            self.jobs,
            self.jobs_per_second,
            self.p50_ms,
            self.p99_ms,
            self.p99_9_ms,
            self.max_ms,
        );
        if let Some(Counts { early, lost, doubled, puts_per_second }) = self.arrivals {
            let _ = write!(line, "   early {early}, lost {lost}, doubled {doubled}");
            if let Some(puts) = puts_per_second {
                let _ = write!(line, ", {puts:.0} puts/s");
            }
        }
        line
    }
}

impl Report {
    pub(crate) fn new(load: &Load, url: &str) -> Self {
        let Load { ids, due_in, connections, body, batch, topics, pending, rate, .. } = *load;
        Self {
            url: url.to_owned(),
            ids,
            due_in_seconds: due_in.as_secs_f64(),
            connections,
            body_bytes: body,
            batch,
            topics,
            pending,
            rate,
            figures: Vec::new(),
            error: None,
        }
    }

    /// Returns the report as one JSON object.
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("numbers and texts")
    }

    /// Returns the report as text: a line about the run, a line for each phase, and a line about
    /// the CPU time of the generator.
    pub fn lines(&self) -> String {
        let Self { ids, connections, body_bytes, batch, topics, pending, .. } = self;
        let mut text = format!(
            "{connections} connections, {body_bytes}-byte bodies, {ids:?} ids, {batch} a request, \
             due in {} s, {topics} topics, {pending} jobs pending",
            self.due_in_seconds
        )
        .to_lowercase();
        for figures in &self.figures {
            text.push('\n');
            text.push_str(&figures.line());
        }
        let costs: Vec<f64> = self.figures.iter().filter_map(|f| f.generator_us).collect();
        if let Some(cost) = costs.into_iter().reduce(f64::max) {
            let _ = write!(text, "\nthis generator used at most {cost:.1} µs of CPU per job");
        }
        text
    }
}

fn rate(jobs: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { jobs as f64 / seconds } else { 0.0 }
}

/// Returns the CPU time of this thread so far, on Linux (`proc(5)`).
fn cpu_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}
