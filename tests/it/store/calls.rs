//! Random steps, and their conversion into calls to a store. `equivalence.rs` makes them.

use proptest::{option::of as option_of, prelude::*};

use crate::store::prelude::*;
use crate::store::restore;

/// A call, or a change of the time. Names and topics are numbers, and spans are in milliseconds.
#[derive(Debug, Clone)]
pub enum Step {
    Puts(Vec<NewJob>),
    Pop {
        topic: u8,
        ttr: Option<u64>,
        is_named: bool,
    },
    Unpop(u8),
    /// The result has this length.
    Finish(u8, ReservationChoice, Option<usize>),
    /// The new body has a length of `body`.
    Release(u8, ReservationChoice, ReleaseRules),
    Touch(u8, ReservationChoice, Option<u64>),
    Bury(u8, ReservationChoice),
    Kick(u8),
    /// With a mask of states, see [`states`](super::bench::states), and the time to remember.
    Delete(u8, Option<u8>, Option<u64>),
    Reschedule(u8, Box<Change>),
    Pass(u64),
    Promote,
    Purge(u8, State, usize),
    KickDead(u8, usize),
    KickMatching {
        topic: u8,
        state: State,
        filter: u8,
        limit: usize,
    },
    PurgeMatching {
        topic: u8,
        state: State,
        filter: u8,
        limit: usize,
    },
    Restore {
        name: u8,
        topic: u8,
        state: State,
        attempt: u32,
    },
    Reopen,
    Pause(u8, bool),
    PauseFor(u8, u64),
    EndPause(u8),
    Defaults(u8, Option<u64>),
    Token(TokenChange),
    Used(&'static str, u64),
    /// Changes no job. The store checkpoints its log into its file.
    Checkpoint,
}

#[derive(Debug, Clone, Copy)]
pub struct ReleaseRules {
    pub delay: Option<u64>,
    pub is_uncounted: bool,
    pub body: Option<usize>,
}

/// Which of the reservations of a job a call uses.
#[derive(Debug, Clone, Copy)]
pub enum ReservationChoice {
    Last,
    Earlier,
    ById,
}

impl Step {
    /// Returns the reservation that the call uses, out of the `given` ones; `none` if it has none.
    pub fn reservation<R: Copy>(&self, given: &[(JobId, R)], none: R) -> Option<R> {
        let (name, hold) = match self {
            Self::Finish(name, hold, _) | Self::Touch(name, hold, _) => (name, *hold),
            Self::Release(name, hold, _) | Self::Bury(name, hold) => (name, *hold),
            Self::Unpop(name) => (name, ReservationChoice::Last),
            _ => return None,
        };
        let mine = given.iter().rev().filter(|(id, _)| *id == numbered(*name));
        let mut mine = mine.map(|(_, reservation)| *reservation);
        match hold {
            ReservationChoice::ById => None,
            ReservationChoice::Last => mine.next().or(Some(none)),
            ReservationChoice::Earlier => mine.nth(1).or(Some(none)),
        }
    }
}

/// Returns the id of a job of the calls.
pub fn numbered(name: u8) -> JobId {
    id(&format!("job:{name}"))
}

/// Returns a topic of the calls.
pub fn topic_of(number: u8) -> Topic {
    topic(&format!("t{number}"))
}

fn span(range: std::ops::Range<u64>) -> impl Strategy<Value = u64> {
    range.prop_map(|steps| steps * STEP)
}

fn delay() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), span(1..80)]
}

fn priority() -> impl Strategy<Value = Priority> {
    let digit = prop_oneof![Just(4_u8), 0..10_u8];
    digit.prop_map(|digit| Priority::new(digit).expect("a digit"))
}

fn expiry() -> impl Strategy<Value = Option<Millis>> {
    option_of(span(1..60).prop_map(Millis::new))
}

