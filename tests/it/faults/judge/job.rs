//! Facts about each job, and the order of its deliveries where it is certain.

use std::collections::{BTreeMap, HashMap};

use crate::{
    faults::history::{Answer, Ask, Call, Delivery, StoreResult, Time},
    support::scan::{Scan, Stored},
};

/// Facts about one job, from all calls and the scan.
#[derive(Default)]
pub struct Job<'a> {
    /// Puts that were or may have been done.
    pub puts: Vec<&'a Call>,
    /// Puts that certainly were not done.
    pub refused_puts: Vec<&'a Call>,
    /// Deliveries, sorted by attempt.
    pub deliveries: Vec<Delivered<'a>>,
    /// All other calls about the job.
    pub acts: Vec<&'a Call>,
    pub stored: Option<&'a Stored>,
}

#[derive(Clone, Copy)]
pub struct Delivered<'a> {
    pub pop: &'a Call,
    pub job: &'a Delivery,
}

/// Collects the facts by id. A job whose put has neither an answer nor an id is found by its body.
pub fn jobs<'a>(calls: &'a [Call], scan: &'a Scan) -> BTreeMap<&'a str, Job<'a>> {
    let mut jobs: BTreeMap<&'a str, Job<'a>> = BTreeMap::new();
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
            // The put has its job now: a second job with this body would be one that was never put.
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
        if let Some(id) = acted_on(call) {
            jobs.entry(id).or_default().acts.push(call);
        }
    }
    for job in jobs.values_mut() {
        job.deliveries.sort_by_key(|delivered| (delivered.job.attempt, delivered.pop.end));
    }
    jobs
}

/// Returns the id of the job that a call names, unless it is a put.
fn acted_on(call: &Call) -> Option<&str> {
    match &call.ask {
        Ask::Finish { id, .. }
        | Ask::Release { id, .. }
        | Ask::Delete { id }
        | Ask::Cancel { id }
        | Ask::Touch { id, .. }
        | Ask::Bury { id, .. }
        | Ask::Kick { id }
        | Ask::Reschedule { id, .. } => Some(id),
        Ask::Put { .. } | Ask::Pop { .. } | Ask::Pause { .. } | Ask::Resume { .. } => None,
    }
}

/// Returns the text of a body as it is stored: the load's bodies are JSON strings without escapes.
pub fn text(body: &str) -> &str {
    body.trim_matches('"')
}

pub fn reservation(call: &Call) -> Option<&str> {
    match &call.ask {
        Ask::Finish { reservation, .. }
        | Ask::Release { reservation, .. }
        | Ask::Touch { reservation, .. }
        | Ask::Bury { reservation, .. } => Some(reservation),
        _ => None,
    }
}

/// Reports whether a call ends its job.
pub fn is_end(ask: &Ask) -> bool {
    matches!(ask, Ask::Finish { .. } | Ask::Delete { .. } | Ask::Cancel { .. })
}

/// Reports whether `one` had certainly been carried out when `other` began.
pub fn is_before(one: &Call, other: &Call) -> bool {
    one.done() && one.end <= other.start
}

impl<'a> Job<'a> {
    /// Reports whether a client was told that the job is there.
    pub fn accepted(&self) -> bool {
        let exists = self.refused_puts.iter().any(|put| put.refused("job_exists"));
        self.puts.iter().any(|put| put.done()) || (exists && !self.puts.is_empty())
    }

