//! Do the answers that clients got, and what the store holds, keep the queue's promises?
//!
//! A pure function over a history and a scan. Where an outcome is unknown both are allowed, and
//! nothing else: every rule speaks only of what is certain whichever way unknown calls went. It
//! relies on the load for two things: bodies differ between jobs, and no id is put again that may
//! have been ended.

mod rules;
mod tests;

use std::collections::{BTreeMap, HashMap};

use crate::{
    faults::history::{Answer, Ask, Call, Delivery, StoreResult, Time},
    support::scan::{Scan, Stored},
};

/// What a promise says, and what an objection is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// An acknowledged job is there until it is finished or deleted.
    Lost,
    /// Only what was put is delivered or stored, once for each put.
    NeverPut,
    /// The body is that of the put.
    OtherBody,
    /// Nothing is delivered before it is due.
    Early,
    /// One holder at a time.
    TwoHolders,
    /// A consumer that lost a job cannot end it.
    StaleAccepted,
    /// The consumer that holds a job can end it.
    LiveRefused,
    /// After a finish or delete the job is gone.
    AfterTheEnd,
    /// Attempts grow with every delivery, and not beyond their limit.
    Attempts,
    /// A job is in the pool and in exactly one set.
    Sets,
    /// A failure says what it may have changed.
    WrongAnswer,
}

/// A promise that was broken, and how.
#[derive(Debug)]
pub struct Objection {
    pub rule: Rule,
    pub what: String,
}

/// What is known of one job.
#[derive(Default)]
struct Job<'a> {
    /// Puts that were done, or perhaps.
    puts: Vec<&'a Call>,
    /// Puts that surely were not.
    refused_puts: Vec<&'a Call>,
    /// By attempt.
    deliveries: Vec<Delivered<'a>>,
    /// Finishes, releases and deletes.
    ends: Vec<&'a Call>,
    stored: Option<&'a Stored>,
}

/// A delivery and its pop.
#[derive(Clone, Copy)]
struct Delivered<'a> {
    pop: &'a Call,
    job: &'a Delivery,
}

/// Every objection. `scan` was taken after the last call had ended. If the store's clock was wrong
/// meanwhile, its times tell nothing, and only the clients' clock counts; what was put, popped or
/// released in that time may have got any due time or end of its TTR.
pub fn judge(calls: &[Call], scan: &Scan, wrong_clock: &[(Time, Time)]) -> Vec<Objection> {
    let mut objections = Vec::new();
    for call in calls {
        if let StoreResult::Wrong(what) = &call.outcome {
            objections.push(Objection { rule: Rule::WrongAnswer, what: what.to_string() });
        }
    }
    for (id, job) in &jobs(calls, scan) {
        let mut object = |rule, what: String| {
            objections.push(Objection { rule, what: format!("{id}: {what}") });
        };
        rules::contents(job, &mut object);
        rules::due_times(job, wrong_clock, &mut object);
        rules::holders(job, wrong_clock, &mut object);
        rules::attempts(job, &mut object);
        rules::ends(job, &mut object);
        rules::refusals(job, wrong_clock, &mut object);
        rules::account(job, &mut object);
        rules::sets(job, &mut object);
    }
    objections
}

/// How many acknowledged jobs were ended, perhaps ended, or are left. Without objections these
/// are all of them.
pub fn account(calls: &[Call], scan: &Scan) -> String {
    let jobs = jobs(calls, scan);
    let accepted = || jobs.values().filter(|job| job.accepted());
    let ended = accepted().filter(|job| job.ended_for_sure().next().is_some()).count();
    let left = accepted().filter(|job| job.stored.is_some()).count();
    let all = accepted().count();
    let unsure = jobs.values().filter(|job| !job.accepted() && !job.puts.is_empty()).count();
    format!(
        "accepted {all} = ended {ended} + left {left} + perhaps ended {}; perhaps accepted {unsure}",
        all.saturating_sub(ended + left)
    )
}

