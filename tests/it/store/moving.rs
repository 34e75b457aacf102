//! Dead jobs that move to another topic: what they keep, and what callers learn of them.

use delay_queue::{job::Job, store::verb};

use crate::store::prelude::*;

const WAYS: [&str; 7] =
    ["ttr", "release", "late bury", "bury", "by id", "promoted expiry", "popped expiry"];

fn topic(name: &str) -> Topic {
    name.parse().expect("a topic")
}

/// Returns a job of topic `t` that moves to `dead` when it dies.
fn moving(name: &str) -> NewJob {
    with(job(name, "t"), |policy| {
        policy.dead_to = Some(topic("dead"));
        policy.priority = Priority::new(7).expect("a digit");
    })
}

fn held(job: &PoppedJob, by_id: bool) -> JobRef {
    let reservation = (!by_id).then_some(job.reservation);
    JobRef { id: job.id.clone(), reservation, topics: Topics::ALL }
}

async fn topics(bench: &Bench) -> Vec<(String, Counts)> {
    let mut all: Vec<(String, Counts)> = Vec::new();
    for bucket in bench.store.buckets().all() {
        let page = TopicPage { limit: 100, ..TopicPage::default() };
        for (topic, peek) in bench.store.topics(bucket, page).await.expect("topics") {
            all.push((topic.to_string(), peek.counts));
        }
    }
    all
}

fn totals(all: &[Promoted]) -> PromoteCounts {
    let sums = all.iter().flat_map(|promoted| &promoted.topics);
    let sum = sums.fold(Promoted::default(), |mut sum, (topic, counts)| {
        sum.topics.push((topic.clone(), *counts));
        sum
    });
    sum.total()
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
    let answer = match (way, &popped) {
        ("ttr", _) => {
            let all = bench.promote().await;
            let counts = totals(&all);
            assert_eq!((counts.expired, counts.dead, counts.moved), (1, 0, 1), "{way}");
            ready_in(&all, "dead")
        }
        ("promoted expiry", _) => {
            bench.advance(HOUR);
            let all = bench.promote().await;
            let counts = totals(&all);
            assert_eq!((counts.expired, counts.dead, counts.moved), (0, 0, 1), "{way}");
            ready_in(&all, "dead")
        }
        ("popped expiry", _) => {
            bench.advance(HOUR);
            let want = PopRequest { topic: topic("t"), count: 5, ttr: None, consumer: None };
            let popped =
                one(bench.call::<verb::Pop>(bench.bucket(name), (nonce(), vec![want])).await);
            assert!(popped.jobs.is_empty() && popped.left == 0);
            let (target, jobs) = one(popped.moved);
            assert_eq!(target, topic("dead"));
            jobs
        }
        ("release", Some(job)) => {
            let release =
                Release { error: Some("it broke".to_owned()), ..Release::of(held(job, false)) };
            moved(bench.release_by(release).await)
        }
        (_, Some(job)) => {
            let bury = Bury { held: held(job, way == "by id"), error: Some("it broke".to_owned()) };
            let bucket = bench.bucket(name);
            moved(one(bench.call::<verb::Bury>(bucket, vec![bury]).await))
        }
        _ => unreachable!("one of the ways"),
    };
    assert_eq!(
        answer,
        ReadyJobs { count: 1, highest: Priority::new(7).expect("a digit") },
        "{way}"
    );
    popped
}

fn moved(answer: Result<delay_queue::store::Transitioned, Refusal>) -> ReadyJobs {
    let moved = answer.expect("moved");
    assert_eq!((moved.topic, moved.state), (topic("dead"), State::Ready));
    assert_eq!((moved.dead_from, moved.died), (Some(topic("t")), false));
    ReadyJobs::one(moved.priority)
}

fn ready_in(all: &[Promoted], name: &str) -> ReadyJobs {
    let counts = all.iter().flat_map(|promoted| &promoted.topics);
    let of_topic = counts.filter(|(topic, _)| topic.as_str() == name);
    of_topic.fold(ReadyJobs::NONE, |sum, (_, counts)| sum.plus(counts.ready))
}

