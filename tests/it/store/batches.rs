//! Calls with many jobs, and the fields of a job that a store keeps.

use crate::store::prelude::*;

/// Returns `count` ids of the same bucket.
fn names(bench: &Bench, count: usize) -> Vec<String> {
    let bucket = bench.bucket(&id("0"));
    let all = (0..).map(|n: u32| n.to_string());
    all.filter(|name| bench.bucket(&id(name)) == bucket).take(count).collect()
}

pub async fn replies_stay_in_order_between_refused_jobs(bench: Bench) {
    let names = names(&bench, 4);
    let bucket = bench.bucket(&id("0"));
    bench.put(job(&names[1], "t")).await.expect("put");
    let jobs = names.iter().map(|name| job(name, "t")).collect();
    let replies = bench.call::<verb::Put>(bucket, jobs).await;
    let refused: Vec<bool> =
        replies.iter().map(|reply| matches!(reply, Err(Refusal::Exists(_)))).collect();
    assert_eq!(refused, [false, true, false, false]);
    assert_eq!(bench.pop("t", 10).await.len(), 4);

    let held =
        |name: &String| finishing(JobRef { id: id(name), reservation: None, topics: Topics::ALL });
    let finished =
        bench.store.call_in::<verb::Finish>(bucket, names.iter().map(held).collect()).await;
    assert!(finished.expect("finish").iter().all(Result::is_ok));
    let again = bench.store.call_in::<verb::Finish>(bucket, names.iter().map(held).collect()).await;
    assert!(again.expect("finish").iter().all(|reply| *reply == Err(Refusal::NotFound)));
}

/// Puts and pops jobs of two topics in one bucket, so that each topic has one job in each state.
async fn popped_in_every_state(bench: &Bench) -> Vec<(JobRef, State)> {
    let names = names(bench, 2 * State::ALL.len());
    let mut held = Vec::new();
    for (name, state) in names.iter().zip(State::ALL.into_iter().cycle()) {
        let topic = if held.len() < State::ALL.len() { "t" } else { "u" };
        let waits = (state == State::Delayed).then(|| "list:3600000".parse().expect("a backoff"));
        let job = with(job(name, topic), |policy| {
            policy.ttr = if state == State::Reserved { HOUR } else { SECOND };
            policy.max_attempts = if state == State::Dead { 1 } else { 0 };
            policy.backoff = waits;
            policy.finished_retention = if state == State::Finished { HOUR } else { Millis::ZERO };
        });
        bench.put(job).await.expect("put");
        let popped = bench.pop_one(topic).await;
        if state == State::Finished {
            bench.finish(&popped.id, Some(popped.reservation)).await.expect("finished");
        }
        held.push((
            JobRef { id: popped.id, reservation: Some(popped.reservation), topics: Topics::ALL },
            state,
        ));
    }
    bench.advance(SECOND);
    bench.promote().await;
    for (held, state) in &held {
        assert_eq!(bench.state(&held.id).await, Some(*state));
    }
    held
}

pub async fn a_batch_acts_on_jobs_that_have_changed_their_state(bench: Bench) {
    let bucket = bench.bucket(&id("0"));
    for verb in ["finish", "release", "bury", "delete"] {
        let all = popped_in_every_state(&bench).await;
        let held = || all.iter().map(|(held, _)| held.clone());
        let store = &bench.store;
        let becomes = |before: State| match (verb, before) {
            ("delete", _) => None,
            (_, State::Finished) => Some(State::Finished),
            ("finish", _) => None,
            ("release", State::Dead) | ("bury", _) => Some(State::Dead),
            _ => Some(State::Delayed),
        };
        let refuses = |before| (before == State::Finished).then_some(Refusal::Finished);
        let are_done: Vec<bool> = match verb {
            "finish" => {
                let finish = held().map(finishing).collect();
                let replies = store.call_in::<verb::Finish>(bucket, finish).await.expect(verb);
                replies.iter().map(Result::is_ok).collect()
            }
            "release" => {
                let release = |held| Release { delay: Some(HOUR), ..Release::of(held) };
                let replies =
                    store.call_in::<verb::Release>(bucket, held().map(release).collect()).await;
                let states = replies.expect(verb).into_iter().map(|r| r.map(|moved| moved.state));
                let done =
                    |(now, (_, before)): (Result<State, Refusal>, &(JobRef, State))| match now {
                        Ok(state) => Some(state) == becomes(*before),
                        Err(refusal) => Some(refusal) == refuses(*before),
                    };
                states.zip(&all).map(done).collect()
            }
            "bury" => {
                let bury = |held| Bury { held, error: None };
                let replies = store
                    .call_in::<verb::Bury>(bucket, held().map(bury).collect())
                    .await
                    .expect(verb);
                let refused = replies.into_iter().map(Result::err);
                refused.zip(&all).map(|(why, (_, before))| why == refuses(*before)).collect()
            }
            _ => {
                let ids = held().map(|held| deletion(&held.id)).collect();
                let replies = store.call_in::<verb::Delete>(bucket, ids).await.expect(verb);
                replies.into_iter().zip(&all).map(|(was, (_, before))| was == Ok(*before)).collect()
            }
        };
        assert_eq!(are_done, [true; 2 * State::ALL.len()], "{verb}");
        for (held, before) in &all {
            assert_eq!(bench.state(&held.id).await, becomes(*before), "{verb} of {before:?}");
            let _ = bench.delete(&held.id).await;
        }
        for topic in ["t", "u"] {
            let shown = store.topic(bucket, topic.parse().expect("a topic")).await.expect("a look");
            assert_eq!(shown.counts, Counts::default(), "{topic} has jobs after {verb}");
        }
    }
}

