//! A run of epochs. Each epoch puts load on the servers, injects all faults of one cost, drains the
//! queue, and judges the answers.

use rand::{SeedableRng, seq::SliceRandom};

use crate::soak::faults;
use crate::soak::prelude::*;
use crate::{
    faults::{
        epoch::{Epoch, Terms, drain_and_judge},
        history::Time,
        load::Again,
    },
    soak::{
        faults::{Cost, clock},
        report::Report,
    },
    support::scan_api::counters_equal,
};

/// Maximum time until delivery resumes after a fault. The slowest case is a failover on a busy
/// machine.
const DELIVERY_RESUMES_WITHIN: Duration = Duration::from_secs(60);
/// Time before a crash in which `everysec` may lose writes: a second, or two on a busy disk, and a
/// margin.
const SYNCED_WITHIN: Duration = Duration::from_secs(3);
/// Maximum number of times that an epoch injects a fault until it has an effect.
const MAX_TRIES: usize = 3;
/// Extra time of a run in which some faults have had no effect yet.
const OVERTIME: Duration = Duration::from_secs(600);
/// Number of passes per epoch in which jobs may be late or lost. Such epochs are rare because
/// servers adopt a changed clock only after a minute.
const PASSES_BETWEEN: usize = 5;

struct Run {
    stage: Stage,
    ack: Option<Ack>,
    faults: Vec<&'static Fault>,
    /// Chooses only the order of the faults, so that a seed determines it.
    order: StdRng,
    /// Makes all other random choices.
    random: StdRng,
    end: Instant,
    report: Report,
    /// The store may have lost jobs that were put before this time of the epoch.
    forgotten_until: Option<Time>,
    /// Periods of the epoch whose acknowledged changes the store may have lost.
    undone: Vec<(Time, Time)>,
    /// Periods of the epoch in which the store's clock was wrong.
    wrong_clock: Vec<(Time, Time)>,
}

/// Runs for the requested time, and longer until each fault has had an effect.
///
/// # Panics
/// If a promise was broken, or a fault had no effect.
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
        // Clients put an id again only if its end is certain. Faults of other costs lose finishes
        // and deletes, or end retentions early.
        let again = if cost == Cost::Nothing { Again::Puts } else { Again::Never };
        let epoch = Epoch::start(&self.stage.bases(), again);
        epoch.delivers_within(DELIVERY_RESUMES_WITHIN, "before any fault").await;
        for fault in faults {
            if self.is_over() {
                break;
            }
            self.inject(fault, &epoch).await;
        }
        self.judge(epoch, cost).await;
    }

    /// Injects a fault until it has an effect, and waits each time until delivery resumes.
    async fn inject(&mut self, fault: &Fault, epoch: &Epoch) {
        let history = &epoch.history;
        for _ in 0..MAX_TRIES {
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
            let after = epoch.delivers_within(DELIVERY_RESUMES_WITHIN, fault.name).await;
            let failed = history.failures_between(began, ended + after);
            self.report.add_fault(fault.name, shown, failed, after, history);
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
            // Jobs that fell due while the clock was wrong wait until the servers adopt the right
            // time.
            terms.drains_within += clock::ADOPTED_AFTER;
            clock::delete_far_jobs(&bases, &history).await;
        }
        let stage = &self.stage;
        let judgement = drain_and_judge(&history, &bases, || stage.scan(), &terms).await;
        let server = &stage.servers[0].process.base;
        let counters = counters_equal(server, &judgement.left, &TOPICS).await;
        self.report.add_judgement(&history, judgement, counters);
        for topic in TOPICS {
            let purged = stage.servers[0].process.delete(&format!("/topics/{topic}/jobs")).await;
            assert_eq!(purged, Some(200), "failed to purge {topic}");
        }
        if cost == Cost::Time {
            // Until then, the servers go by a time that is late by the delay of each call.
            tokio::time::sleep(clock::ADOPTED_AFTER).await;
        }
        if let Store::Redis(single) = &mut self.stage.store {
            // Shortens the log, so that later starts of Redis need not read entries of this epoch.
            block_in_place(|| single.rewrite());
        }
    }
}
