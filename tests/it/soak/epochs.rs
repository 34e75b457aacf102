//! A run of epochs: each puts load on the servers, injects all faults of one cost, drains and
//! judges.

use std::time::{Duration, Instant};

use rand::{SeedableRng, rngs::StdRng, seq::SliceRandom};
use tokio::task::block_in_place;

use crate::{
    faults::{
        epoch::{Epoch, Terms, drain_and_judge},
        history::Time,
        load::{Again, TOPICS},
    },
    soak::{
        faults::{self, Cost, Fault, Scene, clock},
        options::{Ack, Options},
        report::Report,
        stage::{Stage, Store},
    },
    support::scan_api::counters_equal,
};

/// Time that delivery may take to resume after a fault: a failover on a busy machine.
const DELIVERY_GOES_ON: Duration = Duration::from_secs(60);
/// Time before a crash in which `everysec` may lose writes: a second, two on a busy disk, and a
/// margin.
const SYNCED_WITHIN: Duration = Duration::from_secs(3);
/// Attempts per epoch to inject a fault until it shows.
const TRIES: usize = 3;
/// Extra time of a run whose faults have not all shown.
const OVERTIME: Duration = Duration::from_secs(600);
/// Passes between epochs in which jobs are late or lost. They are rare because servers need a
/// minute to believe a changed clock.
const PASSES_BETWEEN: usize = 5;

struct Run {
    stage: Stage,
    ack: Option<Ack>,
    faults: Vec<&'static Fault>,
    /// Chooses the order of the faults and nothing else, so that a seed repeats it.
    order: StdRng,
    /// Makes all other random choices.
    random: StdRng,
    end: Instant,
    report: Report,
    /// Time of the epoch before which jobs were put that the store may have lost.
    forgotten_until: Option<Time>,
    /// Times of the epoch in which acknowledgements were given that may not hold.
    undone: Vec<(Time, Time)>,
    /// Times of the epoch in which the store's clock was wrong.
    wrong_clock: Vec<(Time, Time)>,
}

/// Runs for the requested time, and until each fault has shown.
///
/// # Panics
/// If a promise was broken, or a fault did not show.
pub async fn run(options: Options) {
    let chosen = |fault: &&'static Fault| {
        options.faults.is_empty() || options.faults.iter().any(|name| name == fault.name)
    };
    let faults: Vec<_> = faults::on(options.store).filter(chosen).collect();
    let report = Report::begin(&options, &faults);
    let mut run = Run {
        stage: Stage::start(options.store, options.ack).await,
        ack: options.ack,
        faults,
        order: StdRng::seed_from_u64(options.seed),
        random: StdRng::seed_from_u64(!options.seed),
        end: Instant::now() + Duration::from_secs(60 * options.minutes),
        report,
        forgotten_until: None,
        undone: Vec::new(),
        wrong_clock: Vec::new(),
    };
    for pass in 0.. {
        run.epoch(Cost::Nothing).await;
        run.epoch(Cost::Seconds).await;
        if pass % PASSES_BETWEEN == 0 {
            run.epoch(Cost::Jobs).await;
            run.epoch(Cost::Time).await;
        }
        if run.is_over() || Instant::now() > run.end + OVERTIME {
            break;
        }
    }
    run.report.verdict();
}

impl Run {
    fn is_over(&self) -> bool {
        Instant::now() > self.end && self.report.all_have_shown()
    }

    /// Injects all faults of this cost in random order, then drains and judges.
    async fn epoch(&mut self, cost: Cost) {
        let mut faults: Vec<_> =
            self.faults.iter().copied().filter(|fault| fault.cost(self.ack) == cost).collect();
        if faults.is_empty() {
            return;
        }
        faults.shuffle(&mut self.order);
        // Other faults undo ends, lose them, or end retentions early.
        let again = if cost == Cost::Nothing { Again::Puts } else { Again::Never };
        let epoch = Epoch::start(&self.stage.bases(), again);
        epoch.delivers_within(DELIVERY_GOES_ON, "before any fault").await;
        for fault in faults {
            if self.is_over() {
                break;
            }
            self.fault(fault, &epoch).await;
        }
        self.judge(epoch, cost).await;
    }

    /// Injects a fault until it shows, and waits each time until delivery goes on.
    async fn fault(&mut self, fault: &Fault, epoch: &Epoch) {
        let history = &epoch.history;
        for _ in 0..TRIES {
            let began = history.now();
            let scene = Scene { stage: &mut self.stage, history, random: &mut self.random };
            let shown = (fault.bring)(scene).await;
            let ended = history.now();
            match fault.cost(self.ack) {
                Cost::Nothing => {}
                Cost::Seconds => self.undone.push((began.saturating_sub(SYNCED_WITHIN), ended)),
                Cost::Jobs => self.forgotten_until = Some(ended),
                Cost::Time => self.wrong_clock.push((began, ended)),
            }
            let after = epoch.delivers_within(DELIVERY_GOES_ON, fault.name).await;
            let failed = history.failures_between(began, ended + after);
            self.report.fired(fault.name, shown, failed, after, history);
            if shown {
                return;
            }
        }
    }

    async fn judge(&mut self, epoch: Epoch, cost: Cost) {
        let bases = self.stage.bases();
        let history = epoch.stop().await;
        let mut terms = Terms {
            forgotten_until: self.forgotten_until.take(),
            undone: std::mem::take(&mut self.undone),
            ..Terms::default()
        };
        if cost == Cost::Time {
            terms.wrong_clock = std::mem::take(&mut self.wrong_clock);
            // Jobs that fell due while the clock was wrong wait until the servers believe it.
            terms.drains_within += clock::BELIEVED_AFTER;
            clock::set_right(&bases, &history).await;
        }
        let stage = &self.stage;
        let judgement = drain_and_judge(&history, &bases, || stage.scan(), &terms).await;
        let server = &stage.servers[0].process.base;
        let counters = counters_equal(server, &judgement.left, &TOPICS).await;
        self.report.judged(&history, judgement, counters);
        for topic in TOPICS {
            let purged = stage.servers[0].process.delete(&format!("/topics/{topic}/jobs")).await;
            assert_eq!(purged, Some(200), "{topic} is purged");
        }
        if let Store::Redis(single) = &mut self.stage.store {
            // The next starts need not read the part of the log that is already judged.
            block_in_place(|| single.rewrite());
        }
    }
}
