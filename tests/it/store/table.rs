//! Every event in every state, compared with the state table.

use delay_queue::job::{After, Due, Event, next};

use crate::store::prelude::*;

const TOPIC: &str = "t";

pub async fn every_event_in_every_state_does_what_the_table_says(bench: Bench) {
    for state in State::ALL {
        for event in Event::ALL {
            let name = id("job");
            let reservation = arrange(&bench, state, event).await;
            let before = bench.get(&name).await;
            assert_eq!(before.as_ref().map(|job| job.state), Some(state), "{state:?} {event:?}");

            let happened = apply(&bench, &name, event, reservation).await;
            let expected = next(Some(state), event);
            assert_eq!(happened, expected, "{state:?} {event:?}");
            if expected.is_err() {
                assert_eq!(bench.get(&name).await, before, "{state:?} changed by {event:?}");
            }
            let _ = bench.delete(&name).await;
            let left = bench.pop(TOPIC, 1).await;
            assert_eq!(left, [], "a removed job is still ready: {state:?} {event:?}");
        }
    }
}

pub async fn a_delete_leaves_a_job_in_a_state_that_it_excludes(bench: Bench) {
    let name = id("job");
    for (state, remember) in State::ALL.into_iter().flat_map(|s| [(s, None), (s, Some(HOUR))]) {
        for mask in 0..32_u8 {
            let states = states(mask);
            arrange(&bench, state, Event::Delete { kept: false }).await;
            let before = bench.job("job").await;
            let delete = Delete { states: Some(states), remember, ..deletion(&name) };
            let deleted = bench.delete_by(delete).await;
            let left = bench.get(&name).await;
            if states.has(state) {
                assert_eq!(deleted, Ok(state), "{states:?} {remember:?}");
                let ending = left.and_then(|job| job.ending).map(|ending| ending.outcome);
                assert_eq!(ending, remember.map(|_| Outcome::Deleted), "{states:?} {remember:?}");
                // No consumer can pop or finish the deleted job.
                let refusal =
                    if remember.is_some() { Refusal::Finished } else { Refusal::NotFound };
                assert_eq!(bench.finish(&name, before.reservation).await, Err(refusal));
                assert_eq!(bench.pop(TOPIC, 1).await, []);
                let put = bench.put(job("job", TOPIC)).await;
                assert_eq!(put.is_err(), remember.is_some(), "{state:?} {remember:?}: {put:?}");
            } else {
                assert_eq!(deleted, Err(Refusal::WrongState(state)), "{states:?} {remember:?}");
                assert_eq!(left, Some(before), "{states:?} {remember:?}");
            }
            let _ = bench.delete(&name).await;
        }
    }
    let delete = Delete { states: Some(states(31)), ..deletion(&name) };
    assert_eq!(bench.delete_by(delete).await, Err(Refusal::NotFound));
    assert_eq!(bench.records().await, 0);
}

pub async fn every_event_without_a_job_does_what_the_table_says(bench: Bench) {
    for event in Event::ALL {
        let name = id("job");
        let happened = apply(&bench, &name, event, Reservation::from_bits(0x1000)).await;
        let expected = match (event, next(None, event)) {
            // These events act on all jobs of a topic, so without a job they are not refused.
            (Event::Pop | Event::Promote(_) | Event::Expire { .. }, _) => Ok(None),
            (_, expected) => expected,
        };
        assert_eq!(happened, expected, "{event:?}");
        let _ = bench.delete(&name).await;
    }
}

