//! Judge of the queue's promises, from the answers to clients and the contents of the store.
//!
//! The judge is a pure function of a history and a scan. If the outcome of a call is unknown, it
//! allows both results: every rule must hold in both cases. It relies on four properties of the
//! load: bodies differ between jobs; a release that changes a body keeps its begin; ids of possibly
//! ended jobs are only put again if they stay taken; and no touch shortens a reservation.

mod bodies;
mod expiry;
mod job;
mod moves;
mod pauses;
mod rules;
mod schedule;
mod tests;

use crate::faults::judge::job::jobs;
use crate::faults::prelude::*;

/// A promise of the queue, which is also the kind of an objection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// An acknowledged job stays until it is finished or deleted.
    Lost,
    /// Each delivered or stored job was put, and each put creates at most one job.
    NeverPut,
    /// The id of a finished or cancelled job stays taken for its retention.
    Twice,
    /// The body is the body of the put, or of the last release that changed it.
    OtherBody,
    /// No job is delivered before it is due.
    Early,
    /// A job has at most one consumer at a time.
    TwoHolders,
    /// A consumer that lost a job cannot end or keep it.
    StaleAccepted,
    /// The consumer that holds a job can end and keep it.
    LiveRefused,
    /// After a finish or delete the job is gone.
    AfterTheEnd,
    /// A job that was buried, or died by its release, is not delivered until it is kicked.
    Buried,
    /// A job that has expired is dead and not delivered, and none expires before its time.
    Expired,
    /// A job is dead only if it was buried, its attempts are spent, or it has expired.
    Dead,
    /// Attempts grow by one with every delivery that is not released uncounted, and not beyond
    /// their limit; a kick of a dead job and a move set them to zero.
    Attempts,
    /// A job is in the topic of its put or, once it has died, in the one that its `dead_to` names.
    OtherTopic,
    /// A job with a `dead_to` does not stay dead where it dies first.
    NotMoved,
    /// A server that has acknowledged a pause of a topic delivers none of its jobs.
    Paused,
    /// A job is in the pool and in exactly one set.
    Sets,
    /// A failure reports whether it may have changed something.
    WrongAnswer,
}

#[derive(Debug)]
pub struct Objection {
    pub rule: Rule,
    pub what: String,
}

/// Maximum time after which an abandoned call may still be carried out, since a frozen process
/// later sends its buffered calls.
const LATE: Duration = Duration::from_secs(60);

/// Times at which calls failed because a server or store was unavailable. At these times, pops may
/// have used attempts that no client received. This includes answered pops: a server may deliver
/// jobs of other buckets while its store call to one bucket has no answer.
struct Trouble(Vec<(Time, Time)>);

impl Trouble {
    /// Maximum time from the begin of trouble to the first failure that a client sees.
    const UNSEEN: Duration = Duration::from_secs(10);

    fn of(calls: &[Call]) -> Self {
        let failed = calls.iter().filter(|call| call.failed());
        let mut times: Vec<_> = failed.map(|call| (call.end, call.start)).collect();
        times.sort_unstable();
        Self(times)
    }

    /// Returns whether there may have been trouble between these times.
    fn between(&self, from: Time, to: Time) -> bool {
        let from = from.saturating_sub(LATE);
        let first = self.0.partition_point(|(end, _)| *end < from);
        self.0[first..].iter().any(|(_, start)| *start <= to + Self::UNSEEN)
    }
}

/// Returns all objections. `scan` was made after the end of the last call. If the store's clock was
/// wrong at some time, the judge ignores all times of the store and uses the clients' clock. Jobs
/// that were put, popped, touched, released or rescheduled during this time may have any due time
/// or end of TTR.
pub fn judge(calls: &[Call], scan: &Scan, wrong_clock: &[(Time, Time)]) -> Vec<Objection> {
    let mut objections = Vec::new();
    for call in calls {
        if let StoreResult::Wrong(what) = &call.outcome {
            objections.push(Objection { rule: Rule::WrongAnswer, what: what.to_string() });
        }
    }
    pauses::pauses(calls, &mut |rule, what| objections.push(Objection { rule, what }));
    let trouble = Trouble::of(calls);
    let end = calls.iter().map(|call| call.end).max().unwrap_or_default();
    for (id, job) in &jobs(calls, scan) {
        let mut object = |rule, what: String| {
            objections.push(Objection { rule, what: format!("{id}: {what}") });
        };
        bodies::contents(job, &mut object);
        schedule::put_times(job, wrong_clock, &mut object);
        schedule::release_times(job, wrong_clock, &mut object);
        schedule::reschedule_times(job, wrong_clock, &mut object);
        schedule::burials(job, &mut object);
        expiry::expiries(job, wrong_clock, &mut object);
        expiry::deaths(job, (&trouble, end), wrong_clock, &mut object);
        moves::topics(job, &mut object);
        moves::moves(job, (&trouble, end), wrong_clock, &mut object);
        moves::answers(job, wrong_clock, &mut object);
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

/// Counts the acknowledged jobs that were ended, were perhaps ended, or are left. Without
/// objections, every acknowledged job is one of these.
pub fn account(calls: &[Call], scan: &Scan) -> String {
    let jobs = jobs(calls, scan);
    let accepted = || jobs.values().filter(|job| job.accepted());
    let ended = accepted().filter(|job| job.certainly_ended().next().is_some()).count();
    let left = accepted().filter(|job| job.stored.is_some()).count();
    let dead = || accepted().filter_map(|job| job.stored).filter(|stored| stored.is_dead());
    let (died, expired) = (dead().count(), dead().filter(|stored| stored.is_expired).count());
    let moved = accepted().filter(|job| job.has_certainly_moved()).count();
    let all = accepted().count();
    let unsure = jobs.values().filter(|job| !job.accepted() && !job.puts.is_empty()).count();
    format!(
        "accepted {all} = ended {ended} + left {left} + perhaps ended {}; of those left, {died} are \
         dead, {expired} of them expired; moved {moved}; perhaps accepted {unsure}",
        all.saturating_sub(ended + left)
    )
}

/// Returns whether the store's clock was wrong at the time of this call.
fn meets(wrong_clock: &[(Time, Time)], call: &Call) -> bool {
    wrong_clock.iter().any(|(from, to)| call.end >= *from && call.start <= *to)
}

trait Object: FnMut(Rule, String) {}
impl<F: FnMut(Rule, String)> Object for F {}
