//! Calls with many jobs, and the fields of a job that a store keeps.

use crate::store::prelude::*;

/// Puts and pops jobs of two topics in one bucket, so that each topic has one job in each state.
async fn popped_in_every_state(bench: &Bench) -> Vec<(JobRef, State)> {
    let mut all = Vec::new();
    for (name, state) in bench.ids(10).1.iter().zip(State::ALL.into_iter().cycle()) {
        let topic = if all.len() < State::ALL.len() { "t" } else { "u" };
        let new = with(job(name.as_str(), topic), |policy| policy.ttr = SECOND);
        all.push((held(&bench.popped_for(state, new).await), state));
    }
    bench.promote_after(SECOND).await;
    for (held, state) in &all {
        assert_eq!(bench.state(&held.id).await, Some(*state));
    }
    all
}

pub async fn a_batch_acts_on_jobs_that_have_changed_their_state(bench: Bench) {
    let bucket = bench.bucket(&id("0"));
    for verb in ["finish", "release", "bury", "delete"] {
        let all = popped_in_every_state(&bench).await;
        let held = all.iter().map(|(held, _)| held.clone());
        let becomes = |before: State| match (verb, before) {
            ("delete", _) => None,
            (_, State::Finished) => Some(State::Finished),
            ("finish", _) => None,
            ("release", State::Dead) | ("bury", _) => Some(State::Dead),
            _ => Some(State::Delayed),
        };
        // A delete replies with the state before, and a release with the one after.
        let replies: Vec<Result<Option<State>, Refusal>> = match verb {
            "finish" => {
                let replies = bench.call::<verb::Finish>(bucket, held.map(finishing).collect());
                replies.await.into_iter().map(|reply| reply.map(|_| None)).collect()
            }
            "release" => {
                let release = |held| Release { delay: Some(HOUR), ..Release::new(held) };
                let replies = bench.call::<verb::Release>(bucket, held.map(release).collect());
                replies.await.into_iter().map(|reply| reply.map(|job| Some(job.state))).collect()
            }
            "bury" => {
                let bury = |held| Bury { held, error: None };
                let replies = bench.call::<verb::Bury>(bucket, held.map(bury).collect()).await;
                replies.into_iter().map(|reply| reply.map(|job| Some(job.state))).collect()
            }
            _ => {
                let replies = held.map(|held| deletion(&held.id)).collect();
                let replies = bench.call::<verb::Delete>(bucket, replies).await;
                replies.into_iter().map(|reply| reply.map(Some)).collect()
            }
        };
        for ((held, before), reply) in all.iter().zip(replies) {
            let expected = match (verb, before) {
                ("delete", _) => Ok(Some(*before)),
                (_, State::Finished) if verb != "finish" => Err(Refusal::Finished),
                ("finish", _) => Ok(None),
                _ => Ok(becomes(*before)),
            };
            assert_eq!(reply, expected, "{verb} of {before:?}");
            assert_eq!(bench.state(&held.id).await, becomes(*before), "{verb} of {before:?}");
            let _ = bench.delete(&held.id).await;
        }
        for topic in ["t", "u"] {
            assert_eq!(bench.counts(topic).await, Counts::default(), "{topic} after {verb}");
        }
    }
}

