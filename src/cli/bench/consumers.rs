//! Consumers that wait for jobs and finish them, and what came: how late, how often, and what did
//! not come.
//!
//! Late by this machine's clock, from the due time until the answer has been read: a server on
//! another machine adds the difference of their clocks.

use std::{
    cell::{Cell, RefCell},
    collections::HashSet,
    rc::Rc,
    time::{Duration, SystemTime},
};

use tokio_util::sync::CancellationToken;

use super::{
    Failure,
    options::Phase,
    peer::Server,
    report::{Counts, Figures, SERVER, Tally},
};

/// How long nothing may come until what is left is given up.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// How many seconds a consumer waits in one request.
const WAIT: u64 = 20;

/// What the consumers of a phase share. Times are since 1970.
pub(super) struct Arrivals {
    /// How many jobs a pop takes.
    count: u64,
    /// From when, and until when if not the last job, the rate is taken.
    measured: (Duration, Option<Duration>),
    put: Cell<u64>,
    all_put: Cell<bool>,
    /// The numbers of those that were finished.
    finished: RefCell<HashSet<u64>>,
    /// How many were finished while the rate is taken.
    sustained: Cell<u64>,
    /// When the last of them came.
    last: Cell<Duration>,
    /// All are there: no consumer need wait.
    complete: CancellationToken,
    pub(super) tally: RefCell<Tally>,
}

impl Arrivals {
    pub(super) fn new(count: u16, measured: (Duration, Option<Duration>)) -> Rc<Self> {
        Rc::new(Self {
            count: count.into(),
            measured,
            put: Cell::new(0),
            all_put: Cell::new(false),
            finished: RefCell::default(),
            sustained: Cell::new(0),
            last: Cell::new(now()),
            complete: CancellationToken::new(),
            tally: RefCell::new(Tally::new()),
        })
    }

    pub(super) fn put(&self, jobs: u64) {
        self.put.set(self.put.get() + jobs);
    }

    /// How many were put so far.
    pub(super) fn jobs(&self) -> u64 {
        self.put.get()
    }

    pub(super) fn all_put(&self) {
        self.all_put.set(true);
        self.look();
    }

    /// How many were finished so far.
    pub(super) fn finished(&self) -> u64 {
        self.finished.borrow().len() as u64
    }

    fn lost(&self) -> u64 {
        self.put.get().saturating_sub(self.finished())
    }

    fn look(&self) {
        if self.all_put.get() && self.lost() == 0 {
            self.complete.cancel();
        }
    }

    /// Pops and finishes until all jobs were.
    pub(super) async fn consume(
        self: Rc<Self>,
        mut server: Server,
        topic: String,
    ) -> Result<(), Failure> {
        loop {
            let jobs = tokio::select! {
                jobs = server.pop(&topic, self.count, WAIT) => jobs?,
                () = self.complete.cancelled() => return Ok(()),
            };
            if jobs.is_empty() {
                continue;
            }
            let popped = now();
            for job in &jobs {
                self.tally.borrow_mut().late(popped, job.due_at());
            }
            self.last.set(popped);
            server.finish(&jobs).await?;
            let (from, until) = self.measured;
            let finished = now();
            if finished >= from && until.is_none_or(|until| finished < until) {
                self.sustained.set(self.sustained.get() + jobs.len() as u64);
            }
            for job in &jobs {
                self.finished.borrow_mut().insert(job.number()?);
            }
            self.look();
        }
    }

    /// Gives up what does not come: [`PATIENCE`] after the last job that came, or after `due`.
    pub(super) async fn give_up(self: Rc<Self>, due: Duration) -> Result<(), Failure> {
        loop {
            let end = self.last.get().max(due) + PATIENCE;
            tokio::select! {
                () = tokio::time::sleep(end.saturating_sub(now())) => {}
                () = self.complete.cancelled() => return Ok(()),
            }
            if self.last.get().max(due) + PATIENCE <= now() {
                let (lost, put) = (self.lost(), self.put.get());
                return Err(format!("{lost} of {put} jobs did not come").into());
            }
        }
    }

    /// What was measured; `puts_per_second` if jobs were put meanwhile.
    pub(super) fn figures(&self, phase: Phase, puts_per_second: Option<f64>) -> Figures {
        let tally = self.tally.borrow();
        let (from, until) = self.measured;
        let until = until.map_or(self.last.get(), |until| until.min(now()));
        let measured = (self.sustained.get(), until.saturating_sub(from).as_secs_f64());
        let mut figures = tally.figures(SERVER, phase);
        figures.of_arrivals(
            measured,
            Counts {
                early: tally.early,
                lost: self.lost(),
                doubled: tally.jobs.saturating_sub(self.finished()),
                puts_per_second,
            },
        );
        figures
    }
}

/// The time of this machine, since 1970.
#[expect(clippy::disallowed_methods, reason = "lateness is what somebody outside sees")]
pub(super) fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}
