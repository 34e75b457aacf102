//! What a run measures.

use std::time::Duration;

use super::Failure;

/// A flow is measured from so long after its first due time.
pub const SETTLING: Duration = Duration::from_secs(1);
/// And for so long at least.
const MEASURED: Duration = Duration::from_secs(1);

/// The load of a run. `delay-queue bench` has an option of the same name for each field.
#[derive(Debug, Clone)]
pub struct Load {
    /// What to measure, in this order.
    pub phases: Vec<Phase>,
    /// How many jobs to put, and then to pop and finish.
    pub jobs: u64,
    /// Where the ids of the jobs come from.
    pub ids: Ids,
    /// How long after their put the jobs of the phases put and flow are due; none is at once.
    pub due_in: Duration,
    /// How many connections at once, from 1; half of them produce and half consume in the phase flow.
    pub connections: u16,
    /// The size of a job's body in bytes, from 2.
    pub body: u32,
    /// How many jobs to send in one request, from 1 to 100: 1 uses the routes of one job, more those of batches.
    pub batch: u16,
    /// How many topics to spread the jobs over, from 1.
    pub topics: u16,
    /// How many jobs to put before measuring, in the same topics, that are not due for a day.
    pub pending: u64,
    /// For how long the phase flow puts jobs.
    pub flow_time: Duration,
    /// How many jobs a second the phase flow puts; none is as many as possible.
    pub rate: Option<u64>,
    /// How many jobs the phase lateness puts.
    pub late_jobs: u64,
    /// The time over which they fall due, evenly; none is all in the same millisecond.
    pub window: Duration,
    /// How many consumers wait for them, each on its own connection.
    pub consumers: u16,
    /// How many jobs a waiting consumer takes at once, from 1 to 100.
    pub count: u16,
}

/// Where the ids of the jobs come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum Ids {
    /// Each put names its own, order-<run>-<number>
    Own,
    /// Puts name none: the server makes them
    Made,
}

/// A part of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Put jobs
    Put,
    /// Pop and finish what was put, once all of it is due
    Pop,
    /// Put jobs, and pop and finish those that fall due, at the same time
    Flow,
    /// Put jobs for later, wait for them, and see how late they come
    Lateness,
}

impl Load {
    /// Refuses options that do not go together.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let Self { phases, due_in, flow_time, .. } = self;
        let least = due_in.saturating_add(SETTLING + MEASURED);
        if phases.contains(&Phase::Flow) && *flow_time < least {
            return Err(format!(
                "--flow-time must be at least {least:?}, 2 s more than --due-in; got {flow_time:?}"
            )
            .into());
        }
        let left = |upto: &[Phase]| {
            upto.iter().rev().find(|phase| matches!(phase, Phase::Put | Phase::Pop)).copied()
        };
        let flow = phases.iter().position(|&phase| phase == Phase::Flow);
        if flow.is_some_and(|flow| left(&phases[..flow]) == Some(Phase::Put)) {
            return Err(
                "--phases must have a pop between put and flow: the consumers of the flow \
                        would get what put left"
                    .into(),
            );
        }
        Ok(())
    }
}