pub async fn a_call_to_several_buckets_takes_effect_in_each(bench: Bench) {
    let ids: Vec<JobId> = (0..60).map(|n| id(&format!("order-{n}"))).collect();
    for outcome in bench.store.put(bench.parts(&ids, |id| job(id.as_str(), "t"))).await {
        assert!(outcome.expect("put").iter().all(Result::is_ok));
    }
    let asked = bench.parts(&ids, JobId::clone);
    let looks = asked.iter().map(|(bucket, _)| (*bucket, vec![topic("t")])).collect();
    for (shown, (_, ids)) in bench.store.peek(looks, true).await.into_iter().zip(&asked) {
        assert_eq!(shown.expect("a look").ready[0].count, ids.len() as u64);
    }
    let pops = asked.iter().map(|(bucket, _)| (*bucket, (nonce(), vec![want("t", 100)])));
    let mut finishes = Vec::new();
    for (outcome, (bucket, ids)) in bench.store.pop(pops.collect()).await.into_iter().zip(&asked) {
        let jobs = outcome.expect("popped").remove(0).jobs;
        let popped: BTreeSet<&JobId> = jobs.iter().map(|job| &job.id).collect();
        assert_eq!(popped, ids.iter().collect());
        finishes.push((*bucket, jobs.iter().map(|job| finishing(held(job))).collect()));
    }
    bench.advance(HOUR); // their TTRs are over
    let buckets = asked.iter().map(|(bucket, _)| *bucket);
    let promoted = promote_together(&*bench.store, buckets, 20).await.into_iter();
    let expired: u64 = promoted.map(|p| p.expect("promoted").total().timed_out).sum();
    assert!((20..=60).contains(&expired), "{expired} of 60");
    for outcome in bench.store.finish(finishes).await {
        assert!(outcome.expect("finished").iter().all(Result::is_ok));
    }
    assert_eq!(bench.records().await, 0);
}

pub async fn the_same_id_twice_in_one_batch_is_one_job(bench: Bench) {
    let (bucket, ids) = bench.ids(2);
    let a = &ids[0];
    let put_twice = async |on_conflict| {
        let jobs = [a, a, &ids[1]].map(|id| NewJob { on_conflict, ..job(id.as_str(), "t") });
        let replies = bench.call::<verb::Put>(bucket, jobs.to_vec()).await.into_iter();
        replies.map(|reply| reply.map(|placed| placed.how)).collect::<Vec<_>>()
    };
    let (created, refused) = (Ok(PutOutcome::Created), exists(State::Ready, "t"));
    assert_eq!(put_twice(OnConflict::Reject).await, [created.clone(), refused, created]);
    assert_eq!(put_twice(OnConflict::Replace).await, vec![Ok(PutOutcome::Replaced); 3]);
    assert_eq!(bench.pop("t", 9).await.len(), 2);
    let both = vec![finishing(job_ref(a, None)); 2];
    let replies = bench.call::<verb::Finish>(bucket, both).await;
    assert_eq!(replies, [Ok(topic("t")), Err(Refusal::NotFound)]);
    bench.put(job(a.as_str(), "t")).await.expect("put");
    let replies = bench.call::<verb::Delete>(bucket, vec![deletion(a); 2]).await;
    assert_eq!(replies, [Ok(State::Ready), Err(Refusal::NotFound)]);
    // Requests for one id are carried out in their order, whatever they do.
    bench.put(job(a.as_str(), "t")).await.expect("put");
    let remembered = Delete { remember: Some(HOUR), ..deletion(a) };
    let replies = bench.call::<verb::Delete>(bucket, vec![remembered, deletion(a)]).await;
    assert_eq!(replies, [Ok(State::Ready), Ok(State::Finished)]);
}

pub async fn a_living_id_is_refused_kept_or_replaced(bench: Bench) {
    let again = |on_conflict| NewJob {
        on_conflict,
        body: "2".into(),
        schedule: Schedule::In(HOUR),
        ..job("a", "t")
    };
    bench.put(delayed("a", "t", MINUTE)).await.expect("put");
    let first = bench.job("a").await;
    assert_eq!(bench.put(again(OnConflict::Reject)).await, exists(State::Delayed, "t"));
    let kept = bench.put(again(OnConflict::Keep)).await.expect("kept");
    let expected = (PutOutcome::Kept, State::Delayed, first.due_at);
    assert_eq!((kept.how, kept.state, kept.due_at), expected);
    assert_eq!(bench.job("a").await, first);

    let replaced = bench.put(again(OnConflict::Replace)).await.expect("replaced");
    assert_eq!((replaced.how, replaced.due_at), (PutOutcome::Replaced, bench.now().after(HOUR)));
    assert_eq!(bench.job("a").await.body, "2");

    // While the job is reserved, `keep` returns it and `replace` is refused. Once it is dead, the
    // attempts of a replacement start from zero.
    bench.kick(&id("a")).await.expect("kick");
    let popped = bench.pop_one("t").await;
    let kept = bench.put(again(OnConflict::Keep)).await.expect("kept");
    assert_eq!((kept.state, kept.due_at), (State::Reserved, popped.due_at));
    assert_eq!(bench.put(again(OnConflict::Replace)).await, Err(Refusal::Reserved));
    bench.bury(&popped.id, Some(popped.reservation)).await.expect("bury");
    bench.put(again(OnConflict::Replace)).await.expect("replaced");
    let third = bench.job("a").await;
    assert_eq!((third.attempt, third.state, third.error), (0, State::Delayed, None));
    assert_eq!(bench.finish(&id("a"), None).await, Err(Refusal::NeverPopped));
}

