#![doc = include_str!("../README.md")]

mod client;
mod clock;
mod consumers;
mod flow;
mod jobs;
mod lateness;
mod load;
mod options;
mod peer;
mod report;

use std::{cell::RefCell, error::Error, future::Future, rc::Rc};

use tokio_util::sync::CancellationToken;

use self::{
    client::resolve,
    load::{Target, fill, in_a_day, measure},
    peer::Server,
};
pub use self::{
    client::{Destination, Site, Tls, Wire},
    jobs::Jobs,
    options::{Ids, Load, Phase},
    peer::Peer,
    report::Report,
};

/// Error of a run that could not start, or ended early.
pub type Failure = Box<dyn Error>;

/// A finished run.
pub struct Finished {
    /// The figures of all phases that ran.
    pub report: Report,
    /// Error of a phase or of the removal of jobs, if one failed.
    pub result: Result<(), Failure>,
}

struct Run {
    load: Load,
    jobs: Rc<Jobs>,
    topics: Vec<String>,
    /// Separate topic of the phase lateness, so that jobs left by other phases do not count as
    /// late.
    late_topic: String,
    stop: CancellationToken,
    report: RefCell<Report>,
}

/// Measures a delay-queue server. The first Ctrl-C ends the run early; a second one leaves its jobs
/// on the server.
///
/// # Errors
/// The server does not answer, or options contradict each other.
pub fn run(load: Load, site: Site) -> Result<Finished, Failure> {
    on_one_thread(async {
        let url = site.url.clone();
        let server = Destination::resolve(site).await?;
        let run = Run::start::<Server>(load, &url, &server).await?;
        let measured = run.all_phases(&server).await;
        Ok(run.end::<Server>(&server, measured).await)
    })
}

/// Measures the phases put and pop on a program other than delay-queue, at `url`, whose scheme is
/// `name`.
///
/// # Errors
/// The program does not answer or answers unexpectedly, or options contradict each other.
pub fn run_peer<P: Peer + 'static>(
    load: Load,
    name: &'static str,
    url: &str,
) -> Result<Finished, Failure> {
    on_one_thread(async {
        let host = url.strip_prefix(name).and_then(|rest| rest.strip_prefix("://"));
        let host = host.ok_or_else(|| format!("{url:?} must be {name}://<host>:<port>"))?;
        let peer = Destination::from(resolve(url, host).await?);
        let run = Run::start::<P>(load, url, &peer).await?;
        let measured = run.puts_and_pops::<P>(Target::new(name, peer.clone())).await;
        Ok(run.end::<P>(&peer, measured).await)
    })
}

fn on_one_thread<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, work)
}

impl Run {
    async fn start<P: Peer>(load: Load, url: &str, to: &Destination) -> Result<Self, Failure> {
        load.check()?;
        drop(P::connect(to).await?); // report a missing server before any work
        let stop = CancellationToken::new();
        let interrupted = stop.clone();
        tokio::task::spawn_local(async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                interrupted.cancel();
            }
        });
        let run_id = rand::random::<u32>();
        let jobs = Rc::new(Jobs::new(&load, run_id));
        let topics = (0..load.topics).map(|n| format!("bench-{run_id:08x}-{n}")).collect();
        let late_topic = format!("bench-{run_id:08x}-late");
        let report = RefCell::new(Report::new(&load, url));
        Ok(Self { load, jobs, topics, late_topic, stop, report })
    }

    async fn all_phases(&self, server: &Destination) -> Result<(), Failure> {
        // A token without the right to purge would leave the jobs of the run behind.
        let may_purge = Server::connect(server).await?.purge(&[&self.late_topic]).await;
        may_purge.map_err(|cause| format!("failed to purge, as at the end of the run: {cause}"))?;
        if self.load.pending > 0 {
            let pending = (self.topics.as_slice(), self.load.pending);
            fill(self, server, pending, in_a_day()).await?;
        }
        let mut target = Target::new(report::SERVER, server.clone());
        for &phase in &self.load.phases {
            match phase {
                Phase::Put | Phase::Pop => self.phase::<Server>(&mut target, phase).await?,
                Phase::Flow => flow::measure(self, server).await?,
                Phase::Lateness => lateness::measure(self, server).await?,
            }
        }
        Ok(())
    }

    async fn puts_and_pops<P: Peer + 'static>(&self, mut target: Target) -> Result<(), Failure> {
        for &phase in &self.load.phases {
            if matches!(phase, Phase::Put | Phase::Pop) {
                self.phase::<P>(&mut target, phase).await?;
            }
        }
        Ok(())
    }

    /// Runs put or pop, and adds its figures to the report even if it fails.
    async fn phase<P: Peer + 'static>(
        &self,
        target: &mut Target,
        phase: Phase,
    ) -> Result<(), Failure> {
        let (figures, result) = measure::<P>(self, target, phase).await;
        self.report.borrow_mut().figures.push(figures);
        result
    }

    /// Removes the jobs of the run and returns its report.
    async fn end<P: Peer>(self, to: &Destination, measured: Result<(), Failure>) -> Finished {
        let purged = self.purge::<P>(to).await;
        let mut report = self.report.into_inner();
        report.error = measured.as_ref().err().map(ToString::to_string);
        Finished { report, result: measured.and(purged) }
    }

    /// Removes the remaining jobs of the run; a second Ctrl-C interrupts this.
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