pub fn step() -> impl Strategy<Value = Step> {
    let name = || 0..5_u8;
    let topic = || 0..2_u8;
    let state = || (0..5_usize).prop_map(|number| State::ALL[number]);
    let ttr = || option_of(span(16..60));
    let length = || option_of(prop_oneof![Just(1_usize), Just(4_096), Just(4_097)]);
    let hold = || {
        let [last, earlier] = [ReservationChoice::Last, ReservationChoice::Earlier];
        prop_oneof![4 => Just(last), 1 => Just(earlier), 2 => Just(ReservationChoice::ById)]
    };
    prop_oneof![
        4 => put(name(), topic()),
        5 => (topic(), ttr(), any::<bool>())
            .prop_map(|(topic, ttr, is_named)| Step::Pop { topic, ttr, is_named }),
        1 => name().prop_map(Step::Unpop),
        3 => (name(), hold(), length()).prop_map(|(name, hold, result)| Step::Finish(name, hold, result)),
        3 => (name(), hold(), option_of(delay()), any::<bool>(), length()).prop_map(
            |(name, hold, delay, is_uncounted, body)| {
                Step::Release(name, hold, ReleaseRules { delay, is_uncounted, body })
            }
        ),
        2 => (name(), hold(), ttr()).prop_map(|(name, hold, ttr)| Step::Touch(name, hold, ttr)),
        1 => (name(), hold()).prop_map(|(name, hold)| Step::Bury(name, hold)),
        1 => name().prop_map(Step::Kick),
        1 => (name(), option_of(1..32_u8), option_of(span(1..80)))
            .prop_map(|(name, only, remember)| Step::Delete(name, only, remember)),
        2 => (name(), change()).prop_map(|(name, change)| Step::Reschedule(name, Box::new(change))),
        4 => span(0..50).prop_map(Step::Pass),
        5 => Just(Step::Promote),
        1 => (topic(), state(), 1..3_usize)
            .prop_map(|(topic, state, limit)| Step::Purge(topic, state, limit)),
        1 => topic().prop_map(|topic| Step::KickDead(topic, 1)),
        1 => (topic(), any::<bool>(), 0..FILTERS).prop_map(|(topic, is_dead, filter)| {
            let state = if is_dead { State::Dead } else { State::Delayed };
            Step::KickMatching { topic, state, filter, limit: 1 }
        }),
        1 => (topic(), state(), 0..FILTERS, 1..3_usize).prop_map(
            |(topic, state, filter, limit)| Step::PurgeMatching { topic, state, filter, limit }
        ),
        1 => (name(), topic(), state(), 0..3_u32)
            .prop_map(|(name, topic, state, attempt)| Step::Restore { name, topic, state, attempt }),
        1 => Just(Step::Reopen),
    ]
}

/// Unit of all spans, in milliseconds. Call number n is made n ms after a multiple of it, and kicks
/// one job at most. So no two due times are equal, and the order of jobs is determined.
pub const STEP: u64 = 64;
pub const BACKOFFS: [&str; 3] = ["list:512", "list:0,3072", "exp:128:2.0000000000000004:4096:0"];

fn some_backoff() -> impl Strategy<Value = Option<Backoff>> {
    (0..4_usize).prop_map(|index| BACKOFFS.get(index).map(|text| backoff(text)))
}