    /// Returns finishes and deletes that were acknowledged.
    pub fn certainly_ended(&self) -> impl Iterator<Item = &'a Call> {
        self.possibly_ended().filter(|call| call.done())
    }

    /// Returns finishes and deletes that were or may have been done.
    pub fn possibly_ended(&self) -> impl Iterator<Item = &'a Call> {
        self.possibly_applied().filter(|call| is_end(&call.ask))
    }

    /// Returns kicks that were or may have been done.
    pub fn kicks(&self) -> impl Iterator<Item = &'a Call> {
        self.possibly_applied().filter(|call| matches!(call.ask, Ask::Kick { .. }))
    }

    /// Returns acknowledged reschedules: each found the job without a holder.
    pub fn changes(&self) -> impl Iterator<Item = &'a Call> {
        let changes = |call: &&Call| call.done() && matches!(call.ask, Ask::Reschedule { .. });
        self.acts.iter().copied().filter(changes)
    }

    /// Returns all calls about the job, except puts and pops, that were or may have been done.
    pub fn possibly_applied(&self) -> impl Iterator<Item = &'a Call> {
        self.acts.iter().copied().filter(|call| call.may_be_done())
    }

    /// Returns the delivery that gave this reservation.
    pub fn given(&self, reservation: &str) -> Option<Delivered<'a>> {
        self.deliveries.iter().copied().find(|given| &*given.job.reservation == reservation)
    }

    /// Returns the delivery whose reservation a call was sent with.
    pub fn held_by(&self, call: &Call) -> Option<Delivered<'a>> {
        self.given(reservation(call)?)
    }

    /// Reports whether another call may have ended the hold of `given` before this time. A kick or
    /// a change of the schedule cannot: a reserved job refuses both.
    pub fn may_have_ended_hold(&self, given: Delivered, before: Time, but: &Call) -> bool {
        self.possibly_applied().any(|act| {
            let lets_go = match act.ask {
                Ask::Finish { .. } | Ask::Release { .. } | Ask::Bury { .. } => {
                    reservation(act) == Some(&*given.job.reservation)
                }
                Ask::Delete { .. } | Ask::Cancel { .. } => true,
                _ => false,
            };
            lets_go && act.start < before && !std::ptr::eq(act, but)
        })
    }

    /// Returns the time until which the holder certainly has the job, by the clients' clock and by
    /// the store's: acknowledged touches that began before `before` count.
    pub fn held_until(&self, given: Delivered, before: Time) -> (Time, i64) {
        let mut until = (given.pop.start + given.job.ttr, given.job.reserved_until);
        for act in self.acts.iter().filter(|act| act.start < before) {
            let Ask::Touch { reservation, ttr, .. } = &act.ask else { continue };
            let StoreResult::Done(Answer::Touched { reserved_until }) = act.outcome else {
                continue;
            };
            if *reservation == given.job.reservation {
                until = (until.0.max(act.start + *ttr), until.1.max(reserved_until));
            }
        }
        until
    }

    /// Returns deliveries that certainly came after `held`.
    pub fn after(&self, held: Delivered<'a>) -> impl Iterator<Item = Delivered<'a>> {
        self.deliveries.iter().copied().filter(move |given| self.is_after(*given, held))
    }

    /// Reports whether `given` certainly came after `held`. Attempt numbers give the order, unless
    /// a kick may have reset them in between.
    pub fn is_after(&self, given: Delivered, held: Delivered) -> bool {
        if self.no_kick_between(given, held) && given.job.attempt != held.job.attempt {
            given.job.attempt > held.job.attempt
        } else {
            given.pop.start >= held.pop.end
        }
    }

    /// Reports whether certainly no kick came between the two.
    pub fn no_kick_between(&self, one: Delivered, other: Delivered) -> bool {
        self.kicks().all(|kick| {
            let before = |given: Delivered| given.pop.end <= kick.start;
            let after = |given: Delivered| is_before(kick, given.pop);
            (before(one) && before(other)) || (after(one) && after(other))
        })
    }

    /// Returns the start of the last kick that certainly revived the job from the dead before this
    /// delivery.
    pub fn last_effective_kick(&self, given: Delivered) -> Option<Time> {
        let kicks = self.kicks().filter(|kick| is_before(kick, given.pop));
        let effective = kicks.filter(|kick| {
            let buried = |act: &&&Call| matches!(act.ask, Ask::Bury { .. }) && is_before(act, kick);
            // Another kick may have revived the job instead.
            let other = |bury: &Call| {
                let mut others = self.kicks().filter(|other| !std::ptr::eq(*other, *kick));
                others.any(|other| other.start < kick.end && !is_before(other, bury))
            };
            self.acts.iter().filter(buried).any(|bury| !other(bury))
        });
        effective.map(|kick| kick.start).max()
    }
}

impl Delivered<'_> {
    /// Returns the time of the reservation by the store's clock.
    pub fn popped_at(&self) -> i64 {
        let ttr = i64::try_from(self.job.ttr.as_millis()).unwrap_or(i64::MAX);
        self.job.reserved_until.saturating_sub(ttr)
    }
}
