//! A small model of the protocol, all of whose states are explored: two servers, three consumers,
//! two jobs, lost replies and hints, crashing servers, and time. It uses the real state table of
//! jobs.
//!
//! One call to the store is one step, since the real call is one script or one transaction.

mod explore;
mod world;

use delay_queue::job::{After, Event, State};

use self::explore::explore;
use self::world::{Is, Rules};

const REAL: Rules = Rules {
    wrong: None,
    fenced: true,
    judges_time: true,
    polls: true,
    has_losses: true,
    change_ends_hold: true,
    reservations: 3,
    ttr: 1,
    expires: false,
    pops_expire: true,
    uncounted_ends: false,
};

/// The real rules for a job that expires, also while it is held, and that is released uncounted.
/// With fewer reservations, the exploration ends as soon as that of the others.
const EXPIRING: Rules = Rules { expires: true, ttr: 2, reservations: 2, ..REAL };

#[test]
fn every_order_of_events_keeps_the_promises() {
    for (rules, least) in [(&REAL, 100_000), (&EXPIRING, 10_000)] {
        let states = explore(rules).unwrap_or_else(|broken| panic!("{broken}"));
        assert!(states > least, "only {states} states were explored; expected more than {least}");
    }
}

#[test]
fn hints_alone_are_enough_while_none_is_lost() {
    let rules = Rules { polls: false, has_losses: false, reservations: 2, ..REAL };
    explore(&rules).map(drop).unwrap_or_else(|broken| panic!("{broken}"));
}

/// Asserts that the search finds this promise broken under deliberately wrong rules.
#[track_caller]
fn breaks(rules: &Rules, promise: &str) {
    let broken = explore(rules)
        .err()
        .unwrap_or_else(|| panic!("no broken promise was found; expected {promise:?}"));
    assert!(broken.promise.contains(promise), "expected {promise:?}, found {broken}");
}

#[test]
fn each_wrong_entry_of_the_table_breaks_its_promise() {
    use State::{Dead, Ready, Reserved};
    let entries: [(Is, Option<State>, &str); 6] = [
        (|state, event| (state, event) == (Reserved, Event::Pop), Some(Reserved), "two holders"),
        (|state, event| (state, event) == (State::Delayed, Event::Pop), Some(Reserved), "early"),
        (|state, event| state == Reserved && matches!(event, Event::Promote(_)), None, "lost"),
        (|_, event| matches!(event, Event::Release(_)), None, "lost"),
        (|_, event| matches!(event, Event::Finish { .. }), Some(Ready), "after its finish"),
        (
            |state, event| (state, event) == (Reserved, Event::Promote(After::Spent)),
            Some(Ready),
            "more often than max_attempts",
        ),
    ];
    for (is_wrong, becomes, promise) in entries {
        breaks(&Rules { wrong: Some((is_wrong, becomes)), ..REAL }, promise);
    }
    let is_wrong: Is = |state, event| state == Reserved && matches!(event, Event::Expire { .. });
    breaks(&Rules { wrong: Some((is_wrong, Some(Dead))), ..EXPIRING }, "dies while it is held");
}

#[test]
fn each_missing_rule_breaks_its_promise() {
    breaks(&Rules { judges_time: false, ..REAL }, "early");
    breaks(&Rules { fenced: false, ..REAL }, "for its holder");
    breaks(&Rules { change_ends_hold: false, ..REAL }, "from before its change");
    breaks(&Rules { polls: false, ..REAL }, "stuck");
    breaks(&Rules { pops_expire: false, ..EXPIRING }, "after its expiry");
    breaks(&Rules { uncounted_ends: true, ..EXPIRING }, "that does not count");
}