/// Puts jobs, some of which move to a topic when they die, which may be their own topic.
fn put(
    name: impl Strategy<Value = u8>,
    topic: impl Strategy<Value = u8> + Clone,
) -> impl Strategy<Value = Step> {
    let retention = prop_oneof![1 => Just(0), 2 => span(1..80)].prop_map(Millis::new);
    let conflicts = [OnConflict::Reject, OnConflict::Keep, OnConflict::Replace];
    let place = (name, topic.clone(), delay(), (0..3_usize).prop_map(move |n| conflicts[n]));
    let rules = (0..4_u32, some_backoff(), retention, priority(), expiry(), option_of(topic));
    (place, rules).prop_map(|((name, topic, delay, on_conflict), rules)| {
        let (max_attempts, backoff, finished_retention, priority, expires_after, dead_to) = rules;
        let policy = Policy {
            ttr: Millis::new(32 * STEP),
            max_attempts,
            backoff,
            dead_retention: Millis::new(100 * STEP),
            finished_retention,
            priority,
            expires_after,
            expires_at: None,
            dead_to: dead_to.map(topic_of),
            dead_from: None,
            ..if max_attempts % 2 == 1 { whole_policy() } else { Policy::STANDARD }
        };
        let job = job(numbered(name).as_str(), topic_of(topic).as_str());
        let schedule = Schedule::In(Millis::new(delay));
        Step::Puts(vec![NewJob { schedule, policy, on_conflict, ..job }])
    })
}

fn change() -> impl Strategy<Value = Change> {
    let times = (option_of(delay()), option_of(span(16..60)), option_of(expiry()));
    let rules = (option_of(0..3_u32), option_of(some_backoff()), option_of(priority()));
    (times, rules).prop_map(|((delay, ttr, expires_after), rules)| Change {
        schedule: delay.map(|delay| Schedule::In(Millis::new(delay))),
        ..changing(|fields| {
            (fields.ttr, fields.expires_after) = (ttr.map(Millis::new), expires_after);
            (fields.max_attempts, fields.backoff, fields.priority) = rules;
        })
    })
}

/// Returns a job that another store may have exported.
pub fn stored(call: &Step, now: UnixMillis) -> Job {
    let &Step::Restore { name, topic, state, attempt } = call else {
        unreachable!("called only with restores")
    };
    let (name, topic) = (numbered(name), topic_of(topic));
    let job = restore::stored_at(now, name.as_str(), topic.as_str(), state);
    // No other call creates these due times.
    let least = if state == State::Finished { 0 } else { job.attempt };
    let attempt = attempt.max(least);
    let reservation = (attempt > 0).then_some(Reservation::from_bits(1));
    let policy = Policy { backoff: None, ..job.policy };
    Job { attempt, reservation, policy, ..job }
}

/// Number of filters that [`filter`] knows.
pub const FILTERS: u8 = 6;

/// Returns one of the filters of jobs of this state.
pub fn filter(choice: u8, state: State, now: UnixMillis) -> JobFilter {
    let text = |text: &str| Some(text.to_owned());
    let period = Period { from: Some(now.before(Millis::new(40 * STEP))), before: Some(now) };
    let all = JobFilter::default();
    let in_period = match state {
        State::Dead => JobFilter { died: period, ..all.clone() },
        _ => JobFilter { due: period, ..all.clone() },
    };
    match choice {
        0 => all,
        1 => JobFilter { error_contains: text("released"), ..all },
        2 => JobFilter { error_contains: text("expired"), ..all },
        3 => JobFilter { id_contains: text("b:1"), ..all },
        4 => JobFilter { error_contains: text("ttr e"), id_contains: text("job"), ..in_period },
        _ => in_period,
    }
}

/// Returns a release that counts the attempt and keeps the body.
pub fn released(name: u8, hold: ReservationChoice, delay: Option<u64>) -> Step {
    Step::Release(name, hold, ReleaseRules { delay, is_uncounted: false, body: None })
}

impl ReleaseRules {
    /// Returns the release of this job.
    pub fn release(self, held: JobRef) -> Release {
        Release {
            held,
            delay: self.delay.map(Millis::new),
            error: Some("released".to_owned()),
            is_uncounted: self.is_uncounted,
            body: result(self.body),
        }
    }
}

/// Returns an answer as text, by which the stores are compared with the model.
pub fn said(answer: impl std::fmt::Debug) -> String {
    format!("{answer:?}")
}

/// Returns a result or a body of this length.
pub fn result(length: Option<usize>) -> Option<Bytes> {
    length.map(|length| "1".repeat(length).into())
}
