//! Options of a run.

use std::time::Duration;

use super::Failure;

/// Time from the first due time of a flow to the start of its measurement.
pub const SETTLING: Duration = Duration::from_secs(1);
/// Minimum time for which a flow is measured.
const MIN_MEASURED: Duration = Duration::from_secs(1);

/// The load of a run. `delay-queue bench` has an option of the same name for each field.
#[derive(Debug, Clone)]
pub struct Load {
    /// Phases to run, in this order.
    pub phases: Vec<Phase>,
    /// Number of jobs to put, and then to pop and finish.
    pub jobs: u64,
    /// Origin of the jobs' ids.
    pub ids: Ids,
    /// Delay of jobs in the phases put and flow; zero means no delay.
    pub due_in: Duration,
    /// Number of connections, from 1; in the phase flow, half of them produce and half consume.
    pub connections: u16,
    /// Size of a job's body in bytes, from 2.
    pub body: u32,
    /// Number of jobs per request, from 1 to 100. With 1, requests use the routes for one job;
    /// otherwise, the routes for batches.
    pub batch: u16,
    /// Number of topics over which the jobs are spread, from 1.
    pub topics: u16,
    /// Number of jobs to put into the same topics before measuring, due after more than a day.
    pub pending: u64,
    /// Time for which the phase flow puts jobs.
    pub flow_time: Duration,
    /// Number of jobs per second that the phase flow puts; `None` for as many as possible.
    pub rate: Option<u64>,
    /// Number of jobs in the phase lateness.
    pub late_jobs: u64,
    /// Time over which the due times of these jobs are spread evenly; with zero, all jobs are due
    /// in the same millisecond.
    pub window: Duration,
    /// Number of consumers that wait for these jobs, each on its own connection.
    pub consumers: u16,
    /// Maximum number of jobs that a waiting consumer takes at once, from 1 to 100.
    pub count: u16,
}

/// Origin of the jobs' ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum Ids {
    /// The generator sets ids: order-<run>-<number>
    Own,
    /// The server generates ids
    Made,
}

/// A part of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Put jobs
    Put,
    /// Pop and finish the jobs of put, once all of them are due
    Pop,
    /// Put jobs, and pop and finish due jobs, at the same time
    Flow,
    /// Put delayed jobs, wait for them, and measure their lateness
    Lateness,
}

impl Load {
    /// Checks that the options do not contradict each other.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let Self { phases, due_in, flow_time, .. } = self;
        let minimum = due_in.saturating_add(SETTLING + MIN_MEASURED);
        if phases.contains(&Phase::Flow) && *flow_time < minimum {
            return Err(format!(
                "--flow-time must be at least {minimum:?}, 2 s more than --due-in; got {flow_time:?}"
            )
            .into());
        }
        let last_of_both = |before: &[Phase]| {
            before.iter().rev().find(|phase| matches!(phase, Phase::Put | Phase::Pop)).copied()
        };
        let flow = phases.iter().position(|&phase| phase == Phase::Flow);
        if flow.is_some_and(|flow| last_of_both(&phases[..flow]) == Some(Phase::Put)) {
            return Err(
                "--phases must have a pop between put and flow: the consumers of the flow \
                        would pop the jobs of put"
                    .into(),
            );
        }
        Ok(())
    }
}
