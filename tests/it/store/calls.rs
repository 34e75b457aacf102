//! Random calls, and their conversion into calls to a store. `equivalence.rs` makes them.

use delay_queue::job::Job;
use proptest::prelude::*;

use crate::store::prelude::*;
use crate::store::restore;

#[derive(Debug, Clone)]
pub enum Call {
    Put {
        name: u8,
        topic: u8,
        delay: u64,
        max_attempts: u32,
        backoff: u8,
        on_conflict: u8,
        /// Retention after the finish, in milliseconds.
        retention: u64,
        priority: u8,
        expires_after: Option<u64>,
        /// Number of the topic to which the job moves when it dies. This may be its own topic.
        dead_to: Option<u8>,
    },
    Pop {
        topic: u8,
        ttr: Option<u64>,
        /// Whether the consumer has a name.
        is_named: bool,
    },
    Unpop {
        name: u8,
    },
    Finish {
        name: u8,
        hold: ReservationChoice,
        /// Length of the result.
        result: Option<usize>,
    },
    Release {
        name: u8,
        hold: ReservationChoice,
        delay: Option<u64>,
        is_uncounted: bool,
        /// Length of the new body.
        body: Option<usize>,
    },
    Touch {
        name: u8,
        hold: ReservationChoice,
        ttr: Option<u64>,
    },
    Bury {
        name: u8,
        hold: ReservationChoice,
    },
    Kick {
        name: u8,
    },
    Delete {
        name: u8,
        /// Mask of states; see [`states`](super::bench::states).
        only: Option<u8>,
        remember: Option<u64>,
    },
    Reschedule {
        name: u8,
        delay: Option<u64>,
        ttr: Option<u64>,
        max_attempts: Option<u32>,
        backoff: Option<u8>,
        priority: Option<u8>,
        expires_after: Option<Option<u64>>,
    },
    Pass {
        millis: u64,
    },
    Promote,
    Purge {
        topic: u8,
        state: usize,
        limit: usize,
    },
    KickDead {
        topic: u8,
        limit: usize,
    },
    KickMatching {
        topic: u8,
        is_dead: bool,
        filter: u8,
        limit: usize,
    },
    PurgeMatching {
        topic: u8,
        state: usize,
        filter: u8,
        limit: usize,
    },
    Restore {
        name: u8,
        topic: u8,
        state: usize,
        attempt: u32,
    },
    Reopen,
}

/// Which of the reservations of a job a call uses.
#[derive(Debug, Clone, Copy)]
pub enum ReservationChoice {
    Last,
    Earlier,
    ById,
}

pub fn call() -> impl Strategy<Value = Call> {
    let name = || 0..5_u8;
    let topic = || 0..2_u8;
    let span = |range: std::ops::Range<u64>| range.prop_map(|steps| steps * STEP);
    let delay = move || prop_oneof![Just(0), span(1..80)];
    let ttr = move || proptest::option::of(span(16..60));
    let retention = move || prop_oneof![1 => Just(0), 2 => span(1..80)];
    let result = || proptest::option::of(prop_oneof![Just(1_usize), Just(4_096), Just(4_097)]);
    let priority = || prop_oneof![Just(4_u8), 0..10_u8];
    let expiry = move || proptest::option::of(span(1..60));
    let hold = || prop_oneof![4 => Just(ReservationChoice::Last), 1 => Just(ReservationChoice::Earlier), 2 => Just(ReservationChoice::ById)];
    prop_oneof![
        4 => (
            (name(), topic(), delay(), 0..4_u32, 0..4_u8, 0..3_u8, retention()),
            priority(),
            expiry(),
            proptest::option::of(topic()),
        )
            .prop_map(|(put, priority, expires_after, dead_to)| {
                let (name, topic, delay, max_attempts, backoff, on_conflict, retention) = put;
                Call::Put {
                    name,
                    topic,
                    delay,
                    max_attempts,
                    backoff,
                    on_conflict,
                    retention,
                    priority,
                    expires_after,
                    dead_to,
                }
            }),
        5 => (topic(), ttr(), any::<bool>())
            .prop_map(|(topic, ttr, is_named)| Call::Pop { topic, ttr, is_named }),
        1 => name().prop_map(|name| Call::Unpop { name }),
        3 => (name(), hold(), result())
            .prop_map(|(name, hold, result)| Call::Finish { name, hold, result }),
        3 => (name(), hold(), proptest::option::of(delay()), any::<bool>(), result()).prop_map(
            |(name, hold, delay, is_uncounted, body)| {
                Call::Release { name, hold, delay, is_uncounted, body }
            }
        ),
        2 => (name(), hold(), ttr()).prop_map(|(name, hold, ttr)| Call::Touch { name, hold, ttr }),
        1 => (name(), hold()).prop_map(|(name, hold)| Call::Bury { name, hold }),
        1 => name().prop_map(|name| Call::Kick { name }),
        1 => (name(), proptest::option::of(1..32_u8), proptest::option::of(span(1..80)))
            .prop_map(|(name, only, remember)| Call::Delete { name, only, remember }),
        2 => (
            name(),
            proptest::option::of(delay()),
            ttr(),
            proptest::option::of(0..3_u32),
            proptest::option::of(0..4_u8),
            proptest::option::of(priority()),
            proptest::option::of(expiry()),
        )
            .prop_map(
                |(name, delay, ttr, max_attempts, backoff, priority, expires_after)| {
                    Call::Reschedule {
                        name,
                        delay,
                        ttr,
                        max_attempts,
                        backoff,
                        priority,
                        expires_after,
                    }
                },
            ),
        4 => span(0..50).prop_map(|millis| Call::Pass { millis }),
        5 => Just(Call::Promote),
        1 => (topic(), 0..5_usize, 1..3_usize)
            .prop_map(|(topic, state, limit)| Call::Purge { topic, state, limit }),
        1 => (topic(), 1..2_usize).prop_map(|(topic, limit)| Call::KickDead { topic, limit }),
        1 => (topic(), any::<bool>(), 0..FILTERS, 1..2_usize).prop_map(
            |(topic, is_dead, filter, limit)| Call::KickMatching { topic, is_dead, filter, limit }
        ),
        1 => (topic(), 0..5_usize, 0..FILTERS, 1..3_usize).prop_map(
            |(topic, state, filter, limit)| Call::PurgeMatching { topic, state, filter, limit }
        ),
        1 => (name(), topic(), 0..5_usize, 0..3_u32)
            .prop_map(|(name, topic, state, attempt)| Call::Restore { name, topic, state, attempt }),
        1 => Just(Call::Reopen),
    ]
}

