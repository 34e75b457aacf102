//! Dead jobs that move to another topic: what they keep, and what callers learn of them.

use crate::store::prelude::*;

const WAYS: [&str; 7] =
    ["ttr", "release", "late bury", "bury", "by id", "promoted expiry", "popped expiry"];

/// Returns a job of topic `t` that moves to `dead` when it dies.
fn moving(name: &str) -> NewJob {
    with(job(name, "t"), |policy| {
        policy.dead_to = Some(topic("dead"));
        policy.priority = Priority::new(7).expect("a digit");
    })
}

/// Lets a job die in this way, and checks what the store answers.
async fn die(bench: &Bench, way: &str, name: &JobId) -> Option<PoppedJob> {
    let expires = way.ends_with("expiry");
    let popped = if expires { None } else { Some(bench.pop_one("t").await) };
    bench.advance(if matches!(way, "ttr" | "late bury" | "by id") { MINUTE } else { SECOND });
    if way == "late bury" {
        // Its second attempt is to come, and the hold of the first one has not ended.
        bench.promote().await;
    }
    let hold = popped.as_ref().map(|job| job.reservation).filter(|_| way != "by id");
    let (held, error) = (job_ref(name, hold), Some("it broke".to_owned()));
    let answer = match way {
        "ttr" | "promoted expiry" => {
            bench.advance(if expires { HOUR } else { Millis::ZERO });
            let all = bench.promote().await;
            let counts = all.total();
            let expected = (u64::from(!expires), 0, 1);
            assert_eq!((counts.timed_out, counts.dead, counts.moved), expected, "{way}");
            ready_in(&all, "dead")
        }
        "popped expiry" => {
            bench.advance(HOUR);
            let popped = one(bench.pop_in(bench.bucket(name), vec![want("t", 5)]).await);
            assert!(popped.jobs.is_empty() && popped.left == 0);
            let (target, jobs) = one(popped.moved);
            assert_eq!(target, topic("dead"));
            jobs
        }
        "release" => moved(bench.release_by(Release { error, ..Release::new(held) }).await),
        _ => {
            let bury = vec![Bury { held, error }];
            moved(one(bench.call::<verb::Bury>(bench.bucket(name), bury).await))
        }
    };
    let expected = ReadyJobs { count: 1, highest: Priority::new(7).expect("a digit") };
    assert_eq!(answer, expected, "{way}");
    popped
}

fn moved(answer: Result<delay_queue::store::Transitioned, Refusal>) -> ReadyJobs {
    let moved = answer.expect("moved");
    assert_eq!((moved.topic, moved.state), (topic("dead"), State::Ready));
    assert_eq!((moved.dead_from, moved.died), (Some(topic("t")), false));
    ReadyJobs::one(moved.priority)
}

pub async fn each_way_to_die_moves_a_job_with_all_that_it_has(bench: Bench) {
    for (way, length) in WAYS.into_iter().flat_map(|way| [(way, 10), (way, 5_000)]) {
        let name = id(&format!("{}-{length}", way.replace(' ', ".")));
        let policy = Policy {
            ttr: MINUTE,
            max_attempts: if way == "late bury" { 2 } else { 1 },
            backoff: None,
            dead_to: Some(topic("dead")),
            dead_from: None,
            expires_after: Some(HOUR),
            ..whole_policy()
        };
        let new = NewJob { body: text(length), policy, ..moving(name.as_str()) };
        bench.put(new.clone()).await.expect("put");
        let before = bench.job(name.as_str()).await;
        let popped = die(&bench, way, &name).await;
        let after = bench.job(name.as_str()).await;
        let policy = Policy {
            dead_to: None,
            dead_from: Some(topic("t")),
            expires_after: None,
            expires_at: None,
            ..before.policy.clone()
        };
        let (error, outcome) = match way {
            _ if way.ends_with("expiry") => ("expired", None),
            "ttr" => ("ttr ended", Some(AttemptOutcome::TimedOut)),
            "release" => ("it broke", Some(AttemptOutcome::Released)),
            _ => ("it broke", Some(AttemptOutcome::Buried)),
        };
        let expected = Job {
            topic: topic("dead"),
            state: State::Ready,
            attempt: 0,
            due_at: bench.now(),
            policy,
            error: Some(error.to_owned()),
            history: after.history.clone(),
            ..before.clone()
        };
        assert_eq!(after, expected, "{way}");
        assert_eq!(after.history.last().map(|past| past.outcome), outcome, "{way}");
        // It is in the other topic and nowhere else, and its hold is over.
        let counts = Counts { ready: 1, ..Counts::default() };
        assert_eq!(bench.topics().await, [(bench.bucket(&name), topic("dead"), counts)], "{way}");
        if let Some(popped) = popped {
            let hold = Some(popped.reservation);
            assert_eq!(bench.finish(&name, hold).await, Err(LOST), "{way}");
            assert_eq!(bench.bury(&name, hold).await, Err(LOST), "{way}");
        }
        assert_eq!(bench.finish(&name, None).await, Err(Refusal::NeverPopped), "{way}");
        let again = bench.pop_one("dead").await;
        assert_eq!((again.attempt, &again.policy), (1, &after.policy), "{way}");
        assert_eq!(again.body, new.body, "{way}");
        bench.finish(&name, Some(again.reservation)).await.expect("finished");
        let _ = bench.delete(&name).await;
        assert_eq!(bench.topics().await, [], "{way}");
    }
}

