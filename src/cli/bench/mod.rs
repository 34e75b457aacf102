//! `delay-queue bench`: load on a running server, and figures that can be compared.
//!
//! One thread makes all requests, each connection one at a time. What else is measured in the
//! same run ([`Against`]) goes through the same phases, so that every figure has a ratio that the
//! machine's mood leaves alone. Jobs go to topics of their own, which are purged at the end.

mod beanstalkd;
mod client;
mod lateness;
mod load;
mod peer;
mod report;

use std::{cell::RefCell, error::Error, net::SocketAddr, rc::Rc, time::Duration};

use clap::ValueEnum;
use tokio_util::sync::CancellationToken;

use self::{
    beanstalkd::Beanstalkd,
    peer::{OneByOne, Peer, Server},
    report::Report,
};
use crate::{config::Settings, server::Noop};

/// Why a phase ended before it was done.
type Failure = Box<dyn Error>;

/// Measure a running server; removes the jobs it leaves behind.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Bench {
    /// The server [default: http:// and the configured server.listen]
    #[arg(long, value_name = "URL")]
    url: Option<String>,

    /// What to measure, in this order
    #[arg(long, value_name = "PHASES", value_delimiter = ',', default_value = "put,pop,lateness")]
    phases: Vec<Phase>,

    /// How many jobs to put, and then to pop and finish
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    jobs: u64,

    /// How many connections at once
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..))]
    connections: u16,

    /// The size of a job's body in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 200, value_parser = clap::value_parser!(u32).range(2..))]
    body: u32,

    /// How many jobs go in one request: 1 for the routes of one job, else those of batches
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    batch: u16,

    /// Over how many topics the jobs are spread
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    topics: u16,

    /// Before measuring, put so many jobs in the same topics that are not due for a day
    #[arg(long, value_name = "JOBS", default_value_t = 0)]
    pending: u64,

    /// How many jobs the phase lateness puts
    #[arg(long, value_name = "JOBS", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    late_jobs: u64,

    /// Over how long a time they fall due, evenly; 0 is all in the same millisecond
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = window)]
    window: Duration,

    /// How many consumers wait for them, a connection each
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    consumers: u16,

    /// How many jobs a waiting consumer takes at once
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    count: u16,

    /// Measure these too: `noop` (a handler on the same HTTP stack that parses a job and answers;
    /// put only) or `beanstalkd://<host>:<port>` (put and pop, one job a command)
    #[arg(long, value_name = "PEER", value_delimiter = ',')]
    against: Vec<Against>,

    /// Print the figures as one JSON object
    #[arg(long)]
    json: bool,
}

/// A part of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
enum Phase {
    /// Put jobs that are due at once
    Put,
    /// Pop and finish what was put
    Pop,
    /// Put jobs for later, wait for them, and see how late they come
    Lateness,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Against {
    Noop,
    /// Its URL.
    Beanstalkd(String),
}

impl std::str::FromStr for Against {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "noop" => Ok(Self::Noop),
            url if url.starts_with("beanstalkd://") => Ok(Self::Beanstalkd(url.to_owned())),
            _ => Err("must be noop or beanstalkd://<host>:<port>".to_owned()),
        }
    }
}

fn window(text: &str) -> Result<Duration, String> {
    text.parse::<crate::job::Millis>().map(Into::into).map_err(|error| error.to_string())
}

/// What a run has in hand.
struct Run {
    bench: Bench,
    /// Names that nobody else uses.
    topics: Vec<String>,
    /// Another, where nothing that other phases left is taken for a late job.
    late_topic: String,
    stop: CancellationToken,
    report: Rc<RefCell<Report>>,
}

