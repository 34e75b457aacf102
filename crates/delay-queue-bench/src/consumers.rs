//! Consumers that wait for jobs and finish them, and counts of late, early, lost and doubled jobs.
//!
//! Lateness is the time, by this machine's clock, from the due time until the answer has been read:
//! with a server on another machine, the difference of the clocks adds to it.

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
/// Seconds that a pop waits for jobs.
const WAIT: u64 = 20;

/// State that the consumers of a phase share. Times are since 1970.
pub struct Arrivals {
    /// Maximum number of jobs per pop.
    count: u64,
    /// Begin and end of the time for the rate; without an end, until the last job.
    measured: (Duration, Option<Duration>),
    put: Cell<u64>,
    all_put: Cell<bool>,
    /// Numbers of the finished jobs.
    finished: RefCell<HashSet<u64>>,
    /// Number of jobs finished within `measured`.
    sustained: Cell<u64>,
    /// Recently finished jobs, whose weight decays by a factor of e per second.
    recent: Cell<f64>,
    /// Time of the last update of `recent`.
    updated_at: Cell<Duration>,
    /// Time at which the last job arrived.
    last: Cell<Duration>,
    /// Cancelled when all jobs are finished, so that no consumer waits.
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
            sustained: Cell::new(0),
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
        self.peek();
    }

    /// Returns the number of jobs put and not yet finished.
    pub fn unfinished(&self) -> u64 {
        self.put.get().saturating_sub(self.finished())
    }

    /// Returns the rate of the last seconds at the time `at`, `seconds` after the first jobs could
    /// be finished.
    pub fn finished_a_second(&self, at: Duration, seconds: f64) -> f64 {
        let since = at.saturating_sub(self.updated_at.get()).as_secs_f64();
        self.recent.get() * (-since).exp() / (1.0 - (-seconds).exp())
    }

    fn finished(&self) -> u64 {
        self.finished.borrow().len() as u64
    }

    fn peek(&self) {
        if self.all_put.get() && self.unfinished() == 0 {
            self.complete.cancel();
        }
    }

    /// Pops and finishes jobs until all are finished.
    pub async fn consume(self: Rc<Self>, mut server: Server, topic: String) -> Result<(), Failure> {
        loop {
            let jobs = tokio::select! {
                jobs = server.pop(&topic, self.count, WAIT) => jobs?,
                () = self.complete.cancelled() => return Ok(()),
            };
            if jobs.is_empty() {
                continue;
            }
            self.note_popped(&jobs, now());
            server.finish(&jobs).await?;
            self.note_finished(&jobs, now())?;
        }
    }

    fn note_popped(&self, jobs: &[PoppedJob], at: Duration) {
        for job in jobs {
            self.measurements.borrow_mut().late(at, job.due_at);
        }
        self.last.set(at);
    }

    fn note_finished(&self, jobs: &[PoppedJob], at: Duration) -> Result<(), Failure> {
        let (from, until) = self.measured;
        if at >= from && until.is_none_or(|until| at < until) {
            self.sustained.set(self.sustained.get() + jobs.len() as u64);
        }
        let since = at.saturating_sub(self.updated_at.replace(at)).as_secs_f64();
        self.recent.set(self.recent.get() * (-since).exp() + jobs.len() as f64);
        for job in jobs {
            self.finished.borrow_mut().insert(job.number()?);
        }
        self.peek();
        Ok(())
    }

    /// Fails if jobs are missing [`IDLE_TIMEOUT`] after the last arrival and after `due`.
    pub async fn give_up(self: Rc<Self>, due: Duration) -> Result<(), Failure> {
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

    /// Returns the figures; `puts_per_second` if jobs were put meanwhile.
    pub fn figures(&self, phase: Phase, puts_per_second: Option<f64>) -> Figures {
        let measurements = self.measurements.borrow();
        let (from, until) = self.measured;
        let until = until.map_or(self.last.get(), |until| until.min(now()));
        let measured = (self.sustained.get(), until.saturating_sub(from).as_secs_f64());
        let mut figures = measurements.figures(SERVER, phase);
        figures.of_arrivals(
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
    fn the_rate_of_the_last_seconds_follows_what_is_finished() {
        let arrivals = Arrivals::new(1, (Duration::ZERO, None));
        arrivals.updated_at.set(Duration::ZERO);
        let jobs = [job(1, "1970-01-01T00:00:00Z"), job(2, "1970-01-01T00:00:00Z")];
        let rate_after = |millis: std::ops::Range<u64>, step| {
            let end = Duration::from_millis(millis.end);
            for at in millis.step_by(step) {
                arrivals.note_finished(&jobs, Duration::from_millis(at)).expect("known ids");
            }
            arrivals.finished_a_second(end, end.as_secs_f64())
        };
        // Two jobs every 2 ms are 1,000 a second from the beginning; every 8 ms, 250.
        assert!((rate_after(0..100, 2) - 1_000.0).abs() < 50.0);
        assert!((rate_after(100..5_000, 2) - 1_000.0).abs() < 50.0);
        assert!((rate_after(5_000..12_000, 8) - 250.0).abs() < 20.0);
        assert!(arrivals.finished_a_second(Duration::from_secs(30), 30.0) < 1.0);
    }

    #[test]
    fn what_comes_early_again_or_not_at_all_is_counted() {
        let second = Duration::from_secs;
        let (early, due) = (job(1, "1970-01-01T00:01:42Z"), job(2, "1970-01-01T00:01:40Z"));
        let arrivals = Arrivals::new(1, (second(101), Some(second(103))));
        arrivals.put(3);
        arrivals.all_put();
        for (job, at) in [(&due, 100), (&early, 101), (&due, 102), (&due, 103)] {
            arrivals.note_popped(std::slice::from_ref(job), second(at));
            arrivals.note_finished(std::slice::from_ref(job), second(at)).expect("a known id");
        }
        assert!(!arrivals.complete.is_cancelled(), "one of three did not arrive");
        let figures = arrivals.figures(Phase::Flow, None);
        let figures = serde_json::to_value(figures).expect("figures");
        assert_eq!((&figures["early"], &figures["lost"]), (&1.into(), &1.into()), "{figures}");
        assert_eq!(figures["doubled"], 2, "{figures}");
        // Two were finished from 101 s until 103 s.
        assert_eq!((&figures["jobs"], &figures["jobs_per_second"]), (&4.into(), &1.0.into()));
        arrivals.note_finished(&[job(3, "1970-01-01T00:01:40Z")], second(104)).expect("a known id");
        assert!(arrivals.complete.is_cancelled(), "all came");
    }
}
