//! Rules on moves: a job that dies is ready in the topic that its `dead_to` names, at most once,
//! and nowhere else.

use crate::faults::judge::{
    LATE, Object, Trouble,
    expiry::earliest,
    job::{Delivered, Job, is_before, reservation},
};
use crate::faults::prelude::*;

/// The topic to which a job moves when it dies.
#[derive(Clone, Copy)]
pub struct DeadTo {
    target: &'static str,
    /// Whether the job certainly got this setting at its put.
    is_certain: bool,
}

/// The settings of `dead_to` in a history. Each topic has only one target.
#[derive(Default)]
pub struct Settings {
    targets: HashMap<&'static str, &'static str>,
    /// The time since which each server certainly gives the target to the jobs of a topic.
    certain_since: HashMap<(&'static str, usize), Time>,
}

impl Settings {
    pub fn of(calls: &[Call]) -> Self {
        let mut settings = Self::default();
        for call in calls {
            let Ask::SetDeadTo { topic, target, server } = call.ask else { continue };
            // A refused call does not prove that no earlier history has set the same target.
            settings.targets.insert(topic, target);
            if call.done() {
                let since = settings.certain_since.entry((topic, server)).or_insert(call.end);
                *since = call.end.min(*since);
            }
        }
        settings
    }

    /// Returns the setting that a job with these puts has or may have.
    pub fn at(&self, puts: &[&Call]) -> Option<DeadTo> {
        let target = *self.targets.get(puts.first().and_then(|put| topic_of(put))?)?;
        let is_certain = puts.iter().all(|put| match put.ask {
            Ask::Put { topic, server, .. } => {
                self.certain_since.get(&(topic, server)).is_some_and(|since| *since <= put.start)
            }
            _ => false,
        });
        Some(DeadTo { target, is_certain })
    }
}

fn topic_of(put: &Call) -> Option<&'static str> {
    match put.ask {
        Ask::Put { topic, .. } => Some(topic),
        _ => None,
    }
}

impl<'a> Job<'a> {
    /// Returns whether the job had left the topic of its put before this delivery.
    pub fn has_moved(&self, given: Delivered) -> bool {
        self.is_elsewhere(given.job.topic)
    }

    /// Returns whether the job is stored in another topic than that of its put.
    pub fn is_stored_elsewhere(&self) -> bool {
        self.stored.and_then(stored_topic).is_some_and(|topic| self.is_elsewhere(topic))
    }

    fn is_elsewhere(&self, topic: &str) -> bool {
        self.puts.first().and_then(|put| topic_of(put)).is_some_and(|first| first != topic)
    }

    /// Returns a time after which the job moved, if it had moved before this delivery.
    pub fn moved_after(&self, given: Delivered) -> Option<Time> {
        if !self.has_moved(given) {
            return None;
        }
        let before = self.deliveries.iter().filter(|one| !self.has_moved(**one));
        before.map(|one| one.pop.start).max()
    }

    /// Returns the answers of releases and burials by which the job has moved.
    fn moving_calls(&self) -> impl Iterator<Item = &'a Call> {
        self.acts.iter().copied().filter(|act| matches!(act.fate(), Some(Fate::Moved(_))))
    }

    /// Returns the time by which the job had certainly moved.
    fn moved_by(&self) -> Option<Time> {
        let moved = self.deliveries.iter().filter(|given| self.has_moved(**given));
        moved.map(|given| given.pop.end).chain(self.moving_calls().map(|call| call.end)).min()
    }

    /// Returns whether a delivery, an answer or the scan shows that the job has moved.
    pub fn has_certainly_moved(&self) -> bool {
        self.moved_by().is_some() || self.is_stored_elsewhere()
    }

    /// Returns whether the job may have died in its first topic before this time.
    fn may_have_died(&self, trouble: &Trouble, until: Time, wrong_clock: &[(Time, Time)]) -> bool {
        let limit = self.max_attempts();
        let first = || self.deliveries.iter().copied().filter(|given| !self.has_moved(*given));
        let is_spent = first().any(|given| given.job.attempt >= limit && !self.is_uncounted(given));
        let acts = || self.possibly_applied().filter(|act| act.start < until);
        // The reservation of an unknown delivery may be of either topic.
        let buries = |act: &Call| {
            let held = self.held_by(act);
            matches!(act.ask, Ask::Bury { .. }) && held.is_none_or(|held| !self.has_moved(held))
        };
        // A release expires the job if it puts the next attempt off for too long.
        let delays = acts().filter_map(|act| match act.ask {
            Ask::Release { delay, .. } => Some(delay),
            _ => None,
        });
        let longest = delays.max().unwrap_or_default();
        let may_have_expired =
            || earliest(self, wrong_clock).is_some_and(|at| at <= until + longest);
        let put = self.puts.iter().map(|put| put.start).min().unwrap_or_default();
        is_spent || acts().any(buries) || may_have_expired() || trouble.between(put, until)
    }
}

