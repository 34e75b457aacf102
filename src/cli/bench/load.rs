//! As much as the connections can carry: puts, and pops with their finishes.

use std::{
    cell::{Cell, RefCell},
    net::SocketAddr,
    rc::Rc,
    time::Duration,
};

use tokio::{task::JoinSet, time::Instant};

use super::{
    Failure, Phase, Run,
    peer::{Peer, Server},
    report::{Figures, Tally},
};
use crate::{job::UnixMillis, store::Clock};

/// How often a long phase says how far it is.
const PROGRESS: Duration = Duration::from_secs(5);
/// How many jobs one request of a fill puts at most, and about how many bytes.
const FILL_BATCH: u64 = 500;
const FILL_BYTES: u64 = 2 << 20;
/// Connections of a fill.
const FILLERS: usize = 8;
/// In milliseconds.
const DAY: u64 = 24 * 3_600_000;

/// What the connections of a phase share.
struct Work {
    phase: Phase,
    body: String,
    batch: u64,
    /// Jobs that no connection has taken on to put yet.
    left: Cell<u64>,
    tally: Rc<RefCell<Tally>>,
}

impl Work {
    /// Takes on the next request's puts; 0 ends a connection's part.
    fn take(&self) -> u64 {
        let count = self.batch.min(self.left.get());
        self.left.set(self.left.get() - count);
        count
    }

    /// One request, or a pop and its finish; answers how many jobs that were. None is the end.
    async fn request<P: Peer>(&self, peer: &mut P, topic: &str) -> Result<u64, Failure> {
        if self.phase == Phase::Put {
            let count = self.take();
            if count > 0 {
                peer.put(topic, &self.body, count).await?;
            }
            return Ok(count);
        }
        // Until the topic is empty: how many of the jobs went there is not known here.
        peer.pop_and_finish(topic, self.batch).await
    }

    async fn part<P: Peer>(self: Rc<Self>, mut peer: P, topic: String) -> Result<(), Failure> {
        loop {
            let began = Instant::now();
            match self.request(&mut peer, &topic).await? {
                0 => return Ok(()),
                jobs => self.tally.borrow_mut().add(jobs, began.elapsed()),
            }
        }
    }
}

/// One phase on one peer: what was measured, and why it ended before it was done.
pub(super) async fn run<P: Peer + 'static>(
    run: &Run,
    address: SocketAddr,
    (name, phase): (&'static str, Phase),
) -> (Figures, Result<(), Failure>) {
    let tally = Rc::new(RefCell::new(Tally::new()));
    let work = Rc::new(Work {
        phase,
        body: body(run.bench.body),
        batch: run.bench.batch.into(),
        left: Cell::new(run.bench.jobs),
        tally: Rc::clone(&tally),
    });
    let mut peers = Vec::new();
    for _ in 0..run.bench.connections {
        match P::connect(address).await {
            Ok(peer) => peers.push(peer),
            Err(error) => return (tally.borrow_mut().figures(name, phase), Err(error)),
        }
    }
    tally.borrow_mut().start();
    let mut parts = JoinSet::new();
    for (peer, topic) in peers.into_iter().zip(run.topics.iter().cycle()) {
        parts.spawn_local(Rc::clone(&work).part(peer, topic.clone()));
    }
    let done = watch(run, parts, (name, run.bench.jobs), &tally).await;
    let figures = tally.borrow_mut().figures(name, phase);
    (figures, done)
}

/// Waits for all parts or the first that fails, and says how far they are meanwhile.
pub(super) async fn watch(
    run: &Run,
    mut parts: JoinSet<Result<(), Failure>>,
    (what, jobs): (&str, u64),
    tally: &RefCell<Tally>,
) -> Result<(), Failure> {
    let mut progress = tokio::time::interval_at(Instant::now() + PROGRESS, PROGRESS);
    loop {
        tokio::select! {
            part = parts.join_next() => match part {
                None => return Ok(()),
                Some(done) => done??,
            },
            () = run.stop.cancelled() => return Err("interrupted: these are the figures so far".into()),
            _ = progress.tick() => eprintln!("{what}: {} of {jobs} jobs", tally.borrow().jobs),
        }
    }
}

/// Puts jobs that are due at given times, without measuring.
pub(super) async fn fill(
    run: &Run,
    address: SocketAddr,
    (topics, jobs): (&[String], u64),
    due: impl Fn(u64) -> UnixMillis + Copy + 'static,
) -> Result<(), Failure> {
    let tally = Rc::new(RefCell::new(Tally::new()));
    let batch = (FILL_BYTES / u64::from(run.bench.body)).clamp(1, FILL_BATCH);
    let mut parts = JoinSet::new();
    for filler in 0..FILLERS {
        let (body, tally, topics) = (body(run.bench.body), Rc::clone(&tally), topics.to_vec());
        parts.spawn_local(async move {
            let mut server = Server::connect(address).await?;
            let batches = (0..jobs.div_ceil(batch)).skip(filler).step_by(FILLERS);
            for (number, topic) in batches.zip(topics.iter().cycle()) {
                let numbers = number * batch..jobs.min((number + 1) * batch);
                let count = numbers.end - numbers.start;
                server.put_at(topic, &body, numbers.map(due)).await?;
                tally.borrow_mut().jobs += count;
            }
            Ok(())
        });
    }
    watch(run, parts, ("put for later", jobs), &tally).await
}

/// Due in a day and within another: scattered, as the due times of real jobs are.
pub(super) fn in_a_day() -> impl Fn(u64) -> UnixMillis + Copy + 'static {
    let now = Clock::Own.now().ceil.get();
    move |n| UnixMillis::new(now + DAY + n.wrapping_mul(7_919_777) % DAY)
}

/// A JSON text of so many bytes.
pub(super) fn body(bytes: u32) -> String {
    format!("\"{}\"", "x".repeat(bytes as usize - 2))
}
