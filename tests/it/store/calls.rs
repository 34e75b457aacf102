//! Random calls of `equivalence.rs`.

use bytes::Bytes;
use delay_queue::job::{
    Backoff, Change, Job, Millis, NewJob, OnConflict, Policy, PolicyFields, Reservation, Schedule,
    State, UnixMillis,
};
use proptest::prelude::*;

use crate::store::{
    bench::{job, whole_policy},
    restore,
};

#[derive(Debug, Clone)]
pub enum Call {
    Put {
        name: u8,
        topic: u8,
        delay: u64,
        max_attempts: u32,
        backoff: u8,
        on_conflict: u8,
        /// How long it is kept after its finish.
        retention: u64,
    },
    Pop {
        topic: u8,
        ttr: Option<u64>,
        /// Whether its consumer has a name.
        is_named: bool,
    },
    Unpop {
        name: u8,
    },
    Finish {
        name: u8,
        hold: Hold,
        /// Length of the result.
        result: Option<usize>,
    },
    Release {
        name: u8,
        hold: Hold,
        delay: Option<u64>,
    },
    Touch {
        name: u8,
        hold: Hold,
        ttr: Option<u64>,
    },
    Bury {
        name: u8,
        hold: Hold,
    },
    Kick {
        name: u8,
    },
    Delete {
        name: u8,
        /// States as a mask.
        only: Option<u8>,
        remember: Option<u64>,
    },
    Reschedule {
        name: u8,
        delay: Option<u64>,
        ttr: Option<u64>,
        max_attempts: Option<u32>,
        backoff: Option<u8>,
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
    Restore {
        name: u8,
        topic: u8,
        state: usize,
        attempt: u32,
    },
    Reopen,
}

/// Choice among the reservations that a job has had.
#[derive(Debug, Clone, Copy)]
pub enum Hold {
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
    let hold =
        || prop_oneof![4 => Just(Hold::Last), 1 => Just(Hold::Earlier), 2 => Just(Hold::ById)];
    prop_oneof![
        4 => (name(), topic(), delay(), 0..4_u32, 0..4_u8, 0..3_u8, retention()).prop_map(
            |(name, topic, delay, max_attempts, backoff, on_conflict, retention)| {
                Call::Put { name, topic, delay, max_attempts, backoff, on_conflict, retention }
            }
        ),
        5 => (topic(), ttr(), any::<bool>())
            .prop_map(|(topic, ttr, is_named)| Call::Pop { topic, ttr, is_named }),
        1 => name().prop_map(|name| Call::Unpop { name }),
        3 => (name(), hold(), result())
            .prop_map(|(name, hold, result)| Call::Finish { name, hold, result }),
        2 => (name(), hold(), proptest::option::of(delay()))
            .prop_map(|(name, hold, delay)| Call::Release { name, hold, delay }),
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
        )
            .prop_map(|(name, delay, ttr, max_attempts, backoff)| {
                Call::Reschedule { name, delay, ttr, max_attempts, backoff }
            }),
        4 => span(0..50).prop_map(|millis| Call::Pass { millis }),
        5 => Just(Call::Promote),
        1 => (topic(), 0..5_usize, 1..3_usize)
            .prop_map(|(topic, state, limit)| Call::Purge { topic, state, limit }),
        1 => (topic(), 1..2_usize).prop_map(|(topic, limit)| Call::KickDead { topic, limit }),
        1 => (name(), topic(), 0..5_usize, 0..3_u32)
            .prop_map(|(name, topic, state, attempt)| Call::Restore { name, topic, state, attempt }),
        1 => Just(Call::Reopen),
    ]
}

/// Unit in milliseconds of all spans; call number n is made n ms after a multiple of it. So no two
/// due times are equal, and no store has to choose between two.
pub const STEP: u64 = 64;
pub const BACKOFFS: [&str; 3] = ["list:512", "list:0,3072", "exp:128:2.0000000000000004:4096:0"];

fn backoff(index: u8) -> Option<Backoff> {
    BACKOFFS.get(usize::from(index)).map(|text| text.parse().expect("backoff"))
}

pub fn new_job(call: &Call) -> NewJob {
    let Call::Put { name, topic, delay, max_attempts, backoff, on_conflict, retention } = call
    else {
        unreachable!("asked of puts only")
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
            ..if *max_attempts % 2 == 1 { whole_policy() } else { Policy::STANDARD }
        },
        on_conflict: conflicts[usize::from(*on_conflict)],
        ..job(&format!("job:{name}"), &format!("t{topic}"))
    }
}

/// Returns a job as another store may have had it.
pub fn stored(call: &Call, now: UnixMillis) -> Job {
    let &Call::Restore { name, topic, state, attempt } = call else {
        unreachable!("asked of restores only")
    };
    let state = State::ALL[state];
    let job = restore::stored_at(now, &format!("job:{name}"), &format!("t{topic}"), state);
    // Due at times that no other call makes.
    let least = if state == State::Finished { 0 } else { job.attempt };
    let attempt = attempt.max(least);
    let reservation = (attempt > 0).then_some(Reservation::from_bits(1));
    let policy = Policy { backoff: None, ..job.policy };
    Job { attempt, reservation, policy, ..job }
}

/// Returns a result of this length.
pub fn result(length: Option<usize>) -> Option<Bytes> {
    length.map(|length| "1".repeat(length).into())
}

pub fn change(call: &Call) -> Change {
    let Call::Reschedule { delay, ttr, max_attempts, backoff, .. } = call else {
        unreachable!("asked of reschedules only")
    };
    Change {
        schedule: delay.map(|delay| Schedule::In(Millis::new(delay))),
        policy: PolicyFields {
            ttr: ttr.map(Millis::new),
            max_attempts: *max_attempts,
            backoff: backoff.map(self::backoff),
            ..PolicyFields::default()
        },
        ..Change::default()
    }
}