pub async fn a_call_to_several_buckets_takes_effect_in_each(bench: Bench) {
    let ids: Vec<JobId> = (0..60).map(|n| id(&format!("order-{n}"))).collect();
    let parts = |bench: &Bench| {
        let mut parts: Vec<(Bucket, Vec<JobId>)> =
            bench.store.buckets().all().map(|bucket| (bucket, Vec::new())).collect();
        ids.iter().for_each(|id| parts[bench.bucket(id).index()].1.push(id.clone()));
        parts.retain(|(_, ids)| !ids.is_empty());
        parts
    };
    let each = |jobs: Vec<JobId>| jobs.into_iter().map(|id| job(id.as_str(), "t")).collect();
    let put = parts(&bench).into_iter().map(|(bucket, ids)| (bucket, each(ids))).collect();
    for outcome in bench.store.put(put).await {
        assert!(outcome.expect("put").iter().all(Result::is_ok));
    }
    let topic: Topic = "t".parse().expect("a topic");
    let asked = parts(&bench);
    let looks = asked.iter().map(|(bucket, _)| (*bucket, vec![topic.clone()])).collect();
    for (shown, (_, ids)) in bench.store.peek(looks, true).await.into_iter().zip(&asked) {
        assert_eq!(shown.expect("a look").ready[0].count, ids.len() as u64);
    }
    let want = || PopRequest { topic: topic.clone(), count: 100, ttr: None, consumer: None };
    let pops = asked.iter().map(|(bucket, _)| (*bucket, (nonce(), vec![want()]))).collect();
    let mut held = Vec::new();
    for (outcome, (bucket, ids)) in bench.store.pop(pops).await.into_iter().zip(&asked) {
        let jobs = outcome.expect("popped").remove(0).jobs;
        let popped: BTreeSet<&JobId> = jobs.iter().map(|job| &job.id).collect();
        assert_eq!(popped, ids.iter().collect());
        let hold = |job: &PoppedJob| JobRef {
            id: job.id.clone(),
            reservation: Some(job.reservation),
            topics: Topics::ALL,
        };
        held.push((*bucket, jobs.iter().map(hold).map(finishing).collect::<Vec<_>>()));
    }
    bench.advance(HOUR); // their TTRs are over
    let buckets = asked.iter().map(|(bucket, _)| *bucket);
    let promoted = promote_together(&*bench.store, buckets, 20).await.into_iter();
    let expired: u64 = promoted.map(|p| p.expect("promoted").total().expired).sum();
    assert!((20..=60).contains(&expired), "{expired} of 60");
    for outcome in bench.store.finish(held).await {
        assert!(outcome.expect("finished").iter().all(Result::is_ok));
    }
    assert_eq!(bench.records().await, 0);
}