/// Puts a job, pops it once, and brings it into this state and into the circumstances of the event.
/// Returns its last reservation.
async fn arrange(bench: &Bench, state: State, event: Event) -> Reservation {
    let spent = match event {
        Event::Promote(after) | Event::Release(after) => after.dies(),
        _ => false,
    };
    let expires = matches!(event, Event::Expire { .. });
    let moves = matches!(
        event,
        Event::Promote(After::Moved)
            | Event::Release(After::Moved)
            | Event::Expire { moves: true }
            | Event::Bury { moves: true }
    );
    let lapses_later = state == State::Reserved && event == Event::Promote(After::Later);
    let waits = state == State::Delayed || lapses_later;
    let mut new = NewJob { body: text(5_000), ..job("job", TOPIC) };
    let wait = if expires { "list:30000" } else { "list:3600000" };
    new.policy.backoff = waits.then(|| backoff(wait));
    if state == State::Dead || (spent && state == State::Reserved) {
        new.policy.max_attempts = 1;
    }
    if state == State::Finished || event == (Event::Finish { kept: true }) {
        new.policy.finished_retention = HOUR;
    }
    let target = moves.then(|| topic("other"));
    if state != State::Dead {
        new.policy.dead_to = target.clone();
    }
    if expires {
        // The job expires after its TTR, and before any other deadline.
        new.policy.ttr = SECOND;
        new.policy.expires_after = Some(MINUTE);
    }
    let popped = bench.popped(new).await;
    if expires && state == State::Reserved {
        bench.touch(&popped.id, Some(popped.reservation), Some(HOUR)).await.expect("touched");
    }
    match state {
        State::Reserved => {}
        State::Finished => {
            bench.finish(&popped.id, Some(popped.reservation)).await.expect("finished");
        }
        _ => bench.promote_after(if expires { SECOND } else { MINUTE }).await,
    }
    if spent && matches!(state, State::Delayed | State::Ready) {
        // A restore keeps the reservation, which a reschedule would end.
        bench.restored_with(&popped.id, |job| job.policy.max_attempts = 1).await;
    }
    if moves && state == State::Dead {
        // Only a job from another store can be dead with this policy.
        bench.restored_with(&popped.id, |job| job.policy.dead_to = target).await;
    }
    popped.reservation
}

async fn apply(
    bench: &Bench,
    id: &JobId,
    event: Event,
    reservation: Reservation,
) -> Result<Option<State>, Refusal> {
    let delay = |due| match due {
        Due::Now => Millis::ZERO,
        Due::Later => HOUR,
    };
    let hold = Some(reservation);
    match event {
        Event::Put(due) | Event::Replace(due) => {
            let mut new = delayed(id.as_str(), TOPIC, delay(due));
            if matches!(event, Event::Replace(_)) {
                new.on_conflict = OnConflict::Replace;
            }
            let placed = bench.put(new).await.map_err(|refusal| match refusal {
                // The table does not describe topics.
                Refusal::Exists(Some(living)) => {
                    assert_eq!(living.topic.as_str(), TOPIC);
                    Refusal::Exists(None)
                }
                other => other,
            })?;
            assert_eq!(Some(placed.state), bench.state(id).await, "the answer of the put");
        }
        Event::Promote(_) => {
            let span = match bench.state(id).await {
                Some(State::Delayed | State::Finished) => HOUR,
                Some(State::Reserved) => MINUTE,
                Some(State::Dead) => RETENTION,
                Some(State::Ready) | None => Millis::ZERO,
            };
            bench.promote_after(span).await;
        }
        Event::Expire { .. } => bench.promote_after(MINUTE).await,
        Event::Pop => {
            let was = bench.state(id).await;
            if bench.pop(TOPIC, 1).await.is_empty() && was.is_some() {
                return Err(Refusal::NotReady);
            }
        }
        Event::Unpop => drop(bench.unpop(id, reservation).await?),
        Event::Finish { .. } => bench.finish(id, hold).await?,
        Event::Release(after) => {
            let delay = if after == After::Later { HOUR } else { Millis::ZERO };
            let moved = bench.release(id, hold, Some(delay)).await?;
            assert_eq!(Some(moved.state), bench.state(id).await, "the answer of the release");
        }
        Event::Touch => drop(bench.touch(id, hold, None).await?),
        Event::Bury { .. } => bench.bury(id, hold).await?,
        Event::Kick => drop(bench.kick(id).await?),
        Event::Delete { kept } => {
            let remember = kept.then_some(HOUR);
            bench.delete_by(Delete { remember, ..deletion(id) }).await?;
        }
        Event::Restore(state) => bench.restore(stored(bench, id.as_str(), TOPIC, state)).await?,
        Event::Reschedule(due) => {
            let job = bench.reschedule(id, due_in(delay(due))).await?;
            assert_eq!(bench.get(id).await, Some(job), "the answer of the reschedule");
        }
    }
    Ok(bench.state(id).await)
}
