//! `delay-queue bench`: load on a running server, and figures that can be compared.
//!
//! One thread makes all requests, each connection one at a time. Jobs go to topics of their own,
//! which are purged at the end. `benches/peers` puts the same load on other programs ([`run_peer`]).

mod client;
mod consumers;
mod flow;
mod jobs;
mod lateness;
mod load;
mod options;
mod peer;
mod report;

use std::{cell::RefCell, error::Error, future::Future, net::SocketAddr, rc::Rc};

use tokio_util::sync::CancellationToken;

pub use self::{
    client::{Destination, Wire},
    jobs::Jobs,
    options::Bench,
    peer::Peer,
};
use self::{load::Target, options::Phase, peer::Server, report::Report};
use crate::{
    cli::{output, remote::Remote},
    config::Settings,
};

/// Why a phase ended before it was done.
pub type Failure = Box<dyn Error>;

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

/// Measures a running server: the one at `--url`, or else the configured one.
pub fn run(bench: Bench, settings: &Settings) -> Result<(), Failure> {
    let scheme = if settings.server.tls.files()?.is_some() { "https" } else { "http" };
    let listen = || format!("{scheme}://{}", settings.server.listen.reachable());
    let url = bench.url.clone().unwrap_or_else(listen);
    on_one_thread(async {
        let remote = Remote::new(&url, &bench.credentials)?;
        let server = Destination::new(&remote, resolve(&url, &remote.server.to_string()).await?);
        let run = Run::start::<Server>(bench, &url, &server).await?;
        let measured = run.all_phases(&server).await;
        run.end::<Server>(&server, measured).await
    })
}

/// Puts the load of the phases put and pop on something else than a delay-queue server: at `url`,
/// whose scheme is `name`.
///
/// # Errors
/// Nothing answers there, or not as it should; options that do not go together.
pub fn run_peer<P: Peer + 'static>(
    bench: Bench,
    name: &'static str,
    url: &str,
) -> Result<(), Failure> {
    on_one_thread(async {
        let address = url.strip_prefix(name).and_then(|rest| rest.strip_prefix("://"));
        let address = address.ok_or_else(|| format!("{url:?} must be {name}://<host>:<port>"))?;
        let peer = Destination::from(resolve(url, address).await?);
        let run = Run::start::<P>(bench, url, &peer).await?;
        let measured = run.puts_and_pops::<P>(Target::new(name, peer.clone())).await;
        run.end::<P>(&peer, measured).await
    })
}

fn on_one_thread(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, work)
}

/// The first address of the host and port of a URL.
async fn resolve(url: &str, address: &str) -> Result<SocketAddr, Failure> {
    let none = |cause: &dyn std::fmt::Display| {
        format!("{url:?} is no address that can be reached: {cause}")
    };
    let mut found = tokio::net::lookup_host(address).await.map_err(|cause| none(&cause))?;
    Ok(found.next().ok_or_else(|| none(&"the name has none"))?)
}

impl Run {
    async fn start<P: Peer>(bench: Bench, url: &str, to: &Destination) -> Result<Self, Failure> {
        bench.check()?;
        drop(P::connect(to).await?); // what is not there is told before anything is measured
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
        let report = Rc::new(RefCell::new(Report::new(&bench, url)));
        Ok(Self { bench, jobs, topics, late_topic, stop, report })
    }

    async fn all_phases(&self, server: &Destination) -> Result<(), Failure> {
        if self.bench.pending > 0 {
            let pending = (self.topics.as_slice(), self.bench.pending);
            load::fill(self, server, pending, load::in_a_day()).await?;
        }
        let mut target = Target::new(report::SERVER, server.clone());
        for &phase in &self.bench.phases {
            match phase {
                Phase::Put | Phase::Pop => self.phase::<Server>(&mut target, phase).await?,
                Phase::Flow => flow::measure(self, server).await?,
                Phase::Lateness => lateness::measure(self, server).await?,
            }
        }
        Ok(())
    }

    async fn puts_and_pops<P: Peer + 'static>(&self, mut target: Target) -> Result<(), Failure> {
        for &phase in &self.bench.phases {
            if matches!(phase, Phase::Put | Phase::Pop) {
                self.phase::<P>(&mut target, phase).await?;
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
        let (figures, done) = load::run::<P>(self, target, phase).await;
        self.report.borrow_mut().figures.push(figures);
        done
    }

    /// Prints what was measured, and leaves nothing behind.
    async fn end<P: Peer>(
        &self,
        to: &Destination,
        measured: Result<(), Failure>,
    ) -> Result<(), Failure> {
        let purged = self.purge::<P>(to).await;
        let text = self.report.borrow_mut().text(measured.as_ref().err(), self.bench.json);
        output::line(text)?;
        measured.and(purged)
    }

    /// Removes what is left, as long as the user has patience: a second Ctrl-C ends it.
    async fn purge<P: Peer>(&self, to: &Destination) -> Result<(), Failure> {
        let purge = async {
            let topics: Vec<&str> =
                self.topics.iter().chain([&self.late_topic]).map(String::as_str).collect();
            P::connect(to).await?.purge(&topics).await
        };
        let purged = tokio::select! {
            purged = purge => purged,
            _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
        };
        let first = &self.topics[0];
        purged.map_err(|cause| format!("jobs may be left in {first} …: {cause}").into())
    }
}
