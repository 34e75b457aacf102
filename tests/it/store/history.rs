//! The history of a job, which contains its last attempts. Every store keeps it in the same way.

use delay_queue::job::AttemptOutcome::{Buried, Finished, Released, TimedOut};

use crate::store::prelude::*;

/// Returns the ended attempts in the history of a job.
async fn history(bench: &Bench, name: &str) -> Vec<PastAttempt> {
    bench.job(name).await.history
}

async fn outcomes(bench: &Bench, name: &str) -> Vec<(u32, AttemptOutcome)> {
    history(bench, name).await.iter().map(|past| (past.attempt, past.outcome)).collect()
}

fn past(attempt: u32, [start, end]: [u64; 2], outcome: AttemptOutcome) -> PastAttempt {
    let at = |seconds: u64| START.after(Millis::new(seconds * 1_000));
    PastAttempt {
        attempt,
        started_at: at(start),
        ended_at: at(end),
        outcome,
        error: None,
        consumer: None,
    }
}

fn failed(error: &str, past: PastAttempt) -> PastAttempt {
    PastAttempt { error: Some(error.to_owned()), ..past }
}

/// Returns a job with a TTR of a minute and an unlimited number of attempts.
fn retried(name: &str) -> NewJob {
    with(job(name, "t"), |policy| (policy.ttr, policy.max_attempts) = (MINUTE, 0))
}

async fn release_with(bench: &Bench, popped: &PoppedJob, error: &str) {
    let (delay, error) = (Some(Millis::ZERO), Some(error.to_owned()));
    let release = Release { delay, error, ..Release::new(held(popped)) };
    bench.release_by(release).await.expect("released");
}

pub async fn each_end_of_an_attempt_is_in_the_history(bench: Bench) {
    bench.put(retried("a")).await.expect("put");
    assert_eq!(history(&bench, "a").await, []);
    let first = bench.pop_one("t").await;
    assert_eq!(history(&bench, "a").await, [], "a running attempt is in the history");
    bench.advance(SECOND);
    bench.release(&first.id, Some(first.reservation), Some(SECOND)).await.expect("released");
    bench.promote_after(SECOND).await;
    bench.pop_one("t").await;
    bench.promote_after(HOUR).await;
    let third = bench.pop_one("t").await;
    bench.advance(SECOND);
    bench.bury(&third.id, Some(third.reservation)).await.expect("buried");
    let expected = [
        failed("released", past(1, [0, 1], Released)),
        past(2, [2, 62], TimedOut),
        failed("buried", past(3, [3602, 3603], Buried)),
    ];
    assert_eq!(history(&bench, "a").await, expected);
    let bench = bench.reopen().await;
    assert_eq!(history(&bench, "a").await, expected);
}

pub async fn a_late_end_replaces_the_entry_of_the_expired_ttr(bench: Bench) {
    let ends = [Released, Buried, Finished];
    for (end, is_kicked) in ends.iter().flat_map(|end| [(*end, false), (*end, true)]) {
        bench.put(kept(retried("a"), HOUR)).await.expect("put");
        let hold = bench.pop_as("t", 1, None, Some("slow")).await.pop().map(|job| job.reservation);
        let began = bench.now();
        bench.promote_after(MINUTE).await;
        assert_eq!(outcomes(&bench, "a").await, [(1, TimedOut)]);
        if is_kicked {
            bench.kick(&id("a")).await.expect("kicked");
        }
        bench.advance(SECOND);
        let error = match end {
            Released => bench.release(&id("a"), hold, None).await.map(|_| Some("released")),
            Buried => bench.bury(&id("a"), hold).await.map(|()| Some("buried")),
            _ => bench.finish(&id("a"), hold).await.map(|()| None),
        };
        let expected = PastAttempt {
            attempt: 1,
            started_at: began,
            ended_at: bench.now(),
            outcome: end,
            error: error.expect("ended").map(str::to_owned),
            consumer: Some("slow".parse().expect("a name")),
        };
        assert_eq!(history(&bench, "a").await, [expected]);
        bench.delete(&id("a")).await.expect("deleted");
    }
}

pub async fn an_end_by_id_alone_leaves_the_entry_of_an_attempt_that_ended(bench: Bench) {
    let popped = bench.popped(kept(retried("a"), HOUR)).await;
    release_with(&bench, &popped, "x").await;
    let expected = [failed("x", past(1, [0, 0], Released))];
    bench.advance(SECOND);
    bench.bury(&popped.id, None).await.expect("buried");
    assert_eq!(history(&bench, "a").await, expected);
    bench.finish(&popped.id, None).await.expect("finished");
    let found = bench.job("a").await;
    assert_eq!((found.state, &found.history[..]), (State::Finished, &expected[..]));
}

pub async fn the_last_ten_attempts_are_kept(bench: Bench) {
    bench.put(kept(retried("a"), HOUR)).await.expect("put");
    for number in 1..=12 {
        let popped = bench.pop_one("t").await;
        release_with(&bench, &popped, &format!("{number}\n!")).await;
        if number == 6 {
            bench.pop_one("t").await;
            bench.promote_after(MINUTE).await;
        }
    }
    let found = history(&bench, "a").await;
    assert!(found.iter().map(|past| past.attempt).eq(4..=13), "{found:?}");
    assert_eq!(found[9].error.as_deref(), Some("12\n!"));
    assert_eq!((found[3].attempt, found[3].outcome), (7, TimedOut));
    let popped = bench.pop_one("t").await;
    bench.finish(&popped.id, Some(popped.reservation)).await.expect("finished");
    let found = outcomes(&bench, "a").await;
    assert_eq!((found.len(), found[0].0, found[9]), (10, 5, (14, Finished)));
}

