//! Output of a run: a line for each fault while the run lasts, and the totals at its end.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use crate::{
    faults::{epoch::Judgement, history::History, judge::Objection, percentiles::Durations},
    soak::{faults::Fault, options::Options},
};

pub struct Report {
    words: String,
    began: Instant,
    /// By name, how often each fault was injected, and how often it showed.
    faults: BTreeMap<&'static str, [usize; 2]>,
    /// Calls of the epochs that have ended.
    operations: usize,
    failed: usize,
    /// Jobs lost to faults that may cost jobs.
    forgotten: usize,
    /// Durations of calls that met no failure, by kind.
    took: BTreeMap<&'static str, Durations>,
    objections: Vec<Objection>,
    counters: Vec<String>,
}

impl Report {
    /// Prints the options and the faults of the run.
    pub fn begin(options: &Options, faults: &[&'static Fault]) -> Self {
        let words = format!(
            "--store {:?} --minutes {} --seed {}{}",
            options.store,
            options.minutes,
            options.seed,
            options.ack.map_or("", |_| " --ack memory")
        );
        let words = words.to_lowercase();
        println!("soak {words}: {} faults", faults.len());
        Self {
            words,
            began: Instant::now(),
            faults: faults.iter().map(|fault| (fault.name, [0, 0])).collect(),
            operations: 0,
            failed: 0,
            forgotten: 0,
            took: BTreeMap::new(),
            objections: Vec::new(),
            counters: Vec::new(),
        }
    }

    pub fn all_have_shown(&self) -> bool {
        self.faults.values().all(|[_, shown]| *shown > 0)
    }

    pub fn fired(
        &mut self,
        name: &'static str,
        shown: bool,
        failed: usize,
        after: Duration,
        history: &History,
    ) {
        let [all, seen] = self.faults.entry(name).or_default();
        *all += 1;
        *seen += usize::from(shown);
        let operations = self.operations + history.calls().len();
        let elapsed = self.began.elapsed();
        println!(
            "{:>3}:{:02} {operations:>8} operations {:>5.0}/s  {name}: {}, {failed} calls failed, \
             delivery went on after {:.1} s",
            elapsed.as_secs() / 60,
            elapsed.as_secs() % 60,
            operations as f64 / elapsed.as_secs_f64(),
            if shown { "showed" } else { "did NOT show" },
            after.as_secs_f64(),
        );
    }

    pub fn judged(
        &mut self,
        history: &History,
        judgement: Judgement,
        counters: Result<(), String>,
    ) {
        let calls = history.calls();
        self.operations += calls.len();
        self.failed += calls.iter().filter(|call| call.failed()).count();
        drop(calls);
        for (kind, took) in history.took() {
            self.took.entry(kind).or_default().extend(took);
        }
        self.forgotten += judgement.forgotten;
        for objection in &judgement.objections {
            println!("OBJECTION {:?}: {}", objection.rule, objection.what);
        }
        self.objections.extend(judgement.objections);
        self.counters.extend(counters.err());
    }

    /// Prints the totals.
    ///
    /// # Panics
    /// If a promise was broken, or a fault has not shown.
    pub fn verdict(self) {
        println!("faults, how often they came about and showed:");
        for (name, [all, shown]) in &self.faults {
            println!("  {name:40} {all:>5} {shown:>5}");
        }
        for (kind, took) in self.took {
            println!("{kind}: {}", took.percentiles());
        }
        let mut broken: BTreeMap<_, usize> = BTreeMap::new();
        for objection in &self.objections {
            *broken.entry(format!("{:?}", objection.rule)).or_default() += 1;
        }
        println!(
            "soak {}: {} operations in {:.0} s, {} failed; forgotten as allowed: {}; objections: \
             {broken:?}; counters: {:?}",
            self.words,
            self.operations,
            self.began.elapsed().as_secs_f64(),
            self.failed,
            self.forgotten,
            self.counters
        );
        assert!(self.faults.values().all(|[_, shown]| *shown > 0), "a fault has not shown");
        assert!(
            broken.is_empty() && self.counters.is_empty(),
            "promises were broken: {}",
            self.words
        );
        println!("all promises held");
    }
}
