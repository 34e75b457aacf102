//! Filters of jobs: lists, kicks and purges of the jobs that match.

use crate::store::calls::{FILTERS, filter};
use crate::store::model::matches;
use crate::store::prelude::*;

fn filter_of(error: Option<&str>, id: Option<&str>) -> JobFilter {
    let text = |text: &str| text.to_owned();
    JobFilter { error_contains: error.map(text), id_contains: id.map(text), ..JobFilter::default() }
}

fn step(state: State, filter: &JobFilter, after: Option<JobPosition>, limit: usize) -> Selection {
    Selection { topic: topic("t"), state, filter: filter.clone(), after, limit }
}

/// Puts jobs of all states, with and without errors, whose times differ. Returns their ids.
async fn arrange(bench: &Bench) -> Vec<JobId> {
    let mut ids = Vec::new();
    for number in 0..30 {
        let new = |name: &str| {
            let new = job(&format!("job:{number}:{name}"), "t");
            with(new, |policy| {
                policy.priority = Priority::new(number % 10).expect("a digit");
                policy.ttr = if name == "lapsed" { SECOND } else { HOUR };
                policy.max_attempts = if number % 2 == 0 { 1 } else { 9 };
                policy.backoff = (number % 3 == 0).then(|| backoff("list:60000"));
                policy.expires_after = (name == "expiring").then_some(SECOND);
            })
        };
        let names = ["ready", "held", "released", "buried", "lapsed", "expiring", "finished"];
        let name = names[usize::from(number) % names.len()];
        let new = if name == "finished" { kept(new(name), HOUR) } else { new(name) };
        ids.push(new.id.clone());
        bench.put(new).await.expect("put");
        bench.advance(SECOND);
        if name == "ready" || name == "expiring" {
            bench.promote_after(SECOND).await;
            continue;
        }
        let mut popped = bench.pop("t", 9).await;
        let at = popped.iter().position(|job| job.id == *ids.last().expect("one")).expect("popped");
        let mine = popped.swap_remove(at);
        for other in popped {
            bench.unpop(&other.id, other.reservation).await.expect("given back");
        }
        match name {
            "released" => {
                let delay = (number % 2 == 1).then_some(HOUR);
                let error = Some("released: no shop 7 (héllo)".to_owned());
                let release = Release { error, delay, ..Release::new(held(&mine)) };
                bench.release_by(release).await.expect("released");
            }
            "buried" => {
                let error = Some(format!("buried: %d+ [a-z]* no shop {number}"));
                let bury = vec![Bury { held: held(&mine), error }];
                bench.call::<verb::Bury>(bench.bucket(&mine.id), bury).await;
            }
            "lapsed" => bench.promote_after(MINUTE).await,
            "finished" => {
                bench.finish(&mine.id, Some(mine.reservation)).await.expect("finished");
            }
            _ => {}
        }
    }
    ids
}

/// Returns the sorted ids that all steps through a state find.
async fn listed(bench: &Bench, state: State, filter: &JobFilter, limit: usize) -> Vec<JobId> {
    let range = JobRange { filter: filter.clone(), after: None, limit };
    let jobs = bench.list_all("t", state, range, async |_| ()).await;
    let mut ids: Vec<JobId> = jobs.into_iter().map(|job| job.id).collect();
    ids.sort();
    ids
}

/// Returns the number of jobs that all steps of a count, kick or purge find.
pub async fn all_steps(
    bench: &Bench,
    limit: usize,
    mut each: impl AsyncFnMut(Bucket, Option<JobPosition>, usize) -> Matched<u64>,
) -> u64 {
    let mut sum = 0;
    for bucket in bench.store.buckets().all() {
        let mut after = None;
        loop {
            let Matched { done, next } = each(bucket, after, limit).await;
            assert!(done <= limit as u64);
            sum += done;
            after = next;
            if after.is_none() {
                break;
            }
        }
    }
    sum
}

fn filters(bench: &Bench, state: State) -> Vec<JobFilter> {
    let choices = (0..FILTERS).map(|choice| filter(choice, state, bench.now()));
    let before = Some(bench.now().before(Millis::new(99_000)));
    let (past, any) = (Period { from: None, before }, Period::default());
    let (died, due) = if state == State::Dead { (past, any) } else { (any, past) };
    let long_ago = JobFilter { died, due, ..JobFilter::default() };
    let texts = [
        filter_of(Some("no shop"), None),
        filter_of(Some("(héllo)"), None),
        filter_of(Some("%d+ [a-z]*"), None),
        filter_of(Some("No shop"), None),
        filter_of(Some("expired"), None),
        filter_of(Some("no shop"), Some(":1")),
        filter_of(None, Some("job:2")),
        filter_of(None, Some("JOB")),
        JobFilter { id_contains: Some(":".to_owned()), ..long_ago.clone() },
    ];
    choices.chain([long_ago]).chain(texts).collect()
}

