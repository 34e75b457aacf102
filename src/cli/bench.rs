//! `delay-queue bench`: generates load on a running server and prints comparable figures.

use std::{error::Error, time::Duration};

use delay_queue_bench::{Finished, Ids, Load, Phase, Site, Tls};

use super::{
    output,
    remote::{Credentials, Remote},
};
use crate::{config::Settings, job::Millis};

/// Measure a running server; afterwards, delete the jobs of the benchmark that remain.
#[derive(Debug, Clone, clap::Args)]
pub struct Bench {
    /// The server (http:// or https://host:port) [default: the configured server.listen]
    #[arg(long, value_name = "URL")]
    url: Option<String>,

    #[command(flatten)]
    credentials: Credentials,

    /// Phases to measure, in this order
    #[arg(
        long,
        value_name = "PHASES",
        value_delimiter = ',',
        default_value = "put,pop,flow,lateness"
    )]
    phases: Vec<Phase>,

    /// Number of jobs to put, and then to pop and finish
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    jobs: u64,

    /// Where the ids of the jobs come from
    #[arg(long, value_enum, default_value_t = Ids::Own)]
    ids: Ids,

    /// Delay of the jobs of the phases put and flow; with 0s they are ready at once
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration)]
    due_in: Duration,

    /// Number of connections; in the phase flow, half of them put jobs and half pop them
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..))]
    connections: u16,

    /// The size of a job's body in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 200, value_parser = clap::value_parser!(u32).range(2..))]
    body: u32,

    /// Number of jobs per request: 1 uses the routes for single jobs, more uses the batch routes
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    batch: u16,

    /// Number of topics that the jobs are spread over
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    topics: u16,

    /// Number of jobs to put into the same topics before measuring, with a delay of a day
    #[arg(long, value_name = "JOBS", default_value_t = 0)]
    pending: u64,

    /// Time for which the phase flow puts jobs
    #[arg(long, value_name = "DURATION", default_value = "20s", value_parser = duration)]
    flow_time: Duration,

    /// Number of jobs that the phase flow puts per second [default: as many as possible]
    #[arg(long, value_name = "JOBS", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    rate: Option<u64>,

    /// Number of jobs in the phase lateness
    #[arg(long, value_name = "JOBS", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    late_jobs: u64,

    /// Time over which the jobs of the phase lateness fall due, evenly spread; with 0 all are due
    /// in the same millisecond
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    window: Duration,

    /// Number of consumers that wait for the jobs of the phase lateness, each on its own connection
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    consumers: u16,

    /// Maximum number of jobs that a waiting consumer pops at once
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    count: u16,

    /// Print the figures as one JSON object
    #[arg(long)]
    json: bool,
}

fn duration(text: &str) -> Result<Duration, String> {
    text.parse::<Millis>().map(Into::into).map_err(|error| error.to_string())
}

pub fn run(bench: Bench, settings: &Settings) -> Result<(), Box<dyn Error>> {
    let scheme = if settings.server.tls.files()?.is_some() { "https" } else { "http" };
    let configured_url = || format!("{scheme}://{}", settings.server.listen.for_local_clients());
    let url = bench.url.clone().unwrap_or_else(configured_url);
    let remote = Remote::new(&url, &bench.credentials)?;
    let site = Site {
        url,
        host: remote.server.to_string(),
        headers: remote.authorization(),
        tls: remote.tls.map(|(config, name)| Tls { config, name, explain: Remote::explain }),
    };
    let json = bench.json;
    let Finished { report, result } = delay_queue_bench::run(bench.load(), site)?;
    output::line(if json { report.json() } else { report.lines() })?;
    result
}

impl Bench {
    fn load(self) -> Load {
        Load {
            phases: self.phases,
            jobs: self.jobs,
            ids: self.ids,
            due_in: self.due_in,
            connections: self.connections,
            body: self.body,
            batch: self.batch,
            topics: self.topics,
            pending: self.pending,
            flow_time: self.flow_time,
            rate: self.rate,
            late_jobs: self.late_jobs,
            window: self.window,
            consumers: self.consumers,
            count: self.count,
        }
    }
}
