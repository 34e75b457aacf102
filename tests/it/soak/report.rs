//! Output of a run: a line for each injected fault during the run, and the totals at the end.

use crate::faults::{epoch::Judgement, judge::Objection, percentiles::Durations};
use crate::soak::prelude::*;

pub struct Report {
    words: String,
    began: Instant,
    /// By name, how often each fault was injected, and how often it had an effect.
    faults: BTreeMap<&'static str, [usize; 2]>,
    /// Calls of the epochs that have ended.
    operations: usize,
    failed: usize,
    /// Jobs lost to faults that may cost jobs.
    forgotten: usize,
    /// Durations of calls without a failure, by kind.
    durations: BTreeMap<&'static str, Durations>,
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
            durations: BTreeMap::new(),
            objections: Vec::new(),
            counters: Vec::new(),
        }
    }

    pub fn all_have_shown(&self) -> bool {
        self.faults.values().all(|[_, shown]| *shown > 0)
    }

    pub fn add_fault(
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
             delivery resumed after {:.1} s",
            elapsed.as_secs() / 60,
            elapsed.as_secs() % 60,
            operations as f64 / elapsed.as_secs_f64(),
            if shown { "had an effect" } else { "had NO effect" },
            after.as_secs_f64(),
        );
    }

    pub fn add_judgement(
        &mut self,
        history: &History,
        judgement: Judgement,
        counters: Result<(), String>,
    ) {
        let calls = history.calls();
        self.operations += calls.len();
        self.failed += calls.iter().filter(|call| call.failed()).count();
        for objection in &judgement.objections {
            println!("OBJECTION {:?}: {}", objection.rule, objection.what);
        }
        // The calls about these jobs, from which a reader can tell what went wrong.
        let ids: BTreeSet<&str> =
            judgement.objections.iter().filter_map(|one| one.what.split(": ").next()).collect();
        for call in calls.iter() {
            let call = format!("{call:?}");
            if ids.iter().any(|id| call.contains(&format!("\"{id}\""))) {
                println!("{call}");
            }
        }
        drop(calls);
        for (kind, durations) in history.took() {
            self.durations.entry(kind).or_default().extend(durations);
        }
        self.forgotten += judgement.forgotten;
        self.objections.extend(judgement.objections);
        self.counters.extend(counters.err());
    }

    /// Prints the totals.
    ///
    /// # Panics
    /// If a promise was broken, or a fault had no effect.
    pub fn verdict(self) {
        println!("faults, how often they were injected and had an effect:");
        for (name, [all, shown]) in &self.faults {
            println!("  {name:40} {all:>5} {shown:>5}");
        }
        for (kind, durations) in self.durations {
            println!("{kind}: {}", durations.percentiles());
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
        assert!(self.faults.values().all(|[_, shown]| *shown > 0), "a fault had no effect");
        assert!(
            broken.is_empty() && self.counters.is_empty(),
            "promises were broken: {}",
            self.words
        );
        println!("all promises held");
    }
}