pub async fn each_way_to_die_moves_a_job_with_all_that_it_has(bench: Bench) {
    for (way, length) in WAYS.into_iter().flat_map(|way| [(way, 10), (way, 5_000)]) {
        let name = id(&format!("{}-{length}", way.replace(' ', ".")));
        let expires = way.ends_with("expiry");
        let mut new = NewJob {
            body: Bytes::from(format!("\"{}\"", "x".repeat(length))),
            ..moving(name.as_str())
        };
        new.policy = Policy {
            ttr: MINUTE,
            max_attempts: if way == "late bury" { 2 } else { 1 },
            backoff: None,
            dead_to: Some(topic("dead")),
            dead_from: None,
            expires_after: Some(HOUR),
            ..whole_policy()
        };
        bench.put(new.clone()).await.expect("put");
        let before = bench.get(&name).await.expect("a job");
        let popped = die(&bench, way, &name).await;
        let after = bench.get(&name).await.expect("a job");
        let policy = Policy {
            dead_to: None,
            dead_from: Some(topic("t")),
            expires_after: None,
            expires_at: None,
            ..before.policy.clone()
        };
        let error = match way {
            _ if expires => "expired",
            "ttr" => "ttr expired",
            _ => "it broke",
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
        let last = after.history.last().map(|past| past.outcome);
        let outcome = match way {
            _ if expires => None,
            "ttr" => Some(AttemptOutcome::Expired),
            "bury" | "late bury" | "by id" => Some(AttemptOutcome::Buried),
            _ => Some(AttemptOutcome::Released),
        };
        assert_eq!(last, outcome, "{way}");
        // It is in the other topic and nowhere else, and its hold is over.
        let counts = Counts { ready: 1, ..Counts::default() };
        assert_eq!(topics(&bench).await, [("dead".to_owned(), counts)], "{way}");
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
        assert_eq!(topics(&bench).await, [], "{way}");
    }
}

pub async fn a_moved_job_dies_again_where_it_is(bench: Bench) {
    let name = id("a");
    bench.put(with(moving("a"), |policy| policy.max_attempts = 1)).await.expect("put");
    bench.pop_one("t").await;
    bench.advance(MINUTE);
    bench.promote().await;
    bench.pop_one("dead").await;
    bench.advance(MINUTE);
    bench.promote().await;
    let dead = bench.get(&name).await.expect("a job");
    assert_eq!((dead.state, dead.topic, dead.attempt), (State::Dead, topic("dead"), 1));
    assert_eq!(dead.policy.dead_from, Some(topic("t")));
    assert_eq!(dead.history.len(), 2);
    bench.kick(&name).await.expect("kicked");
    let kicked = bench.get(&name).await.expect("a job");
    assert_eq!((kicked.state, kicked.topic, kicked.attempt), (State::Ready, topic("dead"), 0));
    assert_eq!((kicked.error, kicked.policy.dead_from), (None, Some(topic("t"))));
}

pub async fn what_a_pop_ends_is_ready_in_other_topics(bench: Bench) {
    let first = |name: &String| bench.bucket(&id(name)) == Bucket::FIRST;
    let names: Vec<String> = (0..).map(|n| format!("{n}")).filter(first).take(7).collect();
    for (number, name) in names.iter().enumerate() {
        bench
            .put(with(job(name, "t"), |policy| {
                policy.expires_after = (number < 6).then_some(SECOND);
                policy.dead_to = (number % 3 > 0).then(|| topic(&format!("dead{}", number % 3)));
                policy.priority = Priority::new((9 - number) as u8).expect("a digit");
            }))
            .await
            .expect("put");
    }
    bench.advance(SECOND);
    let want = |name: &str| PopRequest { topic: topic(name), count: 5, ttr: None, consumer: None };
    let wants = vec![want("t"), want("dead1")];
    let popped = bench.store.call_in::<verb::Pop>(Bucket::FIRST, (nonce(), wants)).await;
    let popped = popped.expect("popped");
    assert_eq!(popped[0].jobs.len(), 1);
    let mut moved = popped[0].moved.clone();
    moved.sort_by(|a, b| a.0.cmp(&b.0));
    let ready = |highest| ReadyJobs { count: 2, highest: Priority::new(highest).expect("a digit") };
    assert_eq!(moved, [(topic("dead1"), ready(8)), (topic("dead2"), ready(7))]);
    // The same call finds what it has moved.
    assert_eq!((popped[1].jobs.len(), popped[1].moved.len()), (2, 0));
    assert_eq!(bench.ready("dead2").await, 2);
}

pub async fn a_moved_job_keeps_its_error_when_a_pop_is_given_back(bench: Bench) {
    for (name, popped_before) in [("a", true), ("b", false)] {
        let new = with(moving(name), |policy| policy.expires_after = Some(SECOND));
        bench.put(new).await.expect("put");
        if popped_before {
            let popped = bench.pop_one("t").await;
            bench.bury(&popped.id, Some(popped.reservation)).await.expect("buried");
        } else {
            bench.advance(SECOND);
            bench.promote().await;
        }
        let before = bench.get(&id(name)).await.expect("a job");
        assert_eq!(before.error.as_deref(), Some(if popped_before { "buried" } else { "expired" }));
        let popped = bench.pop_one("dead").await;
        let reserved = bench.get(&id(name)).await.expect("a job");
        assert_eq!(reserved.error, before.error);
        bench.unpop(&popped.id, popped.reservation).await.expect("given back");
        assert_eq!(bench.get(&id(name)).await.expect("a job"), before);
        // A change keeps it too, a kick of the dead does not.
        let later = Change { schedule: Some(Schedule::In(SECOND)), ..Change::default() };
        bench.reschedule(&id(name), later).await.expect("rescheduled");
        let expiry = changing(|fields| fields.expires_after = Some(Some(Millis::new(1))));
        let changed = bench.reschedule(&id(name), expiry).await.expect("rescheduled");
        assert_eq!((changed.error, changed.state), (before.error, State::Delayed));
        bench.advance(MINUTE);
        bench.promote().await;
        let dead = bench.get(&id(name)).await.expect("a job");
        assert_eq!((dead.state, dead.topic), (State::Dead, topic("dead")));
        bench.kick(&id(name)).await.expect("kicked");
        assert_eq!(bench.get(&id(name)).await.expect("a job").error, None);
        bench.delete(&id(name)).await.expect("deleted");
    }
}

pub async fn a_job_that_moves_to_its_own_topic_dies_there(bench: Bench) {
    for (name, spans) in [("popped", false), ("promoted", true)] {
        let new = with(job(name, "t"), |policy| {
            (policy.dead_to, policy.expires_after) = (Some(topic("t")), Some(SECOND));
        });
        bench.put(new).await.expect("put");
        bench.advance(SECOND);
        if spans {
            bench.promote().await;
        }
        assert!(bench.pop("t", 1).await.is_empty());
        let dead = bench.get(&id(name)).await.expect("a job");
        assert_eq!((dead.state, dead.policy.dead_from), (State::Dead, None), "{name}");
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
        before.push(bench.get(&id(name)).await.expect("a job"));
    }
    let bench = bench.reopen().await;
    for job in before {
        assert_eq!(bench.get(&job.id).await, Some(job));
    }
    assert_eq!(bench.ready("dead").await, 4);
}

pub async fn the_dead_of_several_topics_move_in_one_call(bench: Bench) {
    let names: Vec<String> = (0..120).map(|n| format!("{n}")).collect();
    for (number, name) in names.iter().enumerate() {
        let new = with(job(name, &format!("t{}", number % 3)), |policy| {
            (policy.dead_to, policy.max_attempts) = (Some(topic("dead")), 1);
            policy.expires_after = (number % 2 == 0).then_some(SECOND);
        });
        bench.put(new).await.expect("put");
    }
    for number in 0..3 {
        let popped = bench.pop(&format!("t{number}"), 40).await;
        assert_eq!(popped.len(), 40);
    }
    bench.advance(MINUTE);
    let all = bench.promote().await;
    assert_eq!((totals(&all).moved, totals(&all).dead), (120, 0));
    assert_eq!(ready_in(&all, "dead").count, 120);
    assert_eq!(bench.ready("dead").await, 120);
    assert!(topics(&bench).await.iter().all(|(name, _)| name == "dead"));
}
