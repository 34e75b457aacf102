//! Judge of the queue's promises, from the answers to clients and the contents of the store.
//!
//! The judge is a pure function over a history and a scan. Where an outcome is unknown, it allows
//! both results and nothing else: every rule states only what holds whichever way unknown calls
//! went. It relies on the load for three things: bodies differ between jobs, no id is put again
//! that may have been ended unless it stays taken, and no touch shortens a hold.

mod job;
mod pauses;
mod rules;
mod schedule;
mod tests;

use std::time::Duration;

use crate::{
    faults::history::{Call, StoreResult, Time},
    support::scan::Scan,
};

use self::job::jobs;

/// Promise of the queue, and kind of an objection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// An acknowledged job stays until it is finished or deleted.
    Lost,
    /// Each delivered or stored job was put, and each put makes at most one job.
    NeverPut,
    /// The id of a finished or cancelled job stays taken for its retention.
    Twice,
    /// The body is that of the put.
    OtherBody,
    /// No job is delivered before it is due.
    Early,
    /// A job has at most one holder at a time.
    TwoHolders,
    /// A consumer that lost a job cannot end or keep it.
    StaleAccepted,
    /// The consumer that holds a job can end and keep it.
    LiveRefused,
    /// After a finish or delete the job is gone.
    AfterTheEnd,
    /// A buried job is not delivered until it is kicked.
    Buried,
    /// Attempts grow by one with every delivery, and not beyond their limit; a kick of a dead job
    /// sets them to zero.
    Attempts,
    /// A server that has acknowledged a pause of a topic delivers none of its jobs.
    Paused,
    /// A job is in the pool and in exactly one set.
    Sets,
    /// A failure says what it may have changed.
    WrongAnswer,
}

#[derive(Debug)]
pub struct Objection {
    pub rule: Rule,
    pub what: String,
}

/// Time after which an abandoned call may still be carried out: a frozen process goes on with its
/// buffers.
const LATE: Duration = Duration::from_secs(60);

/// Times at which calls failed because a server or store was unavailable. Pops may have taken
/// attempts then that no client received. That includes answered pops: a server may give jobs of
/// other buckets while its store call for one has no answer.
struct Trouble(Vec<(Time, Time)>);

impl Trouble {
    /// Time by which trouble may precede the first failure that a client sees.
    const UNSEEN: Duration = Duration::from_secs(10);

    fn of(calls: &[Call]) -> Self {
        let failed = calls.iter().filter(|call| call.failed());
        let mut times: Vec<_> = failed.map(|call| (call.end, call.start)).collect();
        times.sort_unstable();
        Self(times)
    }

    /// Reports whether there may have been trouble between these times.
    fn between(&self, from: Time, to: Time) -> bool {
        let from = from.saturating_sub(LATE);
        let first = self.0.partition_point(|(end, _)| *end < from);
        self.0[first..].iter().any(|(_, start)| *start <= to + Self::UNSEEN)
    }
}

/// Returns every objection. `scan` was taken after the last call had ended. If the store's clock
/// was wrong at some time, the judge ignores all times of the store and uses the clients' clock;
/// jobs that were put, popped, touched, released or rescheduled during that time may have got any
/// due time or end of TTR.
pub fn judge(calls: &[Call], scan: &Scan, wrong_clock: &[(Time, Time)]) -> Vec<Objection> {
    let mut objections = Vec::new();
    for call in calls {
        if let StoreResult::Wrong(what) = &call.outcome {
            objections.push(Objection { rule: Rule::WrongAnswer, what: what.to_string() });
        }
    }
    pauses::pauses(calls, &mut |rule, what| objections.push(Objection { rule, what }));
    let trouble = Trouble::of(calls);
    for (id, job) in &jobs(calls, scan) {
        let mut object = |rule, what: String| {
            objections.push(Objection { rule, what: format!("{id}: {what}") });
        };
        rules::contents(job, &mut object);
        schedule::put_times(job, wrong_clock, &mut object);
        schedule::release_times(job, wrong_clock, &mut object);
        schedule::reschedule_times(job, wrong_clock, &mut object);
        schedule::burials(job, &mut object);
        rules::holders(job, wrong_clock, &mut object);
        rules::attempts(job, &mut object);
        rules::counted_attempts(job, &trouble, &mut object);
        rules::ends(job, &mut object);
        rules::puts(job, wrong_clock, &mut object);
        rules::refusals(job, wrong_clock, &mut object);
        rules::account(job, &mut object);
        rules::sets(job, &mut object);
    }
    objections
}

/// Counts the acknowledged jobs that were ended, perhaps ended, or are left. Without objections
/// these are all of them.
pub fn account(calls: &[Call], scan: &Scan) -> String {
    let jobs = jobs(calls, scan);
    let accepted = || jobs.values().filter(|job| job.accepted());
    let ended = accepted().filter(|job| job.certainly_ended().next().is_some()).count();
    let left = accepted().filter(|job| job.stored.is_some()).count();
    let all = accepted().count();
    let unsure = jobs.values().filter(|job| !job.accepted() && !job.puts.is_empty()).count();
    format!(
        "accepted {all} = ended {ended} + left {left} + perhaps ended {}; perhaps accepted {unsure}",
        all.saturating_sub(ended + left)
    )
}

/// Reports whether the store's clock was wrong at the time of this call.
fn meets(wrong_clock: &[(Time, Time)], call: &Call) -> bool {
    wrong_clock.iter().any(|(from, to)| call.end >= *from && call.start <= *to)
}

trait Object: FnMut(Rule, String) {}
impl<F: FnMut(Rule, String)> Object for F {}
