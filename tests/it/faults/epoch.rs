//! One epoch: clients put load on the servers, then consumers drain the store, and the judge checks
//! the calls.

use tokio::task::block_in_place;

use crate::faults::judge::account;
use crate::faults::load;
use crate::faults::prelude::*;

/// Clients of the servers, and the record of their calls.
pub struct Epoch {
    pub history: Arc<History>,
    load: Load,
}

impl Epoch {
    pub fn start(bases: &[String], again: Again) -> Self {
        let history = Arc::new(History::new());
        let load = Load::start(&history, bases, again);
        Self { history, load }
    }

    /// Waits until every bucket has delivered a job that was put after this call. Returns the time
    /// that this took.
    pub async fn delivers_within(&self, limit: Duration, when: &str) -> Duration {
        let (from, watch) = (self.history.now(), Stopwatch::start());
        loop {
            if let Some(at) = self.history.all_buckets_deliver(from) {
                assert!(watch.without_stalls(at - from) < limit, "{when}: {:?}", at - from);
                return at - from;
            }
            if watch.elapsed() > limit {
                self.history.print();
                panic!("{when}: not all buckets deliver within {limit:?}");
            }
            tokio::time::sleep(Duration::from_millis(50)).await; // the load must run
        }
    }

    /// Stops the clients and returns the record of their calls.
    pub async fn stop(self) -> Arc<History> {
        self.load.stop().await;
        self.history
    }

    pub async fn end(self, bases: &[String], scan: impl Fn() -> Scan) -> Judgement {
        drain_and_judge(&self.stop().await, bases, scan, &Terms::default()).await
    }
}

/// Terms of the judgement at the end of an epoch.
pub struct Terms {
    /// The store may have lost jobs whose puts began before this time.
    pub forgotten_until: Option<Time>,
    /// Periods whose acknowledged changes may have been undone.
    pub undone: Vec<(Time, Time)>,
    /// Times in which the store's clock was wrong.
    pub wrong_clock: Vec<(Time, Time)>,
    /// Maximum duration of the drain. Jobs of pops without an answer are ready only after their
    /// TTR; all others are ready earlier.
    pub drains_within: Duration,
}

impl Default for Terms {
    fn default() -> Self {
        let drains_within = Duration::from_secs(60);
        Self { forgotten_until: None, undone: Vec::new(), wrong_clock: Vec::new(), drains_within }
    }
}

/// Result of an epoch.
pub struct Judgement {
    pub objections: Vec<Objection>,
    /// Number of jobs that were lost and that the terms allow to be lost.
    pub forgotten: usize,
    /// Contents of the store after the drain.
    pub left: Scan,
}

/// Judges, drains the store, and judges again. No other client may use the servers meanwhile.
pub async fn drain_and_judge(
    history: &Arc<History>,
    bases: &[String],
    scan: impl Fn() -> Scan,
    terms: &Terms,
) -> Judgement {
    let read = || block_in_place(&scan);
    let judged = |scan: &Scan| judge(&history.calls(), scan, &terms.wrong_clock);
    let before = read();
    let lost = || judged(&before).iter().filter(|found| found.rule == Rule::Lost).count();
    let without_terms = lost();
    if let Some(until) = terms.forgotten_until {
        history.may_have_forgotten(until);
    }
    for &(from, to) in &terms.undone {
        history.may_have_undone(from, to);
    }
    let forgotten = without_terms - lost();
    history.print();
    println!("before the drain: {}", account(&history.calls(), &before));
    let mut objections = judged(&before);

    let began = Instant::now();
    let empty = async || pending(&read()) == 0;
    if !load::drain(history, bases, empty, terms.drains_within).await {
        let what = "jobs are left that no consumer can pop".to_owned();
        objections.push(Objection { rule: Rule::Lost, what });
    }
    let left = read();
    println!("drained {} jobs in {:?}", pending(&before), began.elapsed());
    println!("after the drain: {}", account(&history.calls(), &left));
    objections.extend(judged(&left));
    Judgement { objections, forgotten, left }
}
