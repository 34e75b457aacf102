//! The phase flow: jobs are put, promoted, popped and finished at the same time, as in daily use.
//!
//! Without a rate, producers put only as many jobs as consumers finish. Unlimited producers would
//! let the backlog grow until the end, since a put costs less than a pop and a finish.

use std::{cell::Cell, rc::Rc, time::Duration};

use tokio::{
    task::JoinSet,
    time::{Instant, Interval, interval_at, sleep, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::{
    Failure, Run,
    client::Destination,
    clock::now,
    consumers::Arrivals,
    jobs::Jobs,
    load::watch,
    options::{Phase, SETTLING},
    peer::{Peer, Server},
};

/// Producers pause while the consumers need longer than this to finish the due jobs.
const MAX_BACKLOG: Duration = Duration::from_millis(500);
/// Duration of one pause of a producer.
const BACKLOG_PAUSE: Duration = Duration::from_millis(1);

/// State that the producers share.
struct Producers {
    jobs: Rc<Jobs>,
    batch: u64,
    /// Due time of the first job.
    first_due: Instant,
    /// End of the puts.
    until: Instant,
    /// Number of producers that still put.
    active: Cell<u16>,
    arrivals: Rc<Arrivals>,
    /// Cancelled when the user stops the run.
    stop: CancellationToken,
}

impl Producers {
    /// Puts jobs until `until`: one batch per tick of `pace`, or without `pace` as many jobs as
    /// consumers finish.
    async fn produce(
        self: Rc<Self>,
        mut server: Server,
        topic: String,
        mut pace: Option<Interval>,
    ) -> Result<(), Failure> {
        while Instant::now() < self.until && !self.stop.is_cancelled() {
            let began = Instant::now();
            if let Some(pace) = &mut pace {
                if timeout_at(self.until, pace.tick()).await.is_err() {
                    break;
                }
            } else if self.has_backlog() {
                sleep(BACKLOG_PAUSE).await;
                continue;
            }
            server.put(&topic, &self.jobs, self.batch).await?;
            self.arrivals.put(self.batch);
            // While no job is due, sleeps for as long as the pop and the finish would take.
            if pace.is_none() && began < self.first_due {
                sleep(2 * began.elapsed()).await;
            }
        }
        self.active.set(self.active.get() - 1);
        if self.active.get() == 0 {
            self.arrivals.all_put();
        }
        Ok(())
    }

    /// Returns whether more jobs are unfinished than consumers finish within the delay of the jobs
    /// plus [`MAX_BACKLOG`].
    fn has_backlog(&self) -> bool {
        let seconds = self.first_due.elapsed().as_secs_f64();
        if seconds == 0.0 {
            return false;
        }
        let rate = self.arrivals.finish_rate(now(), seconds);
        let time = self.jobs.due_in + MAX_BACKLOG;
        self.arrivals.unfinished() as f64 > rate * time.as_secs_f64()
    }
}

/// Measures the phase and adds its figures to the report. Drains all jobs before the end, so that
/// lost and doubled jobs are counted.
pub async fn measure(run: &Run, to: &Destination) -> Result<(), Failure> {
    let half = (run.load.connections / 2).max(1);
    let mut servers = Vec::new();
    for _ in 0..half {
        servers.push((Server::connect(to).await?, Server::connect(to).await?));
    }
    let (due_in, flow_time) = (run.load.due_in, run.load.flow_time);
    let (began, start) = (now(), Instant::now());
    let end = began + flow_time;
    let arrivals = Arrivals::new(run.load.batch, (began + due_in + SETTLING, Some(end)));
    let producers = Rc::new(Producers {
        jobs: Rc::clone(&run.jobs),
        batch: run.load.batch.into(),
        first_due: start + due_in,
        until: start + flow_time,
        active: Cell::new(half),
        arrivals: Rc::clone(&arrivals),
        stop: run.stop.clone(),
    });
    let between_puts =
        run.load.rate.map(|rate| Duration::from_secs_f64(f64::from(run.load.batch) / rate as f64));
    let mut tasks = JoinSet::new();
    for (n, ((producer, consumer), topic)) in
        (0..).zip(servers.into_iter().zip(run.topics.iter().cycle()))
    {
        let pace =
            between_puts.map(|between| interval_at(start + between * n, between * half.into()));
        tasks.spawn_local(Rc::clone(&producers).produce(producer, topic.clone(), pace));
        tasks.spawn_local(Rc::clone(&arrivals).consume(consumer, topic.clone()));
    }
    tasks.spawn_local(Rc::clone(&arrivals).fail_if_lost(end + due_in));
    arrivals.measurements.borrow_mut().start();
    let result = watch(run, tasks, ("flow", None), &arrivals.measurements).await;
    let puts_per_second = arrivals.jobs() as f64 / flow_time.min(start.elapsed()).as_secs_f64();
    run.report.borrow_mut().figures.push(arrivals.figures(Phase::Flow, Some(puts_per_second)));
    result
}