pub async fn a_filter_selects_by_what_a_get_shows(bench: Bench) {
    let ids = arrange(&bench).await;
    let mut jobs = Vec::new();
    for id in &ids {
        jobs.extend(bench.get(id).await);
    }
    assert_eq!(jobs.len(), ids.len());
    let mut found_by_state = [0; 5];
    for state in State::ALL {
        for filter in filters(&bench, state) {
            let mine = jobs.iter().filter(|job| job.state == state && matches(job, &filter));
            let mut expected: Vec<JobId> = mine.map(|job| job.id.clone()).collect();
            expected.sort();
            for limit in [1, 3, 1000] {
                let found = listed(&bench, state, &filter, limit).await;
                assert_eq!(found, expected, "{state:?} {limit} {filter:?}");
                let counted = all_steps(&bench, limit, async |bucket, after, limit| {
                    let step = step(state, &filter, after, limit);
                    bench.store.count_matching(bucket, step).await.expect("a count")
                });
                assert_eq!(counted.await, expected.len() as u64, "{state:?} {filter:?}");
            }
            found_by_state[state as usize] += expected.len();
        }
    }
    assert!(found_by_state.iter().all(|found| *found > 0), "{found_by_state:?}");
    for job in jobs {
        assert_eq!(bench.get(&job.id).await, Some(job), "nothing has changed");
    }
}

pub async fn a_purge_by_a_filter_takes_what_matches_and_no_more(bench: Bench) {
    let ids = arrange(&bench).await;
    for state in State::ALL {
        for filter in filters(&bench, state).into_iter().filter(|filter| !filter.is_empty()) {
            let mut before = Vec::new();
            for id in &ids {
                before.extend(bench.get(id).await);
            }
            let purged = all_steps(&bench, 2, async |bucket, after, limit| {
                let step = step(state, &filter, after, limit);
                bench.call::<verb::PurgeMatching>(bucket, step).await
            })
            .await;
            for job in &before {
                let is_gone = job.state == state && matches(job, &filter);
                let left = bench.get(&job.id).await;
                assert_eq!(left.as_ref(), (!is_gone).then_some(job), "{state:?} {filter:?}");
            }
            let is_gone = |job: &&Job| job.state == state && matches(job, &filter);
            assert_eq!(purged, before.iter().filter(is_gone).count() as u64);
        }
    }
}

pub async fn a_step_examines_a_bounded_number_of_jobs(bench: Bench) {
    let (bucket, ids) = bench.ids(2_300);
    for ids in ids.chunks(1_000) {
        let jobs = ids.iter().map(|id| delayed(id.as_str(), "t", HOUR)).collect();
        assert!(bench.call::<verb::Put>(bucket, jobs).await.iter().all(Result::is_ok));
    }
    let last = ids.last().expect("one");
    let filter = filter_of(None, Some(last.as_str()));
    let (mut after, mut steps) = (None, Vec::new());
    loop {
        let step = step(State::Delayed, &filter, after, 9);
        let Matched { done, next } = bench.call::<verb::PurgeMatching>(bucket, step).await;
        steps.push(done);
        after = next;
        if after.is_none() {
            break;
        }
    }
    assert!(steps.len() >= 3, "{steps:?}");
    assert_eq!(steps.iter().sum::<u64>(), 1, "{steps:?}");
    assert_eq!(bench.get(last).await, None);
}

#[tokio::test]
async fn redis_counts_a_range_of_due_times_in_one_step() {
    let bench = Bench::one_bucket_redis().await;
    let begin = bench.now();
    let at = |number: u64| Millis::new(number * SECOND.get());
    let put = |number: u64| {
        let new = delayed(&format!("job:{number}"), "t", at(number));
        with(new, |policy| policy.priority = Priority::new((number % 10) as u8).expect("a digit"))
    };
    for numbers in (1..1_201).collect::<Vec<_>>().chunks(200) {
        let jobs = numbers.iter().map(|&number| put(number)).collect();
        bench.call::<verb::Put>(Bucket::FIRST, jobs).await;
    }
    let due = Period { from: Some(begin.after(at(101))), before: Some(begin.after(at(1_001))) };
    let filter = JobFilter { due, ..JobFilter::default() };
    for state in [State::Delayed, State::Ready] {
        let count = async |after, limit| {
            let step = step(state, &filter, after, limit);
            bench.store.count_matching(Bucket::FIRST, step).await.expect("counted")
        };
        assert_eq!(count(None, usize::MAX).await, Matched { done: 900, next: None });
        assert_eq!(count(None, 900).await, Matched { done: 900, next: None });
        let first = count(None, 433).await;
        assert_eq!(first.done, 433);
        let rest = count(Some(first.next.expect("more jobs follow")), usize::MAX).await;
        assert_eq!(rest, Matched { done: 467, next: None }, "{state:?}");
        bench.advance(HOUR);
        while !bench.promote().await.topics.is_empty() {}
    }
}