pub async fn what_a_pop_ends_is_ready_in_other_topics(bench: Bench) {
    let (bucket, ids) = bench.ids(7);
    for (number, id) in ids.iter().enumerate() {
        let new = with(job(id.as_str(), "t"), |policy| {
            policy.expires_after = (number < 6).then_some(SECOND);
            policy.dead_to = (number % 3 > 0).then(|| topic(&format!("dead{}", number % 3)));
            policy.priority = Priority::new((9 - number) as u8).expect("a digit");
        });
        bench.put(new).await.expect("put");
    }
    bench.advance(SECOND);
    let popped = bench.pop_in(bucket, vec![want("t", 5)]).await;
    assert_eq!(popped[0].jobs.len(), 1);
    let mut moved = popped[0].moved.clone();
    moved.sort_by(|a, b| a.0.cmp(&b.0));
    let ready = |highest| ReadyJobs { count: 2, highest: Priority::new(highest).expect("a digit") };
    assert_eq!(moved, [(topic("dead1"), ready(8)), (topic("dead2"), ready(7))]);
    assert_eq!(bench.pop("dead1", 5).await.len(), 2);
    assert_eq!(bench.ready("dead2").await, 2);
}

pub async fn a_moved_job_keeps_its_error_when_a_pop_is_given_back(bench: Bench) {
    for (name, popped_before) in [("a", true), ("b", false)] {
        let new = with(moving(name), |policy| policy.expires_after = Some(SECOND));
        if popped_before {
            bench.buried(new).await;
        } else {
            bench.put(new).await.expect("put");
            bench.promote_after(SECOND).await;
        }
        let before = bench.job(name).await;
        assert_eq!(before.error.as_deref(), Some(if popped_before { "buried" } else { "expired" }));
        let popped = bench.pop_one("dead").await;
        assert_eq!(bench.job(name).await.error, before.error);
        bench.unpop(&popped.id, popped.reservation).await.expect("given back");
        assert_eq!(bench.job(name).await, before);
        bench.delete(&id(name)).await.expect("deleted");
    }
}

pub async fn a_moved_job_is_the_same_after_a_restart(bench: Bench) {
    let ways = [("a", "bury"), ("b", "ttr"), ("c", "promoted expiry"), ("d", "release")];
    for (name, way) in ways {
        let new = with(moving(name), |policy| {
            (policy.max_attempts, policy.expires_after) = (1, Some(HOUR));
        });
        bench.put(new).await.expect("put");
        die(&bench, way, &id(name)).await;
    }
    let mut before = Vec::new();
    for (name, _) in ways {
        before.push(bench.job(name).await);
    }
    let bench = bench.reopen().await;
    for job in before {
        assert_eq!(bench.job(job.id.as_str()).await, job);
    }
    assert_eq!(bench.ready("dead").await, 4);
}

pub async fn the_dead_of_several_topics_move_in_one_call(bench: Bench) {
    for number in 0..120 {
        let new = with(job(&number.to_string(), &format!("t{}", number % 3)), |policy| {
            (policy.dead_to, policy.max_attempts) = (Some(topic("dead")), 1);
            policy.expires_after = (number % 2 == 0).then_some(SECOND);
        });
        bench.put(new).await.expect("put");
    }
    for number in 0..3 {
        assert_eq!(bench.pop(&format!("t{number}"), 40).await.len(), 40);
    }
    bench.advance(MINUTE);
    let all = bench.promote().await;
    assert_eq!((all.total().moved, all.total().dead), (120, 0));
    assert_eq!(ready_in(&all, "dead").count, 120);
    assert_eq!(bench.ready("dead").await, 120);
    assert!(bench.topics().await.iter().all(|(_, name, _)| *name == topic("dead")));
}
