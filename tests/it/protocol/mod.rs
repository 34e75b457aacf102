//! A small model of the protocol, explored to its end: two servers, three consumers, two jobs, lost
//! replies and hints, crashing servers, and time. The states of a job are those of the real table.
//!
//! One call to the store is one step here, as it is one script or one transaction there.

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
};

#[test]
fn every_order_of_events_keeps_the_promises() {
    let explored = explore(&REAL).unwrap_or_else(|broken| panic!("{broken}"));
    let Explored { states, steps } = explored;
    println!("{states} states, {steps} steps");
    assert!(states > 100_000, "{states} states are no exploration");
}

#[test]
fn hints_alone_are_enough_while_none_is_lost() {
    let rules = Rules { polls: false, has_losses: false, reservations: 2, ..REAL };
    explore(&rules).map(drop).unwrap_or_else(|broken| panic!("{broken}"));
}

/// Asserts that the explorer finds this promise broken under rules that are wrong on purpose.
#[track_caller]
fn breaks(rules: &Rules, promise: &str) {
    let broken = explore(rules).err().unwrap_or_else(|| panic!("nothing is noticed: {promise}"));
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
fn a_promote_that_does_not_look_at_the_time_is_early() {
    breaks(&Rules { judges_time: false, ..REAL }, "early");
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
fn a_finish_without_a_fence_takes_the_job_from_its_holder() {
    breaks(&Rules { fenced: false, ..REAL }, "for its holder");
}

#[test]
fn a_change_that_leaves_the_hold_lets_a_late_consumer_undo_it() {
    breaks(&Rules { change_ends_hold: false, ..REAL }, "from before its change");
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
fn without_polls_a_lost_hint_leaves_a_job_behind() {
    breaks(&Rules { polls: false, ..REAL }, "stuck");
}
