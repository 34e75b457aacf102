//! How late due jobs come to consumers that wait for them.
//!
//! Late by this machine's clock, from the due time until the answer has been read: a server on
//! another machine adds the difference of their clocks.

use std::{
    cell::{Cell, RefCell},
    net::SocketAddr,
    rc::Rc,
    slice,
    time::{Duration, SystemTime},
};

use tokio::{task::JoinSet, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{
    Failure, Phase, Run,
    load::{fill, watch},
    peer::{Peer, Server},
    report::{SERVER, Tally},
};
use crate::job::UnixMillis;

/// Jobs are put before the first falls due: so long, and so many a second.
const LEAD: Duration = Duration::from_secs(2);
const PUTS_PER_SECOND: u64 = 10_000;
/// How many seconds a consumer waits in one request.
const WAIT: u64 = 20;
/// How long after the last due time what is missing is given up.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the consumers share.
struct Wanted {
    topic: String,
    count: u64,
    /// Jobs that nobody has received yet.
    left: Cell<u64>,
    /// All are there: nobody need wait.
    complete: CancellationToken,
    tally: RefCell<Tally>,
    /// When the last of them came, since 1970.
    last: Cell<Duration>,
}

impl Wanted {
    async fn consume(self: Rc<Self>, mut server: Server) -> Result<(), Failure> {
        loop {
            let jobs = tokio::select! {
                jobs = server.pop(&self.topic, self.count, WAIT) => jobs?,
                () = self.complete.cancelled() => return Ok(()),
            };
            if jobs.is_empty() {
                continue;
            }
            let now = now();
            for job in &jobs {
                self.tally.borrow_mut().late(now, job.due_at());
            }
            self.last.set(now);
            self.left.set(self.left.get().saturating_sub(jobs.len() as u64));
            server.finish(&jobs).await?;
            if self.left.get() == 0 {
                self.complete.cancel();
            }
        }
    }
}

/// Measures, and puts what was measured into the report.
pub(super) async fn measure(run: &Run, address: SocketAddr) -> Result<(), Failure> {
    let (jobs, window) = (run.bench.late_jobs, run.bench.window);
    let lead = LEAD + Duration::from_secs(jobs / PUTS_PER_SECOND);
    let first = whole_millis(now() + lead);
    let due = move |n: u64| first + whole_millis(window).saturating_mul(n) / jobs;
    let topic = slice::from_ref(&run.late_topic);
    fill(run, address, (topic, jobs), move |n| UnixMillis::new(due(n))).await?;
    if now().as_millis() > first.into() {
        return Err(format!("putting {jobs} jobs took longer than {} s", lead.as_secs()).into());
    }

    let wanted = Rc::new(Wanted {
        topic: run.late_topic.clone(),
        count: run.bench.count.into(),
        left: Cell::new(jobs),
        complete: CancellationToken::new(),
        tally: RefCell::new(Tally::new()),
        last: Cell::default(),
    });
    let mut parts = JoinSet::new();
    for _ in 0..run.bench.consumers {
        parts.spawn_local(Rc::clone(&wanted).consume(Server::connect(address).await?));
    }
    wanted.tally.borrow_mut().start();
    let all = watch(run, parts, ("lateness", jobs), &wanted.tally);
    let done = timeout(lead + window + PATIENCE, all).await;

    // The rate is that from the first due time on.
    let seconds = wanted.last.get().saturating_sub(Duration::from_millis(first)).as_secs_f64();
    let mut figures = wanted.tally.borrow_mut().figures(SERVER, Phase::Lateness);
    figures.of_lateness(seconds, wanted.left.get());
    run.report.borrow_mut().figures.push(figures);
    done.unwrap_or_else(
        |_| Err(format!("{} of {jobs} jobs did not come", wanted.left.get()).into()),
    )
}

/// The time of this machine, since 1970.
#[expect(clippy::disallowed_methods, reason = "lateness is what somebody outside sees")]
fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

fn whole_millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
