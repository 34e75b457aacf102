//! What a run is told on the command line.

use std::time::Duration;

use clap::ValueEnum;

use super::{Failure, jobs::Ids};
use crate::cli::remote::Credentials;

/// A flow is measured from so long after its first due time.
pub const SETTLING: Duration = Duration::from_secs(1);
/// And for so long at least.
const MEASURED: Duration = Duration::from_secs(1);

/// Measure a running server; removes the jobs it leaves behind.
#[derive(Debug, Clone, clap::Args)]
pub struct Bench {
    /// The server (http:// or https://host:port) [default: the configured server.listen]
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,

    /// What lets it in.
    #[command(flatten)]
    pub credentials: Credentials,

    /// What to measure, in this order
    #[arg(
        long,
        value_name = "PHASES",
        value_delimiter = ',',
        default_value = "put,pop,flow,lateness"
    )]
    pub phases: Vec<Phase>,

    /// How many jobs to put, and then to pop and finish
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub jobs: u64,

    /// Where the ids of the jobs come from
    #[arg(long, value_enum, default_value_t = Ids::Own)]
    pub ids: Ids,

    /// How long after their put the jobs of the phases put and flow are due; 0s is at once
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration)]
    pub due_in: Duration,

    /// How many connections at once; half of them produce and half consume in the phase flow
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..))]
    pub connections: u16,

    /// The size of a job's body in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 200, value_parser = clap::value_parser!(u32).range(2..))]
    pub body: u32,

    /// How many jobs to send in one request: 1 uses the routes of one job, more those of batches
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub batch: u16,

    /// How many topics to spread the jobs over
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pub topics: u16,

    /// How many jobs to put before measuring, in the same topics, that are not due for a day
    #[arg(long, value_name = "JOBS", default_value_t = 0)]
    pub pending: u64,

    /// For how long the phase flow puts jobs
    #[arg(long, value_name = "DURATION", default_value = "20s", value_parser = duration)]
    pub flow_time: Duration,

    /// How many jobs a second the phase flow puts [default: as many as possible]
    #[arg(long, value_name = "JOBS", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub rate: Option<u64>,

    /// How many jobs the phase lateness puts
    #[arg(long, value_name = "JOBS", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub late_jobs: u64,

    /// The time over which they fall due, evenly; 0 is all in the same millisecond
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub window: Duration,

    /// How many consumers wait for them, each on its own connection
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    pub consumers: u16,

    /// How many jobs a waiting consumer takes at once
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub count: u16,

    /// Print the figures as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// A part of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, serde::Serialize)]
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

fn duration(text: &str) -> Result<Duration, String> {
    text.parse::<crate::job::Millis>().map(Into::into).map_err(|error| error.to_string())
}

impl Bench {
    /// Refuses options that do not go together.
    pub fn check(&self) -> Result<(), Failure> {
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