pub async fn the_same_id_twice_in_one_batch_is_one_job(bench: Bench) {
    let bucket = bench.bucket(&id("a"));
    let twice = vec![job("a", "t"), job("a", "t")];
    let replies = bench.call::<verb::Put>(bucket, twice).await;
    assert_eq!(replies[0].clone().map(|placed| placed.how), Ok(PutOutcome::Created));
    assert_eq!(replies[1], exists(State::Ready, "t"));
    let replace = || NewJob { on_conflict: OnConflict::Replace, ..job("a", "t") };
    let replies = bench.call::<verb::Put>(bucket, vec![replace(), replace()]).await;
    assert!(
        replies.into_iter().all(|reply| reply.map(|placed| placed.how) == Ok(PutOutcome::Replaced))
    );
    assert_eq!(bench.pop("t", 9).await.len(), 1);
    let held = JobRef { id: id("a"), reservation: None, topics: Topics::ALL };
    let both = vec![finishing(held); 2];
    let replies = bench.call::<verb::Finish>(bucket, both).await;
    assert_eq!(replies, [Ok("t".parse().expect("a topic")), Err(Refusal::NotFound)]);
    bench.put(job("a", "t")).await.expect("put");
    let twice = vec![deletion(&id("a")); 2];
    let replies = bench.call::<verb::Delete>(bucket, twice).await;
    assert_eq!(replies, [Ok(State::Ready), Err(Refusal::NotFound)]);
}

pub async fn a_living_id_is_refused_kept_or_replaced(bench: Bench) {
    let again = |on_conflict| NewJob {
        on_conflict,
        body: "2".into(),
        schedule: Schedule::In(HOUR),
        ..job("a", "t")
    };
    bench.put(delayed("a", "t", MINUTE)).await.expect("put");
    let first = bench.get(&id("a")).await.expect("the job exists");
    assert_eq!(bench.put(again(OnConflict::Reject)).await, exists(State::Delayed, "t"));
    let kept = bench.put(again(OnConflict::Keep)).await.expect("kept");
    assert_eq!(
        (kept.how, kept.state, kept.due_at),
        (PutOutcome::Kept, State::Delayed, first.due_at)
    );
    assert_eq!(bench.get(&id("a")).await, Some(first));

    let replaced = bench.put(again(OnConflict::Replace)).await.expect("replaced");
    assert_eq!((replaced.how, replaced.due_at), (PutOutcome::Replaced, bench.now().after(HOUR)));
    let second = bench.get(&id("a")).await.expect("the job exists");
    assert_eq!(&second.body[..], b"2");

    // While the job is reserved, `keep` returns it and `replace` is refused. Once it is dead, the
    // attempts of a replacement start from zero.
    bench.kick(&id("a")).await.expect("kick");
    let popped = bench.pop_one("t").await;
    let kept = bench.put(again(OnConflict::Keep)).await.expect("kept");
    assert_eq!((kept.state, kept.due_at), (State::Reserved, popped.due_at));
    assert_eq!(bench.put(again(OnConflict::Replace)).await, Err(Refusal::Reserved));
    bench.bury(&popped.id, Some(popped.reservation)).await.expect("bury");
    bench.put(again(OnConflict::Replace)).await.expect("replaced");
    let third = bench.get(&id("a")).await.expect("the job exists");
    assert_eq!((third.attempt, third.state, third.error), (0, State::Delayed, None));
    assert_eq!(bench.finish(&id("a"), None).await, Err(Refusal::NeverPopped));
}

pub async fn only_a_job_of_the_same_topic_is_kept_or_replaced(bench: Bench) {
    let all = [OnConflict::Reject, OnConflict::Keep, OnConflict::Replace];
    for state in State::ALL {
        match state {
            State::Delayed => {
                bench.put(kept(delayed("a", "t", HOUR), HOUR)).await.expect("put");
            }
            State::Ready => drop(bench.kick(&id("a")).await.expect("kick")),
            State::Reserved => drop(bench.pop_one("t").await),
            State::Dead => bench.bury(&id("a"), None).await.expect("bury"),
            State::Finished => bench.finish(&id("a"), None).await.expect("finish"),
        }
        let before = bench.get(&id("a")).await.expect("the job exists");
        assert_eq!(before.state, state);
        for on_conflict in all {
            let other = NewJob { on_conflict, ..job("a", "other") };
            assert_eq!(bench.put(other).await, exists(state, "t"), "{on_conflict:?}");
            assert_eq!(bench.get(&id("a")).await.as_ref(), Some(&before));
        }
        assert_eq!(bench.put(job("a", "t")).await, exists(state, "t"));
    }
    assert!(bench.pop("other", 9).await.is_empty());
}

