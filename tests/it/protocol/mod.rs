//! A small model of the protocol, all of whose states are explored: two servers, three consumers,
//! two jobs, lost replies and hints, crashing servers, and time. The core decides on changes, ends
//! of attempts and passed deadlines; puts, pops and promotions follow its state table.
//!
//! One call to the store is one step, since the real call is one script or one transaction.

mod explore;
mod world;

use delay_queue::job::State;

use self::explore::explore;
use self::world::{Rules, Verb, Wrong};

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
fn each_wrong_state_breaks_its_promise() {
    use State::{Dead, Delayed, Ready, Reserved};
    use Verb::{Finish, Overdue, Pop, Release};
    let states: [(Wrong, &str); 6] = [
        (
            |from, verb, _| ((from, verb) == (Reserved, Pop)).then_some(Some(Reserved)),
            "two holders",
        ),
        (|from, verb, _| ((from, verb) == (Delayed, Pop)).then_some(Some(Reserved)), "early"),
        (
            |from, verb, to| {
                (from == Reserved && verb == Overdue && to != Some(from)).then_some(None)
            },
            "lost",
        ),
        (|_, verb, _| (verb == Release).then_some(None), "lost"),
        (|_, verb, _| (verb == Finish).then_some(Some(Ready)), "after its finish"),
        (
            |from, verb, to| {
                ((from, verb, to) == (Reserved, Overdue, Some(Dead))).then_some(Some(Ready))
            },
            "more often than max_attempts",
        ),
    ];
    for (wrong, promise) in states {
        breaks(&Rules { wrong: Some(wrong), ..REAL }, promise);
    }
    let wrong: Wrong = |from, verb, to| {
        ((from, verb, to) == (Reserved, Overdue, Some(Reserved))).then_some(Some(Dead))
    };
    breaks(&Rules { wrong: Some(wrong), ..EXPIRING }, "dies while it is held");
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