pub async fn a_long_error_is_cut_between_characters(bench: Bench) {
    let errors = [
        ("a".repeat(256), 256),
        ("a".repeat(4_096), 256),
        (format!("{}é", "a".repeat(255)), 255),
        (format!("{}é", "a".repeat(254)), 256),
        (format!("a{}", "🦀".repeat(100)), 253),
        (format!("{}\n 1 2 r ! 0 \n", "b".repeat(240)), 253),
    ];
    for (error, length) in errors {
        let popped = bench.popped(retried("a")).await;
        release_with(&bench, &popped, &error).await;
        let found = bench.job("a").await;
        assert_eq!(found.error.as_deref(), Some(&error[..]), "not the whole error");
        assert_eq!(found.history[0].error.as_deref(), Some(&error[..length]));
        let held = held(&bench.pop_one("t").await);
        let bury = vec![Bury { held, error: Some(error.clone()) }];
        one(bench.call::<verb::Bury>(bench.bucket(&id("a")), bury).await).expect("buried");
        assert_eq!(history(&bench, "a").await[1].error.as_deref(), Some(&error[..length]));
        bench.delete(&id("a")).await.expect("deleted");
    }
}

pub async fn a_touch_keeps_the_start_of_the_attempt(bench: Bench) {
    bench.put(retried("a")).await.expect("put");
    for (consumer, ttr) in [(None, Some(HOUR)), (Some("w"), None)] {
        let began = bench.now();
        let popped = bench.pop_as("t", 1, None, consumer).await.remove(0);
        for _ in 0..2 {
            bench.advance(SECOND);
            bench.touch(&popped.id, Some(popped.reservation), ttr).await.expect("touched");
        }
        let running = bench.job("a").await;
        assert_eq!(running.running_since(), Some(began));
        assert_eq!(running.consumer, consumer.map(|name| name.parse().expect("a name")));
        bench.promote_after(HOUR).await;
        let found = history(&bench, "a").await.pop().expect("an entry");
        assert_eq!((found.started_at, found.outcome), (began, TimedOut));
        assert_eq!(found.ended_at, running.reserved_until.expect("reserved"));
        assert_eq!(found.consumer, running.consumer);
    }
    let popped = bench.pop_one("t").await;
    bench.touch(&popped.id, Some(popped.reservation), None).await.expect("touched");
    bench.finish(&popped.id, Some(popped.reservation)).await.expect("finished");
    bench.put(retried("a")).await.expect("put");
    assert_eq!(history(&bench, "a").await, [], "the history of an earlier job");
}

pub async fn a_kick_keeps_the_history_and_a_replace_empties_it(mut bench: Bench) {
    bench.put(retried("a")).await.expect("put");
    for (kicks_topic, count) in [(false, 1), (true, 2)] {
        let popped = bench.pop_one("t").await;
        bench.bury(&popped.id, Some(popped.reservation)).await.expect("buried");
        if kicks_topic {
            let kick = KickDead { topic: popped.topic, limit: 9 };
            let kicked = bench.call::<verb::KickDead>(bench.bucket(&popped.id), kick).await;
            assert_eq!(kicked.count, 1);
        } else {
            bench.kick(&popped.id).await.expect("kicked");
        }
        let found = bench.job("a").await;
        assert_eq!((found.state, found.attempt, found.error), (State::Ready, 0, None));
        assert_eq!(outcomes(&bench, "a").await, vec![(1, Buried); count]);
        let change = Change { body: Some("2".into()), ..due_in(HOUR) };
        let changed = bench.reschedule(&id("a"), change).await.expect("changed");
        assert_eq!(changed.history, found.history);
        bench = bench.reopen().await;
        bench.kick(&id("a")).await.expect("kicked");
        assert_eq!(history(&bench, "a").await, found.history);
    }
    let replace = NewJob { on_conflict: OnConflict::Replace, ..kept(retried("a"), HOUR) };
    bench.put(replace.clone()).await.expect("replaced");
    assert_eq!(history(&bench, "a").await, []);
    let popped = bench.pop_one("t").await;
    bench.finish(&popped.id, Some(popped.reservation)).await.expect("finished");
    assert_eq!(outcomes(&bench, "a").await, [(1, Finished)]);
    bench.put(replace).await.expect("the put replaces the job");
    assert_eq!(history(&bench, "a").await, []);
    bench.delete(&id("a")).await.expect("deleted");
    assert_eq!(bench.records().await, 0);
}

pub async fn a_named_consumer_is_shown_while_it_holds_the_job(mut bench: Bench) {
    bench.put(retried("a")).await.expect("put");
    bench.put(retried("b")).await.expect("put");
    let longest = "x".repeat(64);
    for name in ["-", "a.b_c:d@e/f-9", &longest] {
        let popped = bench.pop_as("t", 2, None, Some(name)).await;
        assert_eq!(popped.len(), 2);
        let consumer = Some(name.parse().expect("a name"));
        bench = bench.reopen().await;
        for popped in popped {
            assert_eq!(bench.job(popped.id.as_str()).await.consumer, consumer);
            release_with(&bench, &popped, "").await;
            let found = bench.job(popped.id.as_str()).await;
            assert_eq!(found.consumer, None);
            let last = found.history.last().expect("an entry");
            assert_eq!((&last.consumer, &last.error), (&consumer, &None));
        }
    }
}