/// Unit of all spans, in milliseconds. Call number n is made n ms after a multiple of it, and kicks
/// one job at most. So no two due times are equal, and the order of jobs is determined.
pub const STEP: u64 = 64;
pub const BACKOFFS: [&str; 3] = ["list:512", "list:0,3072", "exp:128:2.0000000000000004:4096:0"];

fn backoff(index: u8) -> Option<Backoff> {
    BACKOFFS.get(usize::from(index)).map(|text| text.parse().expect("backoff"))
}

pub fn new_job(call: &Call) -> NewJob {
    let Call::Put {
        name,
        topic,
        delay,
        max_attempts,
        backoff,
        on_conflict,
        retention,
        priority,
        expires_after,
        dead_to,
    } = call
    else {
        unreachable!("called only with puts")
    };
    let conflicts = [OnConflict::Reject, OnConflict::Keep, OnConflict::Replace];
    NewJob {
        schedule: Schedule::In(Millis::new(*delay)),
        policy: Policy {
            ttr: Millis::new(32 * STEP),
            max_attempts: *max_attempts,
            backoff: self::backoff(*backoff),
            dead_retention: Millis::new(100 * STEP),
            finished_retention: Millis::new(*retention),
            priority: Priority::new(*priority).expect("a digit"),
            expires_after: expires_after.map(Millis::new),
            expires_at: None,
            dead_to: dead_to.map(|topic| format!("t{topic}").parse().expect("a topic")),
            dead_from: None,
            ..if *max_attempts % 2 == 1 { whole_policy() } else { Policy::STANDARD }
        },
        on_conflict: conflicts[usize::from(*on_conflict)],
        ..job(&format!("job:{name}"), &format!("t{topic}"))
    }
}

/// Returns a job that another store may have exported.
pub fn stored(call: &Call, now: UnixMillis) -> Job {
    let &Call::Restore { name, topic, state, attempt } = call else {
        unreachable!("called only with restores")
    };
    let state = State::ALL[state];
    let job = restore::stored_at(now, &format!("job:{name}"), &format!("t{topic}"), state);
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
pub fn released(name: u8, hold: ReservationChoice, delay: Option<u64>) -> Call {
    Call::Release { name, hold, delay, is_uncounted: false, body: None }
}

/// Returns the release of a call, with this reservation.
pub fn release(call: &Call, held: JobRef) -> Release {
    let Call::Release { delay, is_uncounted, body, .. } = call else {
        unreachable!("called only with releases")
    };
    Release {
        held,
        delay: delay.map(Millis::new),
        error: Some("released".to_owned()),
        is_uncounted: *is_uncounted,
        body: result(*body),
    }
}

/// Returns a result or a body of this length.
pub fn result(length: Option<usize>) -> Option<Bytes> {
    length.map(|length| "1".repeat(length).into())
}

pub fn change(call: &Call) -> Change {
    let Call::Reschedule { delay, ttr, max_attempts, backoff, priority, expires_after, .. } = call
    else {
        unreachable!("called only with reschedules")
    };
    Change {
        schedule: delay.map(|delay| Schedule::In(Millis::new(delay))),
        policy: PolicyFields {
            ttr: ttr.map(Millis::new),
            max_attempts: *max_attempts,
            backoff: backoff.map(self::backoff),
            priority: priority.and_then(Priority::new),
            expires_after: expires_after.map(|after| after.map(Millis::new)),
            ..PolicyFields::default()
        },
        ..Change::default()
    }
}
