//! Facts about each job, and the order of its deliveries where it is certain.

use crate::faults::prelude::*;
use crate::faults::{
    judge::moves::{DeadTo, Settings},
    load::put_body,
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
    /// The topic to which the job goes, or may go, when it dies.
    pub dead_to: Option<DeadTo>,
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
            // Each put has only one job: a second job with this body was never put.
            if let Some(put) = nameless.remove(put_body(body)) {
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
    let settings = Settings::of(calls);
    for job in jobs.values_mut() {
        job.dead_to = settings.at(&job.puts);
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
        Ask::Put { .. }
        | Ask::Pop { .. }
        | Ask::Pause { .. }
        | Ask::Resume { .. }
        | Ask::SetDeadTo { .. } => None,
    }
}

/// Returns the text of a stored body, since the load's bodies are JSON strings without escapes.
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

/// Returns whether a call ends its job.
pub fn is_end(ask: &Ask) -> bool {
    matches!(ask, Ask::Finish { .. } | Ask::Delete { .. } | Ask::Cancel { .. })
}

/// Returns whether `one` had certainly been carried out when `other` began.
pub fn is_before(one: &Call, other: &Call) -> bool {
    one.done() && one.end <= other.start
}

impl<'a> Job<'a> {
    /// Returns whether a server has acknowledged the job.
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

    /// Returns uncounted releases that were or may have been carried out.
    fn uncounted_releases(&self) -> impl Iterator<Item = &'a Call> {
        let uncounted = |act: &&Call| matches!(act.ask, Ask::Release { is_counted: false, .. });
        self.possibly_applied().filter(uncounted)
    }

    /// Returns the largest limit of attempts of the puts.
    pub fn max_attempts(&self) -> u32 {
        let limits = self.puts.iter().filter_map(|put| match put.ask {
            Ask::Put { max_attempts, .. } => Some(max_attempts),
            _ => None,
        });
        limits.max().unwrap_or(u32::MAX)
    }

    /// Returns acknowledged reschedules. Each of them proves that the job was not reserved.
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

    /// Returns whether another call may have ended the reservation of `given` before this time.
    /// Kicks and reschedules cannot, since a reserved job refuses both.
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

    /// Returns the time until which the job is certainly reserved, by the clients' clock and by the
    /// store's. Includes acknowledged touches that began before `before`.
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

    /// Returns whether `given` certainly came after `held`. A move lies between deliveries from two
    /// topics. Otherwise their numbers show the order, unless a kick between the two may have reset
    /// them.
    pub fn is_after(&self, given: Delivered, held: Delivered) -> bool {
        let has_moved = self.has_moved(given);
        if has_moved != self.has_moved(held) {
            return has_moved;
        }
        let (least, most) = self.number(given);
        let (least_held, most_held) = self.number(held);
        match self.no_reset_between(given, held) {
            true if least > most_held => true,
            true if least_held > most => false,
            _ => given.pop.start >= held.pop.end,
        }
    }

    /// Returns whether `one` may have come before `other`, if there was no kick and no move between
    /// the two.
    pub fn may_precede(&self, one: Delivered, other: Delivered) -> bool {
        if self.has_moved(one) != self.has_moved(other) {
            return false;
        }
        let ((least, _), (_, most)) = (self.number(one), self.number(other));
        other.pop.end >= one.pop.start && least < most
    }

    /// Returns bounds of the number of a delivery: its attempt and the uncounted releases before
    /// it. Between two kicks or moves, each delivery has a larger number than the one before.
    fn number(&self, given: Delivered) -> (u32, u32) {
        let (mut least, mut most) = (given.job.attempt, given.job.attempt);
        for release in self.uncounted_releases() {
            let is_own = reservation(release) == Some(&*given.job.reservation);
            let held = self.held_by(release);
            if held.is_some_and(|held| self.has_moved(held) != self.has_moved(given)) {
                continue;
            }
            least += u32::from(is_before(release, given.pop));
            most += u32::from(release.start < given.pop.end && !is_own);
        }
        (least, most)
    }

    /// Returns whether the attempt of this delivery certainly does not count.
    pub fn is_uncounted(&self, given: Delivered) -> bool {
        let own = |act: &Call| reservation(act) == Some(&*given.job.reservation);
        self.uncounted_releases().any(|release| release.done() && own(release))
    }

    /// Returns whether there was certainly neither a kick nor a move between the two.
    pub fn no_reset_between(&self, one: Delivered, other: Delivered) -> bool {
        let no_move = self.has_moved(one) == self.has_moved(other);
        no_move
            && self.kicks().all(|kick| {
                let before = |given: Delivered| given.pop.end <= kick.start;
                let after = |given: Delivered| is_before(kick, given.pop);
                (before(one) && before(other)) || (after(one) && after(other))
            })
    }

    /// Returns the start of the last kick that certainly made the dead job ready before this
    /// delivery.
    pub fn last_effective_kick(&self, given: Delivered) -> Option<Time> {
        let kicks = self.kicks().filter(|kick| is_before(kick, given.pop));
        let effective = kicks.filter(|kick| {
            let is_dead = |act: &Call| act.fate() == Some(Fate::Dead);
            let buried = |act: &&&Call| {
                matches!(act.ask, Ask::Bury { .. }) && is_dead(act) && is_before(act, kick)
            };
            // Another kick may have made the job ready instead.
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
