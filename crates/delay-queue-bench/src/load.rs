//! The phases put and pop, as fast as the connections allow.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    time::Duration,
};

use tokio::{task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    Failure, Run,
    client::Destination,
    clock::now,
    consumers::IDLE_TIMEOUT,
    jobs::Jobs,
    options::Phase,
    peer::{Peer, Server},
    report::{Figures, Measurements},
};

/// Interval at which a long phase prints its progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum number of jobs in one request of [`fill`].
const FILL_BATCH: u64 = 500;
/// Approximate maximum size of the bodies in one request of [`fill`].
const FILL_BYTES: u64 = 2 << 20;
/// Number of connections of [`fill`].
const FILLERS: usize = 8;
/// Error of a run that the user stopped.
const INTERRUPTED: &str = "interrupted: these are the figures so far";
/// Maximum time that an interrupted run waits for the answers to its last puts. Otherwise the purge
/// could miss the jobs of a put that is still in flight.
const LAST_ANSWERS_TIMEOUT: Duration = Duration::from_secs(2);
const DAY_MILLIS: u64 = 24 * 3_600_000;

/// The program under test.
pub struct Target {
    name: &'static str,
    to: Destination,
    /// Number of jobs put by the phase put and not popped yet by the phase pop.
    left: u64,
    /// Due time of the last of these jobs.
    due: Instant,
}

impl Target {
    pub fn new(name: &'static str, to: Destination) -> Self {
        Self { name, to, left: 0, due: Instant::now() }
    }
}

/// State that the connections of a phase share.
struct Work {
    phase: Phase,
    jobs: Rc<Jobs>,
    batch: u64,
    /// Number of jobs that no connection has begun to put, or that are not finished.
    left: Cell<u64>,
    /// Cancelled when no jobs are left.
    done: CancellationToken,
    /// Cancelled when the user stops the run.
    stop: CancellationToken,
    /// Time at which a job was last finished.
    last: Cell<Instant>,
    measurements: Rc<RefCell<Measurements>>,
}

impl Work {
    async fn run_connection<P: Peer>(
        self: Rc<Self>,
        peer: P,
        topic: String,
    ) -> Result<(), Failure> {
        match self.phase {
            Phase::Put => self.puts(peer, &topic).await,
            _ => self.pops(peer, &topic).await,
        }
    }

    async fn puts<P: Peer>(&self, mut peer: P, topic: &str) -> Result<(), Failure> {
        loop {
            let count = self.batch.min(self.left.get());
            if count == 0 || self.stop.is_cancelled() {
                return Ok(());
            }
            self.left.set(self.left.get() - count);
            let began = Instant::now();
            peer.put(topic, &self.jobs, count).await?;
            self.measurements.borrow_mut().add(count, began.elapsed());
        }
    }

    /// Pops and finishes until all jobs are finished; waits for due jobs that are not promoted yet.
    async fn pops<P: Peer>(&self, mut peer: P, topic: &str) -> Result<(), Failure> {
        let mut wait = 0;
        while self.left.get() > 0 {
            let began = Instant::now();
            let popped = tokio::select! {
                popped = peer.pop_and_finish(topic, self.batch, wait) => popped?,
                () = self.done.cancelled() => return Ok(()),
            };
            wait = u64::from(popped == 0);
            if popped > 0 {
                self.measurements.borrow_mut().add(popped, began.elapsed());
                self.last.set(Instant::now());
                self.left.set(self.left.get().saturating_sub(popped));
            } else if self.last.get().elapsed() > IDLE_TIMEOUT {
                return Err(format!("{} jobs did not arrive", self.left.get()).into());
            }
        }
        self.done.cancel();
        Ok(())
    }
}

/// Measures one phase on one target; returns the figures, and the error that ended it early.
pub async fn measure<P: Peer + 'static>(
    run: &Run,
    target: &mut Target,
    phase: Phase,
) -> (Figures, Result<(), Failure>) {
    let measurements = Rc::new(RefCell::new(Measurements::new()));
    let mut done = Ok(());
    let mut peers = Vec::new();
    while done.is_ok() && peers.len() < run.load.connections.into() {
        done = P::connect(&target.to).await.map(|peer| peers.push(peer));
    }
    if done.is_ok() && phase == Phase::Pop {
        done = tokio::select! {
            () = tokio::time::sleep_until(target.due) => Ok(()),
            () = run.stop.cancelled() => Err(INTERRUPTED.into()),
        };
    }
    if done.is_ok() {
        done = connections(run, target, phase, (peers, &measurements)).await;
    }
    let figures = measurements.borrow().figures(target.name, phase);
    (figures, done)
}

