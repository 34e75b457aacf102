//! Consumers that wait for jobs and finish them, and counts of late, early, lost and doubled jobs.
//!
//! Lateness is the time from the due time until the answer has been read, by this machine's clock.
//! If the server is on another machine, lateness includes the difference of the two clocks.

use std::{
    cell::{Cell, RefCell},
    collections::HashSet,
    rc::Rc,
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use super::{
    Failure,
    clock::now,
    options::Phase,
    peer::{PoppedJob, Server},
    report::{Counts, Figures, Measurements, SERVER},
};

/// Time without a job after which the missing jobs count as lost.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Time that a pop waits for jobs.
const POP_WAIT_SECONDS: u64 = 20;

/// State that the consumers of a phase share. Times are durations since 1970.
pub struct Arrivals {
    /// Maximum number of jobs per pop.
    count: u64,
    /// Start and end of the window in which the rate is measured. Without an end, the window ends
    /// with the last finished job.
    measured: (Duration, Option<Duration>),
    put: Cell<u64>,
    all_put: Cell<bool>,
    /// Numbers of the finished jobs.
    finished: RefCell<HashSet<u64>>,
    /// Number of jobs finished within `measured`.
    finished_in_window: Cell<u64>,
    /// Recently finished jobs, whose weight decays by a factor of e per second.
    recent: Cell<f64>,
    /// Time of the last update of `recent`.
    updated_at: Cell<Duration>,
    /// Time at which the last job arrived.
    last: Cell<Duration>,
    /// Cancelled when all jobs are finished, so that consumers stop waiting.
    complete: CancellationToken,
    pub measurements: RefCell<Measurements>,
}

impl Arrivals {
    pub fn new(count: u16, measured: (Duration, Option<Duration>)) -> Rc<Self> {
        Rc::new(Self {
            count: count.into(),
            measured,
            put: Cell::new(0),
            all_put: Cell::new(false),
            finished: RefCell::default(),
            finished_in_window: Cell::new(0),
            recent: Cell::new(0.0),
            updated_at: Cell::new(now()),
            last: Cell::new(now()),
            complete: CancellationToken::new(),
            measurements: RefCell::new(Measurements::new()),
        })
    }

    pub fn put(&self, jobs: u64) {
        self.put.set(self.put.get() + jobs);
    }

    /// Returns the number of jobs put so far.
    pub fn jobs(&self) -> u64 {
        self.put.get()
    }

    pub fn all_put(&self) {
        self.all_put.set(true);
        self.check_complete();
    }

    /// Returns the number of jobs put and not yet finished.
    pub fn unfinished(&self) -> u64 {
        self.put.get().saturating_sub(self.finished())
    }

    /// Returns the recent rate of finished jobs per second at the time `at`. `seconds` is the time
    /// since the first jobs could be finished.
    pub fn finish_rate(&self, at: Duration, seconds: f64) -> f64 {
        let since = at.saturating_sub(self.updated_at.get()).as_secs_f64();
        self.recent.get() * (-since).exp() / (1.0 - (-seconds).exp())
    }

    fn finished(&self) -> u64 {
        self.finished.borrow().len() as u64
    }

    fn check_complete(&self) {
        if self.all_put.get() && self.unfinished() == 0 {
            self.complete.cancel();
        }
    }

    /// Pops and finishes jobs until all are finished.
    pub async fn consume(self: Rc<Self>, mut server: Server, topic: String) -> Result<(), Failure> {
        loop {
            let jobs = tokio::select! {
                jobs = server.pop(&topic, self.count, POP_WAIT_SECONDS) => jobs?,
                () = self.complete.cancelled() => return Ok(()),
            };
            if jobs.is_empty() {
                continue;
            }
            self.record_popped(&jobs, now());
            server.finish(&jobs).await?;
            self.record_finished(&jobs, now())?;
        }
    }

    fn record_popped(&self, jobs: &[PoppedJob], at: Duration) {
        for job in jobs {
            self.measurements.borrow_mut().record_arrival(at, job.due_at);
        }
        self.last.set(at);
    }

    fn record_finished(&self, jobs: &[PoppedJob], at: Duration) -> Result<(), Failure> {
        let (from, until) = self.measured;
        if at >= from && until.is_none_or(|until| at < until) {
            self.finished_in_window.set(self.finished_in_window.get() + jobs.len() as u64);
        }
        let since = at.saturating_sub(self.updated_at.replace(at)).as_secs_f64();
        self.recent.set(self.recent.get() * (-since).exp() + jobs.len() as f64);
        for job in jobs {
            self.finished.borrow_mut().insert(job.number()?);
        }
        self.check_complete();
        Ok(())
    }

    /// Completes when all jobs are finished. Fails if jobs are still missing [`IDLE_TIMEOUT`] after
    /// both the last arrival and `due`.
    pub async fn fail_if_lost(self: Rc<Self>, due: Duration) -> Result<(), Failure> {
        loop {
            let end = self.last.get().max(due) + IDLE_TIMEOUT;
            tokio::select! {
                () = tokio::time::sleep(end.saturating_sub(now())) => {}
                () = self.complete.cancelled() => return Ok(()),
            }
            if self.last.get().max(due) + IDLE_TIMEOUT <= now() {
                let (lost, put) = (self.unfinished(), self.put.get());
                return Err(format!("{lost} of {put} jobs did not arrive").into());
            }
        }
    }

    /// Returns the figures, with `puts_per_second` if jobs were put in the same phase.
    pub fn figures(&self, phase: Phase, puts_per_second: Option<f64>) -> Figures {
        let measurements = self.measurements.borrow();
        let (from, until) = self.measured;
        let until = until.map_or(self.last.get(), |until| until.min(now()));
        let measured = (self.finished_in_window.get(), until.saturating_sub(from).as_secs_f64());
        let mut figures = measurements.figures(SERVER, phase);
        figures.set_arrivals(
            measured,
            Counts {
                early: measurements.early,
                lost: self.unfinished(),
                doubled: measurements.jobs.saturating_sub(self.finished()),
                puts_per_second,
            },
        );
        figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(number: u64, due: &str) -> PoppedJob {
        let id = format!("order-0000002a-{number:010}");
        let job = serde_json::json!({"id": id, "reservation": "1", "due_at": due});
        serde_json::from_value(job).expect("a popped job")
    }

    #[test]
    fn the_recent_rate_follows_the_finished_jobs() {
        let arrivals = Arrivals::new(1, (Duration::ZERO, None));
        arrivals.updated_at.set(Duration::ZERO);
        let jobs = [job(1, "1970-01-01T00:00:00Z"), job(2, "1970-01-01T00:00:00Z")];
        let rate_after = |millis: std::ops::Range<u64>, step| {
            let end = Duration::from_millis(millis.end);
            for at in millis.step_by(step) {
                arrivals.record_finished(&jobs, Duration::from_millis(at)).expect("known ids");
            }
            arrivals.finish_rate(end, end.as_secs_f64())
        };
        // Two jobs every 2 ms are 1,000 a second from the beginning; every 8 ms, 250.
        assert!((rate_after(0..100, 2) - 1_000.0).abs() < 50.0);
        assert!((rate_after(100..5_000, 2) - 1_000.0).abs() < 50.0);
        assert!((rate_after(5_000..12_000, 8) - 250.0).abs() < 20.0);
        assert!(arrivals.finish_rate(Duration::from_secs(30), 30.0) < 1.0);
    }

    #[test]
    fn early_repeated_and_missing_jobs_are_counted() {
        let second = Duration::from_secs;
        let (early, due) = (job(1, "1970-01-01T00:01:42Z"), job(2, "1970-01-01T00:01:40Z"));
        let arrivals = Arrivals::new(1, (second(101), Some(second(103))));
        arrivals.put(3);
        arrivals.all_put();
        for (job, at) in [(&due, 100), (&early, 101), (&due, 102), (&due, 103)] {
            arrivals.record_popped(std::slice::from_ref(job), second(at));
            arrivals.record_finished(std::slice::from_ref(job), second(at)).expect("a known id");
        }
        assert!(
            !arrivals.complete.is_cancelled(),
            "complete although one of three jobs did not arrive"
        );
        let figures = arrivals.figures(Phase::Flow, None);
        let figures = serde_json::to_value(figures).expect("figures");
        assert_eq!((&figures["early"], &figures["lost"]), (&1.into(), &1.into()), "{figures}");
        assert_eq!(figures["doubled"], 2, "{figures}");
        // Two jobs were finished from 101 s until 103 s.
        assert_eq!((&figures["jobs"], &figures["jobs_per_second"]), (&4.into(), &1.0.into()));
        arrivals
            .record_finished(&[job(3, "1970-01-01T00:01:40Z")], second(104))
            .expect("a known id");
        assert!(arrivals.complete.is_cancelled(), "not complete although all jobs arrived");
    }
}