/// Everything by id. A job whose put has no answer and no id of its own is known by its body.
fn jobs<'a>(calls: &'a [Call], scan: &'a Scan) -> BTreeMap<&'a str, Job<'a>> {
    let mut jobs: BTreeMap<&str, Job> = BTreeMap::new();
    let mut nameless: HashMap<&str, &Call> = HashMap::new();
    for call in calls {
        let Ask::Put { id, body, .. } = &call.ask else { continue };
        let id = match (&call.outcome, id) {
            (StoreResult::Done(Answer::Put { id, .. }), _) | (_, Some(id)) => id,
            _ => {
                nameless.insert(body, call);
                continue;
            }
        };
        let job = jobs.entry(id).or_default();
        if call.may_be_done() { job.puts.push(call) } else { job.refused_puts.push(call) }
    }
    let mut find = |jobs: &mut BTreeMap<&'a str, Job<'a>>, id: &'a str, body: &str| {
        if !jobs.contains_key(id) {
            let mut job = Job::default();
            // Once found it has a name: a second job of the same put would be one never put.
            if let Some(put) = nameless.remove(body) {
                if put.may_be_done() { job.puts.push(put) } else { job.refused_puts.push(put) }
            }
            jobs.insert(id, job);
        }
    };
    for call in calls {
        for job in call.deliveries() {
            find(&mut jobs, &job.id, &job.body);
            let known = jobs.entry(&job.id).or_default();
            known.deliveries.push(Delivered { pop: call, job });
        }
    }
    for (id, stored) in scan {
        find(&mut jobs, id, stored.bodies.first().map_or("", |body| text(body)));
        jobs.entry(id).or_default().stored = Some(stored);
    }
    for call in calls {
        let (Ask::Finish { id, .. } | Ask::Release { id, .. } | Ask::Delete { id }) = &call.ask
        else {
            continue;
        };
        jobs.entry(id).or_default().ends.push(call);
    }
    for job in jobs.values_mut() {
        job.deliveries.sort_by_key(|delivered| (delivered.job.attempt, delivered.pop.end));
    }
    jobs
}

/// The text of a body as it is stored: the load's bodies are JSON texts without escapes.
fn text(body: &str) -> &str {
    body.trim_matches('"')
}

impl<'a> Job<'a> {
    /// A client was told that it is there.
    fn accepted(&self) -> bool {
        let exists = self.refused_puts.iter().any(|put| put.refused("job_exists"));
        self.puts.iter().any(|put| put.done()) || (exists && !self.puts.is_empty())
    }

    /// Finishes and deletes that were acknowledged.
    fn ended_for_sure(&self) -> impl Iterator<Item = &'a Call> {
        self.ended_perhaps().filter(|call| call.done())
    }

    /// Finishes and deletes that were done, or perhaps.
    fn ended_perhaps(&self) -> impl Iterator<Item = &'a Call> {
        let release = |call: &&Call| matches!(call.ask, Ask::Release { .. });
        self.ends.iter().copied().filter(|call| call.may_be_done()).filter(move |c| !release(c))
    }

    /// The delivery that gave this reservation.
    fn given(&self, reservation: &str) -> Option<Delivered<'a>> {
        self.deliveries.iter().copied().find(|given| &*given.job.reservation == reservation)
    }

    /// Could another call, before `call` ended, have ended the hold of `given`?
    fn may_have_let_go(&self, given: Delivered, before: Time, but: &Call) -> bool {
        self.ends.iter().any(|end| {
            let by_holder = match reservation(end) {
                Some(reservation) => *reservation == *given.job.reservation,
                None => true,
            };
            by_holder && end.may_be_done() && end.start < before && !std::ptr::eq(*end, but)
        })
    }
}

/// The reservation that a finish or release was sent with.
fn reservation(call: &Call) -> Option<&str> {
    match &call.ask {
        Ask::Finish { reservation, .. } | Ask::Release { reservation, .. } => Some(reservation),
        _ => None,
    }
}