async fn connections<P: Peer + 'static>(
    run: &Run,
    target: &mut Target,
    phase: Phase,
    (peers, measurements): (Vec<P>, &Rc<RefCell<Measurements>>),
) -> Result<(), Failure> {
    let jobs = if phase == Phase::Put { run.load.jobs } else { target.left };
    let work = Rc::new(Work {
        phase,
        jobs: Rc::clone(&run.jobs),
        batch: run.load.batch.into(),
        left: Cell::new(jobs),
        done: CancellationToken::new(),
        stop: run.stop.clone(),
        last: Cell::new(Instant::now()),
        measurements: Rc::clone(measurements),
    });
    measurements.borrow_mut().start();
    let mut tasks = JoinSet::new();
    for (peer, topic) in peers.into_iter().zip(run.topics.iter().cycle()) {
        tasks.spawn_local(Rc::clone(&work).run_connection(peer, topic.clone()));
    }
    watch(run, tasks, (target.name, Some(jobs)), measurements).await?;
    target.left = if phase == Phase::Put { target.left + jobs } else { 0 };
    target.due = Instant::now() + run.jobs.due_in;
    Ok(())
}

/// Waits until all tasks have ended or one has failed; prints the progress.
pub async fn watch(
    run: &Run,
    mut tasks: JoinSet<Result<(), Failure>>,
    (name, jobs): (&str, Option<u64>),
    measurements: &RefCell<Measurements>,
) -> Result<(), Failure> {
    let of = jobs.map(|jobs| format!(" of {jobs}")).unwrap_or_default();
    let mut progress =
        tokio::time::interval_at(Instant::now() + PROGRESS_INTERVAL, PROGRESS_INTERVAL);
    loop {
        tokio::select! {
            task = tasks.join_next() => match task {
                None => return Ok(()),
                Some(done) => done??,
            },
            () = run.stop.cancelled() => {
                let ended = async { while tasks.join_next().await.is_some() {} };
                _ = tokio::time::timeout(LAST_ANSWERS_TIMEOUT, ended).await;
                return Err(INTERRUPTED.into());
            }
            _ = progress.tick() => eprintln!("{name}: {}{of} jobs", measurements.borrow().jobs),
        }
    }
}

/// Puts jobs with given due times, without measuring.
pub async fn fill(
    run: &Run,
    to: &Destination,
    (topics, jobs): (&[String], u64),
    due: impl Fn(u64) -> u64 + Copy + 'static,
) -> Result<(), Failure> {
    let measurements = Rc::new(RefCell::new(Measurements::new()));
    let batch = (FILL_BYTES / u64::from(run.load.body)).clamp(1, FILL_BATCH);
    let mut tasks = JoinSet::new();
    for filler in 0..FILLERS {
        let (made, measurements, topics) =
            (Rc::clone(&run.jobs), Rc::clone(&measurements), topics.to_vec());
        let to = to.clone();
        tasks.spawn_local(async move {
            let mut server = Server::connect(&to).await?;
            let batches = (0..jobs.div_ceil(batch)).skip(filler).step_by(FILLERS);
            for (number, topic) in batches.zip(topics.iter().cycle()) {
                let numbers = number * batch..jobs.min((number + 1) * batch);
                let count = numbers.end - numbers.start;
                server.put_at(topic, &made, numbers.map(due)).await?;
                measurements.borrow_mut().jobs += count;
            }
            Ok(())
        });
    }
    watch(run, tasks, ("put for later", Some(jobs)), &measurements).await
}

/// Returns due times scattered over the day after the next 24 hours, like those of real jobs.
pub fn in_a_day() -> impl Fn(u64) -> u64 + Copy + 'static {
    let now = u64::try_from(now().as_millis()).unwrap_or(u64::MAX - 2 * DAY_MILLIS);
    move |n| now + DAY_MILLIS + n.wrapping_mul(7_919_777) % DAY_MILLIS
}