pub async fn a_release_by_id_alone_needs_a_reserved_job(bench: Bench) {
    bench.put(job("a", "t")).await.expect("put");
    assert_eq!(bench.release(&id("a"), None, None).await, Err(Refusal::NeverPopped));
    bench.pop_one("t").await;
    let moved = bench.release(&id("a"), None, Some(HOUR)).await.expect("the job is reserved");
    assert_eq!(moved.state, State::Delayed);
    let refused = async |state| {
        let before = bench.get(&id("a")).await.expect("the job exists");
        assert_eq!(before.state, state);
        let released = bench.release(&id("a"), None, Some(Millis::ZERO)).await;
        assert_eq!(released, Err(Refusal::NotReserved));
        assert_eq!(bench.get(&id("a")).await, Some(before));
    };
    refused(State::Delayed).await;
    bench.kick(&id("a")).await.expect("kick");
    refused(State::Ready).await;
    // The last consumer may release the job until another consumer pops it.
    let popped = bench.pop_one("t").await;
    bench.advance(MINUTE);
    bench.promote().await;
    refused(State::Ready).await;
    bench.release(&id("a"), Some(popped.reservation), None).await.expect("released");
    let popped = bench.pop_one("t").await;
    bench.bury(&id("a"), Some(popped.reservation)).await.expect("bury");
    refused(State::Dead).await;
    let held = JobRef { id: id("a"), reservation: None, topics: Topics::ALL };
    let batch = vec![Release::of(held)];
    let replies = bench.call::<verb::Release>(bench.bucket(&id("a")), batch).await;
    assert_eq!(replies, [Err(Refusal::NotReserved)]);
}

/// Returns the refusal of a put with the id of an existing job.
fn exists<T>(state: State, topic: &str) -> Result<T, Refusal> {
    let topic = topic.parse().expect("a topic");
    Err(Refusal::Exists(Some(Living { state, topic })))
}

pub async fn a_get_shows_everything_that_was_put(bench: Bench) {
    let mut new = with(delayed("a", "t", SECOND), |policy| {
        *policy = Policy { ttr: MINUTE, max_attempts: 7, ..whole_policy() };
    });
    bench.put(new.clone()).await.expect("put");
    let put_at = bench.now();
    new.policy.expire_from(put_at.after(SECOND));
    let shown = bench.get(&new.id).await.expect("the job exists");
    assert_eq!((shown.id, shown.topic, shown.body), (new.id.clone(), new.topic, new.body));
    assert_eq!((shown.state, shown.attempt), (State::Delayed, 0));
    assert_eq!((shown.created_at, shown.due_at), (put_at, put_at.after(SECOND)));
    assert_eq!((shown.ttr, &shown.policy), (MINUTE, &new.policy));
    assert_eq!((shown.reserved_until, shown.died_at, shown.error), (None, None, None));

    bench.advance(SECOND);
    bench.promote().await;
    let popped = bench.pop_one("t").await;
    assert_eq!((popped.created_at, popped.due_at), (put_at, put_at.after(SECOND)));
    assert_eq!((&popped.policy, popped.ttr), (&new.policy, MINUTE));
    let shown = bench.get(&new.id).await.expect("the job exists");
    assert_eq!((shown.state, shown.attempt), (State::Reserved, 1));
    assert_eq!(shown.due_at, put_at.after(SECOND), "a pop has changed the due time");
    assert_eq!(shown.reserved_until, Some(bench.now().after(MINUTE)));
    assert_eq!(bench.get(&id("nobody")).await, None);
}

pub async fn bodies_are_kept_byte_for_byte(bench: Bench) {
    let bodies: [&[u8]; 5] =
        [b"null", b"", b" { \"a\" :\n1 }\t", "\"\u{1F600}\\u0000\"".as_bytes(), &[b'x'; 300_000]];
    for (number, body) in bodies.into_iter().enumerate() {
        let name = format!("body:{number}");
        let new = NewJob { body: body.into(), ..job(&name, "t") };
        bench.put(new).await.expect("put");
        assert_eq!(bench.get(&id(&name)).await.expect("the job exists").body, body);
        assert_eq!(bench.pop_one("t").await.body, body);
    }
}