fn stored_topic(stored: &Stored) -> Option<&str> {
    stored.sets.first()?.rsplit(':').next()
}

/// Requires that each delivery is of a topic of its pop, and that the job is in the topic of its
/// put or in the target of this topic.
pub fn topics(job: &Job, object: &mut impl Object) {
    let Some(first) = job.puts.first().and_then(|put| topic_of(put)) else { return };
    let is_known =
        |topic: &str| topic == first || job.dead_to.is_some_and(|dead_to| dead_to.target == topic);
    for given in &job.deliveries {
        let (topic, Ask::Pop { topic: asked, .. }) = (given.job.topic, &given.pop.ask) else {
            continue;
        };
        if !is_known(topic) || !asked.split(',').any(|asked| asked == topic) {
            let what = format!("put into {first}, delivered from {topic} by a pop of {asked}");
            object(Rule::OtherTopic, what);
        }
    }
    for set in job.stored.iter().flat_map(|stored| &stored.sets) {
        if !set.rsplit(':').next().is_some_and(is_known) {
            object(Rule::OtherTopic, format!("put into {first}, stored in {set}"));
        }
    }
}

/// Requires a reason for a move, and that no job returns from it. `end` is the end of the last
/// call.
pub fn moves(
    job: &Job,
    (trouble, end): (&Trouble, Time),
    wrong_clock: &[(Time, Time)],
    object: &mut impl Object,
) {
    let Some(dead_to) = job.dead_to else { return };
    let moved_by = job.moved_by();
    for &given in job.deliveries.iter().filter(|given| !job.has_moved(**given)) {
        let (start, topic) = (given.pop.start, given.job.topic);
        // The number of a delivery may show that it came after the consumer whose call moved the
        // job.
        let is_later = |call: &Call| {
            let held = job.held_by(call).filter(|_| given.pop.end > call.start);
            held.is_some_and(|held| job.is_after(given, held))
        };
        if moved_by.is_some_and(|by| start >= by) || job.moving_calls().any(is_later) {
            let what = format!("delivered from {topic} at {start:?}, moved by {moved_by:?}");
            object(Rule::OtherTopic, what);
        }
    }
    let moved = job.deliveries.iter().filter(|given| job.has_moved(**given));
    let delivered = moved.map(|given| given.pop.end).min();
    let seen = delivered.or(job.is_stored_elsewhere().then_some(end + LATE));
    if seen.is_some_and(|by| !job.may_have_died(trouble, by, wrong_clock)) {
        object(Rule::OtherTopic, format!("in {} without a reason to die", dead_to.target));
    }
    let Some(stored) = job.stored.filter(|_| !job.is_stored_elsewhere()) else { return };
    if moved_by.is_some() {
        object(Rule::OtherTopic, format!("moved by {moved_by:?}, stored in {:?}", stored.sets));
    } else if stored.is_dead() && dead_to.is_certain {
        object(Rule::NotMoved, format!("stays dead: {stored:?}"));
    }
}

/// Requires that the answers of releases and burials agree with the setting of the job, and that a
/// move ends the reservation.
pub fn answers(job: &Job, wrong_clock: &[(Time, Time)], object: &mut impl Object) {
    let limit = job.max_attempts();
    for call in &job.acts {
        let (name, at, held) = (call.ask.name(), call.end, job.held_by(call));
        let is_first = held.is_none_or(|held| !job.has_moved(held));
        let must_move = job.dead_to.is_some_and(|dead_to| dead_to.is_certain);
        match call.fate() {
            Some(Fate::Moved(topic)) => {
                if !is_first || job.dead_to.is_none_or(|dead_to| dead_to.target != topic) {
                    object(Rule::OtherTopic, format!("{name} moves it to {topic} at {at:?}"));
                }
                let spends = held.is_none_or(|held| held.job.attempt >= limit);
                if let Ask::Release { delay, is_counted, .. } = call.ask
                    && !(is_counted && spends)
                    && earliest(job, wrong_clock).is_none_or(|expiry| expiry > at + delay)
                {
                    object(Rule::OtherTopic, format!("{name} moves it before its last attempt"));
                }
            }
            Some(Fate::Dead) if held.is_some() && is_first && must_move => {
                object(Rule::NotMoved, format!("{name} at {at:?} says that it stays dead"));
            }
            _ => {}
        }
        let moved = job.moving_calls().any(|mover| is_before(mover, call));
        if moved && call.done() && reservation(call).is_some() && held.is_some() && is_first {
            object(Rule::StaleAccepted, format!("{name} at {at:?} by a hold that a move ended"));
        }
    }
    if job.moving_calls().count() > 1 {
        object(Rule::OtherTopic, "moved twice".to_owned());
    }
}
