//! `delay-queue bench`: load on a running server, and figures that can be compared.
//!
//! One thread makes all requests, each connection one at a time. What else is measured in the
//! same run ([`Against`]) goes through the same phases, so that every figure has a ratio that the
//! machine's mood leaves alone. Jobs go to topics of their own, which are purged at the end.

mod beanstalkd;
mod client;
mod consumers;
mod flow;
mod jobs;
mod lateness;
mod load;
mod options;
mod peer;
mod report;

use std::{cell::RefCell, error::Error, net::SocketAddr, rc::Rc};

use tokio_util::sync::CancellationToken;

pub use self::options::Bench;
use self::{
    beanstalkd::Beanstalkd,
    jobs::Jobs,
    load::Target,
    options::{Against, Phase},
    peer::{OneByOne, Peer, Server},
    report::Report,
};
use crate::{config::Settings, server::Noop};

/// Why a phase ended before it was done.
type Failure = Box<dyn Error>;

/// What a run has in hand.
struct Run {
    bench: Bench,
    jobs: Rc<Jobs>,
    /// Names of this run alone.
    topics: Vec<String>,
    /// Another, where nothing that other phases left is taken for a late job.
    late_topic: String,
    stop: CancellationToken,
    report: Rc<RefCell<Report>>,
}

pub fn run(bench: Bench, settings: &Settings) -> Result<(), Failure> {
    bench.check()?;
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
    let jobs = Rc::new(Jobs::new(&bench, mark));
    let topics = (0..bench.topics).map(|n| format!("bench-{mark:08x}-{n}")).collect();
    let late_topic = format!("bench-{mark:08x}-late");
    let report = Rc::new(RefCell::new(Report::new(&bench, &url)));
    let run = Run { bench, jobs, topics, late_topic, stop, report };

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
                    let mut target = Target::new("noop", noop.address);
                    self.phase::<OneByOne>(&mut target, Phase::Put).await?;
                }
                Against::Beanstalkd(address) => {
                    let address = resolve(address, "beanstalkd").await?;
                    let mut target = Target::new("beanstalkd", address);
                    self.phase::<Beanstalkd>(&mut target, Phase::Put).await?;
                    self.phase::<Beanstalkd>(&mut target, Phase::Pop).await?;
                }
            }
        }
        if self.bench.pending > 0 {
            let pending = (self.topics.as_slice(), self.bench.pending);
            load::fill(self, server, pending, load::in_a_day()).await?;
        }
        let mut target = Target::new(report::SERVER, server);
        for &phase in &self.bench.phases {
            match phase {
                Phase::Put | Phase::Pop => self.phase::<Server>(&mut target, phase).await?,
                Phase::Flow => flow::measure(self, server).await?,
                Phase::Lateness => lateness::measure(self, server).await?,
            }
        }
        Ok(())
    }

    /// Runs one phase of load; what was measured is in the report also if it fails.
    async fn phase<P: Peer + 'static>(
        &self,
        target: &mut Target,
        phase: Phase,
    ) -> Result<(), Failure> {
        if !self.bench.phases.contains(&phase) {
            return Ok(());
        }
        let (figures, done) = load::run::<P>(self, target, phase).await;
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
