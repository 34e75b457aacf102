//! A fixed workload of 70 steps with every transition, and the model's state after each step. After
//! a crash or damage, tests compare a store with this state: every field of every job, topics and
//! their counts, pauses, defaults and access tokens.

mod found;
mod runs;
mod world;

use crate::store::prelude::*;

pub use self::{
    found::{Found, settle},
    runs::{Random, ballast, folder, on_all_cores, open},
    world::{World, defaults},
};
pub use super::{calls::Step, equivalence::run_step};

pub fn put(name: u8, topic: &str, delay: u64) -> NewJob {
    NewJob {
        schedule: Schedule::In(Millis::new(delay * STEP)),
        ..with(job(&format!("job:{name}"), topic), |policy| {
            (policy.ttr, policy.dead_retention) = (Millis::new(32 * STEP), Millis::new(200 * STEP));
        })
    }
}

/// Returns a body of more than one page.
pub fn long(letter: char) -> bytes::Bytes {
    format!("\"{}\"", letter.to_string().repeat(4_500)).into()
}

fn once(name: u8) -> NewJob {
    with(put(name, "t0", 0), |policy| policy.max_attempts = 1)
}

pub fn pop(topic: u8) -> Step {
    Step::Pop { topic, ttr: None, is_named: false }
}

pub fn pass(steps: u64) -> Step {
    Step::Pass(steps * STEP)
}

/// Finishes a job with a result of this length.
pub fn finish(name: u8, result: Option<usize>) -> Step {
    Step::Finish(name, ReservationChoice::Last, result)
}

pub fn restore(name: u8, topic: u8, state: State, attempt: u32) -> Step {
    Step::Restore { name, topic, state, attempt }
}

pub fn creation(name: &str) -> Step {
    let text = format!("{{\"of\":\"{name}\"}}");
    Step::Token(TokenChange::Create { name: name.to_owned(), text, is_admin: true })
}

pub fn revocation(name: &str) -> Step {
    Step::Token(TokenChange::Revoke { name: name.to_owned() })
}

pub fn steps() -> Vec<Step> {
    use ReservationChoice::{ById, Last};
    let keep = NewJob { on_conflict: OnConflict::Keep, ..put(1, "t0", 0) };
    let replace = NewJob { on_conflict: OnConflict::Replace, ..put(2, "t0", 30) };
    let waits = |name| with(put(name, "t0", 0), |rules| rules.backoff = Some(backoff("list:512")));
    let change = Change {
        schedule: Some(Schedule::In(Millis::new(50 * STEP))),
        ..changing(|policy| {
            (policy.ttr, policy.max_attempts) = (Some(Millis::new(20 * STEP)), Some(3));
            policy.backoff = Some(Some(backoff("exp:128:2:4096:0")));
        })
    };
    let retention = Millis::new(100 * STEP);
    vec![
        Step::Puts(vec![put(0, "t0", 0)]),
        Step::Puts(vec![
            put(1, "t0", 10),
            put(2, "t0", 20),
            put(3, "t1", 0),
            NewJob { body: long('a'), ..put(4, "t1", 1) },
        ]),
        Step::Puts(vec![keep]),
        Step::Puts(vec![replace]),
        pop(0),
        Step::Touch(0, Last, Some(40 * STEP)),
        finish(0, None),
        pop(1),
        released(3, Last, Some(5 * STEP)),
        pass(8),
        Step::Promote,
        pop(1),
        Step::Bury(4, Last),
        Step::Kick(4),
        Step::Pop { topic: 1, ttr: Some(16 * STEP), is_named: true },
        pass(20),
        Step::Promote,
        pop(1),
        Step::Unpop(4),
        creation("alice"),
        creation("bob"),
        Step::Used("alice", 1_800_000_000_123),
        revocation("bob"),
        Step::Pause(0, true),
        Step::Pause(0, false),
        Step::PauseFor(1, 30 * STEP),
        Step::Defaults(0, Some(7_000)),
        Step::Defaults(1, Some(8_000)),
        Step::Defaults(1, None),
        pass(40),
        Step::EndPause(1),
        Step::Reschedule(2, Box::new(change)),
        Step::Reschedule(2, Box::new(Change { body: Some(long('b')), ..Change::default() })),
        Step::Delete(1, Some(15), None),
        Step::Puts(vec![once(5), once(6), put(7, "t0", 0)]),
        pop(0),
        pop(0),
        pass(40),
        Step::Promote,
        Step::KickDead(0, 1),
        Step::Purge(0, State::Dead, 9),
        restore(8, 1, State::Delayed, 2),
        restore(9, 1, State::Reserved, 1),
        Step::Checkpoint,
        Step::Puts(vec![put(10, "t0", 0), put(11, "t0", 5)]),
        pop(0),
        released(7, Last, None),
        Step::Reopen,
        pop(0),
        released(5, ById, Some(0)),
        Step::Puts(vec![waits(12)]),
        pop(1),
        Step::Bury(4, ById),
        pass(300),
        Step::Promote,
        pop(0),
        Step::Puts(vec![
            NewJob { on_conflict: OnConflict::Replace, ..put(12, "t0", 9) },
            put(13, "t1", 3),
        ]),
        Step::Defaults(0, Some(9_000)),
        Step::Kick(13),
        Step::Delete(12, None, None),
        Step::Puts((14..18).map(|name| kept(put(name, "t2", 0), retention)).collect()),
        pop(2),
        finish(14, Some(20)),
        pop(2),
        finish(15, Some(5_000)),
        Step::Delete(16, None, Some(200 * STEP)),
        Step::Puts(vec![NewJob { on_conflict: OnConflict::Replace, ..put(14, "t2", 0) }]),
        restore(18, 2, State::Finished, 0),
        pass(100),
        Step::Promote,
    ]
}

#[test]
fn every_step_of_the_workload_changes_something() {
    let steps = steps();
    assert_eq!(steps.len(), 70);
    let worlds = World::all(&steps);
    for (number, pair) in worlds.windows(2).enumerate() {
        let [before, after] = pair else { unreachable!("windows of two") };
        let said = format!("step {number}, {:?}: {}", steps[number], after.answer());
        assert!(!said.contains("Err("), "{said}");
        assert!(!["false", "0", "[]"].contains(&after.answer()), "{said}");
        let found = |world: &World| world.found(world.now(), Reservation::from_bits);
        let only_time = matches!(
            steps[number],
            Step::Checkpoint | Step::Promote | Step::Reopen | Step::Pass(_)
        );
        let kept = after.answer().contains("Kept");
        let same = Found { ..found(before) } == Found { ..found(after) };
        assert!(only_time || kept || !same, "{said}");
    }
    let promotes = worlds[1..].iter().zip(&steps);
    let promotes = promotes.filter(|(_, step)| matches!(step, Step::Promote));
    let promoted: Vec<&str> = promotes.map(|(world, _)| world.answer()).collect();
    // Jobs that became ready, expired and died, dead jobs that were removed, and jobs that moved.
    let expected = [
        "(2, 0, 0, 0, 0)",
        "(2, 1, 0, 0, 0)",
        "(0, 2, 2, 0, 0)",
        "(2, 0, 0, 2, 0)",
        "(1, 1, 0, 0, 0)",
    ];
    assert_eq!(promoted, expected);
}