pub async fn several_pop_requests_in_one_call_get_different_jobs(bench: Bench) {
    let names = names(&bench, 6);
    for (number, name) in names.iter().enumerate() {
        bench.put(job(name, if number < 4 { "t" } else { "u" })).await.expect("put");
    }
    let want = |topic: &str, count| PopRequest {
        topic: topic.parse().expect("topic"),
        count,
        ttr: None,
        consumer: None,
    };
    let wants = vec![want("t", 3), want("u", 1), want("t", 3), want("none", 1)];
    let popped = bench.call::<verb::Pop>(bench.bucket(&id("0")), (nonce(), wants)).await;
    let counts: Vec<usize> = popped.iter().map(|Popped { jobs, .. }| jobs.len()).collect();
    let left: Vec<u64> = popped.iter().map(|Popped { left, .. }| *left).collect();
    assert_eq!((counts, left), (vec![3, 1, 1, 0], vec![1, 1, 0, 0]));
    let mut tokens: Vec<u64> =
        popped.iter().flat_map(|p| &p.jobs).map(|job| job.reservation.bits()).collect();
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), 5, "two jobs have the same reservation");
}

pub async fn a_reschedule_changes_only_the_given_fields(bench: Bench) {
    bench.put(delayed("a", "t", HOUR)).await.expect("put");
    let before = bench.get(&id("a")).await.expect("the job exists");
    bench.advance(SECOND);
    let change = Change { body: Some("[2]".into()), ..Change::default() };
    bench.reschedule(&id("a"), change).await.expect("reschedule");
    let mut expected = before;
    expected.body = "[2]".into();
    assert_eq!(bench.get(&id("a")).await.as_ref(), Some(&expected));

    let change = Change {
        schedule: Some(Schedule::In(Millis::ZERO)),
        policy: PolicyFields {
            ttr: Some(SECOND),
            max_attempts: Some(2),
            backoff: Some(Some("list:5000".parse().expect("a backoff"))),
            ..PolicyFields::default()
        },
        body: None,
    };
    let moved = bench.reschedule(&id("a"), change.clone()).await.expect("reschedule");
    assert_eq!((moved.state, moved.due_at), (State::Ready, bench.now()));
    expected.state = State::Ready;
    expected.due_at = bench.now();
    (expected.ttr, expected.policy.ttr) = (SECOND, SECOND);
    (expected.policy.max_attempts, expected.policy.backoff) = (2, change.policy.backoff.flatten());
    assert_eq!(bench.get(&id("a")).await.as_ref(), Some(&expected));
    let none = changing(|policy| policy.backoff = Some(None));
    let moved = bench.reschedule(&id("a"), none).await.expect("reschedule");
    expected.policy.backoff = None;
    assert_eq!(
        (&moved, moved.policy.max_attempts),
        (&expected, 2),
        "more than the backoff has changed"
    );
    let bench = bench.reopen().await;
    assert_eq!(bench.get(&id("a")).await.as_ref(), Some(&expected));
    let popped = bench.pop_one("t").await;
    assert_eq!(
        (popped.ttr, popped.policy.max_attempts, &popped.body[..]),
        (SECOND, 2, &b"[2]"[..])
    );
}

pub async fn a_new_list_of_waits_sets_max_attempts(bench: Bench) {
    let backoff = |text: &str| text.parse().expect("a backoff");
    // Backoff and `max_attempts` of the job and of the change, and the resulting `max_attempts`.
    let cases = [
        ("list:1,2,3", 4, "list:1", None, 2),
        ("list:1", 2, "list:1,2,3,4,5", None, 6),
        ("list:1,2,3", 4, "list:1", Some(9), 9),
        ("list:1,2,3", 20, "list:1", None, 20),
        ("list:1,2,3", 0, "list:1", None, 0),
        ("list:1,2,3", 4, "exp:1:2:10:0", None, 4),
        ("exp:1:2:10:0", 4, "list:1", None, 4),
    ];
    for (number, (before, attempts, after, chosen, follow)) in cases.into_iter().enumerate() {
        let name = format!("job:{number}");
        let new = delayed(&name, "t", HOUR);
        let new = with(new, |policy| {
            (policy.backoff, policy.max_attempts) = (Some(backoff(before)), attempts);
        });
        bench.put(new).await.expect("put");
        let change = changing(|policy| {
            (policy.backoff, policy.max_attempts) = (Some(Some(backoff(after))), chosen);
        });
        let moved = bench.reschedule(&id(&name), change).await.expect("reschedule");
        assert_eq!(moved.policy.max_attempts, follow, "{before} {attempts} {after}");
        assert_eq!(moved.policy.backoff, Some(backoff(after)));
    }
    let bench = bench.reopen().await;
    let kept = bench.get(&id("job:0")).await.expect("the job exists");
    assert_eq!((kept.policy.max_attempts, kept.policy.backoff), (2, Some(backoff("list:1"))));
}