pub async fn only_a_job_of_the_same_topic_is_kept_or_replaced(bench: Bench) {
    let all = [OnConflict::Reject, OnConflict::Keep, OnConflict::Replace];
    for state in State::ALL {
        match state {
            State::Delayed => drop(bench.put(kept(delayed("a", "t", HOUR), HOUR)).await),
            State::Ready => drop(bench.kick(&id("a")).await.expect("kick")),
            State::Reserved => drop(bench.pop_one("t").await),
            State::Dead => bench.bury(&id("a"), None).await.expect("bury"),
            State::Finished => bench.finish(&id("a"), None).await.expect("finish"),
        }
        let before = bench.job("a").await;
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
        let before = bench.job("a").await;
        assert_eq!(before.state, state);
        let released = bench.release(&id("a"), None, Some(Millis::ZERO)).await;
        assert_eq!(released, Err(Refusal::NotReserved));
        assert_eq!(bench.job("a").await, before);
    };
    refused(State::Delayed).await;
    bench.kick(&id("a")).await.expect("kick");
    refused(State::Ready).await;
    // The last consumer may release the job until another consumer pops it.
    let popped = bench.pop_one("t").await;
    bench.promote_after(MINUTE).await;
    refused(State::Ready).await;
    bench.release(&id("a"), Some(popped.reservation), None).await.expect("released");
    let popped = bench.pop_one("t").await;
    bench.bury(&id("a"), Some(popped.reservation)).await.expect("bury");
    refused(State::Dead).await;
}

/// Returns the refusal of a put with the id of an existing job.
pub fn exists<T>(state: State, topic: &str) -> Result<T, Refusal> {
    Err(Refusal::Exists(Some(Living { state, topic: self::topic(topic) })))
}

pub async fn bodies_are_kept_byte_for_byte(bench: Bench) {
    let bodies: [&[u8]; 5] =
        [b"null", b"", b" { \"a\" :\n1 }\t", "\"\u{1F600}\\u0000\"".as_bytes(), &[b'x'; 300_000]];
    for (number, body) in bodies.into_iter().enumerate() {
        let name = format!("body:{number}");
        let popped = bench.popped(NewJob { body: body.into(), ..job(&name, "t") }).await;
        assert_eq!((&popped.body[..], &bench.job(&name).await.body[..]), (body, body));
    }
}

pub async fn several_pop_requests_in_one_call_get_different_jobs(bench: Bench) {
    let (bucket, ids) = bench.ids(6);
    for (id, topic) in ids.iter().zip(["t", "t", "t", "t", "u", "u"]) {
        bench.put(job(id.as_str(), topic)).await.expect("put");
    }
    let wants = vec![want("t", 3), want("u", 1), want("t", 3), want("none", 1)];
    let popped = bench.pop_in(bucket, wants).await;
    let found: Vec<_> = popped.iter().map(|popped| (popped.jobs.len(), popped.left)).collect();
    assert_eq!(found, [(3, 1), (1, 1), (1, 0), (0, 0)]);
    let jobs = popped.iter().flat_map(|popped| &popped.jobs);
    let reservations: BTreeSet<u64> = jobs.map(|job| job.reservation.bits()).collect();
    assert_eq!(reservations.len(), 5, "two jobs have the same reservation");
}

pub async fn a_new_list_of_waits_sets_max_attempts(bench: Bench) {
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
        let new = with(delayed(&name, "t", HOUR), |policy| {
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
    let kept = bench.job("job:0").await;
    assert_eq!((kept.policy.max_attempts, kept.policy.backoff), (2, Some(backoff("list:1"))));
}
