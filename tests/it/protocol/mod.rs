//! A small model of the protocol, all of whose states are explored: two servers, three consumers,
//! two jobs, lost replies and hints, crashing servers, and time. It uses the real state table of
//! jobs.
//!
//! One call to the store is one step, since the real call is one script or one transaction.

mod explore;
mod world;

use delay_queue::job::{After, Event, State, next};

use self::{
    explore::{Explored, explore},
    world::Rules,
};

const REAL: Rules = Rules {
    table: next,
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
        let explored = explore(rules).unwrap_or_else(|broken| panic!("{broken}"));
        let Explored { states, steps } = explored;
        println!("{states} states, {steps} steps");
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
fn a_pop_of_a_reserved_job_makes_two_holders() {
    let table = |state, event| match (state, event) {
        (Some(State::Reserved), Event::Pop) => Ok(Some(State::Reserved)),
        _ => next(state, event),
    };
    breaks(&Rules { table, ..REAL }, "two holders");
}

#[test]
fn a_pop_of_a_delayed_job_is_early() {
    let table = |state, event| match (state, event) {
        (Some(State::Delayed), Event::Pop) => Ok(Some(State::Reserved)),
        _ => next(state, event),
    };
    breaks(&Rules { table, ..REAL }, "early");
}

#[test]
fn an_expired_job_that_goes_is_lost() {
    let table = |state, event| match (state, event) {
        (Some(State::Reserved), Event::Promote(_)) => Ok(None),
        _ => next(state, event),
    };
    breaks(&Rules { table, ..REAL }, "lost");
}

#[test]
fn a_release_that_ends_a_job_loses_it() {
    let table = |state: Option<State>, event| match event {
        Event::Release(_) if state.is_some() => Ok(None),
        _ => next(state, event),
    };
    breaks(&Rules { table, ..REAL }, "lost");
}

#[test]
fn a_finish_that_leaves_the_job_is_delivered_again() {
    let table = |state, event| match (state, event) {
        (Some(_), Event::Finish { .. }) => Ok(Some(State::Ready)),
        _ => next(state, event),
    };
    breaks(&Rules { table, ..REAL }, "after its finish");
}

#[test]
fn spent_attempts_that_go_on_are_noticed() {
    let table = |state, event| match (state, event) {
        (Some(State::Reserved), Event::Promote(After::Spent)) => Ok(Some(State::Ready)),
        _ => next(state, event),
    };
    breaks(&Rules { table, ..REAL }, "more often than max_attempts");
}

#[test]
fn an_expiry_that_takes_a_job_from_its_holder_is_noticed() {
    let table = |state, event| match (state, event) {
        (Some(State::Reserved), Event::Expire { .. }) => Ok(Some(State::Dead)),
        _ => next(state, event),
    };
    breaks(&Rules { table, ..EXPIRING }, "dies while it is held");
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