pub(super) fn run(bench: Bench, settings: &Settings) -> Result<(), Failure> {
    let url = bench
        .url
        .clone()
        .unwrap_or_else(|| format!("http://{}", settings.server.listen.reachable()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let tasks = tokio::task::LocalSet::new();
    tasks.block_on(&runtime, measure(bench, url))
}

async fn measure(bench: Bench, url: String) -> Result<(), Failure> {
    let server = resolve(&url, "http").await?;
    // The server first: what is not there is told before anything else is measured.
    drop(Server::connect(server).await?);
    let stop = CancellationToken::new();
    let interrupted = stop.clone();
    tokio::task::spawn_local(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            interrupted.cancel();
        }
    });
    let mark = rand::random::<u32>();
    let topics = (0..bench.topics).map(|n| format!("bench-{mark:08x}-{n}")).collect();
    let late_topic = format!("bench-{mark:08x}-late");
    let report = Rc::new(RefCell::new(Report::new(&bench, &url)));
    let run = Run { bench, topics, late_topic, stop, report };

    let measured = run.all(server).await;
    let purged = run.purge(server).await;
    let text = run.report.borrow_mut().text(measured.as_ref().err(), run.bench.json);
    println!("{text}");
    measured.and(purged)
}

/// The address in `<scheme>://<host>:<port>`.
async fn resolve(url: &str, scheme: &str) -> Result<SocketAddr, Failure> {
    let address = url.strip_prefix(scheme).and_then(|rest| rest.strip_prefix("://"));
    let address = address.map(|address| address.trim_end_matches('/'));
    let Some(address) = address.filter(|address| address.contains(':')) else {
        return Err(format!("{url:?} must be {scheme}://<host>:<port>").into());
    };
    let none = |cause: &dyn std::fmt::Display| {
        format!("{url:?} is no address that can be reached: {cause}")
    };
    let mut found = tokio::net::lookup_host(address).await.map_err(|cause| none(&cause))?;
    Ok(found.next().ok_or_else(|| none(&"the name has none"))?)
}

impl Run {
    async fn all(&self, server: SocketAddr) -> Result<(), Failure> {
        for against in &self.bench.against {
            match against {
                Against::Noop => {
                    let noop = Noop::start()?;
                    self.phase::<OneByOne>(noop.address, "noop", Phase::Put).await?;
                }
                Against::Beanstalkd(address) => {
                    let address = resolve(address, "beanstalkd").await?;
                    self.phase::<Beanstalkd>(address, "beanstalkd", Phase::Put).await?;
                    self.phase::<Beanstalkd>(address, "beanstalkd", Phase::Pop).await?;
                }
            }
        }
        if self.bench.pending > 0 {
            let pending = (self.topics.as_slice(), self.bench.pending);
            load::fill(self, server, pending, load::in_a_day()).await?;
        }
        for &phase in &self.bench.phases {
            match phase {
                Phase::Lateness => lateness::measure(self, server).await?,
                phase => self.phase::<Server>(server, report::SERVER, phase).await?,
            }
        }
        Ok(())
    }

    /// Runs one phase of load; what was measured is in the report also if it fails.
    async fn phase<P: Peer + 'static>(
        &self,
        address: SocketAddr,
        name: &'static str,
        phase: Phase,
    ) -> Result<(), Failure> {
        if !self.bench.phases.contains(&phase) {
            return Ok(());
        }
        let (figures, done) = load::run::<P>(self, address, (name, phase)).await;
        self.report.borrow_mut().figures.push(figures);
        done
    }

    /// Removes what is left, as long as the user has patience: a second Ctrl-C ends it.
    async fn purge(&self, server: SocketAddr) -> Result<(), Failure> {
        let purge = async {
            let topics: Vec<&str> =
                self.topics.iter().chain([&self.late_topic]).map(String::as_str).collect();
            Server::connect(server).await?.purge(&topics).await?;
            for against in &self.bench.against {
                if let Against::Beanstalkd(address) = against {
                    let address = resolve(address, "beanstalkd").await?;
                    Beanstalkd::connect(address).await?.purge(&topics).await?;
                }
            }
            Ok::<(), Failure>(())
        };
        let purged = tokio::select! {
            purged = purge => purged,
            _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
        };
        let first = &self.topics[0];
        purged.map_err(|cause| format!("jobs may be left in {first} …: {cause}").into())
    }
}
