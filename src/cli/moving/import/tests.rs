use super::*;
use crate::job::{Millis, Policy, State, UnixMillis};

#[test]
fn a_duplicate_id_is_reported_with_both_lines() {
    let id = |n: u64| format!("job:{n}").parse::<JobId>().expect("an id");
    let ids = |numbers: &[u64]| {
        let mut ids = Ids::default();
        for (line, &number) in (2..).zip(numbers) {
            ids.add(&id(number), line);
        }
        ids
    };
    let thousand: Vec<u64> = (0..1000).collect();
    assert_eq!(ids(&thousand).first_duplicate(), None);
    assert_eq!(ids(&[&thousand[..], &[500]].concat()).first_duplicate(), Some((502, 1002)));
}
fn job(n: u64) -> Job {
    let (time, span) = (UnixMillis::new(1), Millis::new(1));
    Job {
        id: format!("job:{n}").parse().expect("an id"),
        topic: "t".parse().expect("a topic"),
        body: "null".into(),
        state: State::Ready,
        attempt: 0,
        is_snoozed: false,
        due_at: time,
        created_at: time,
        ttr: span,
        policy: Policy { ttr: span, ..Policy::STANDARD },
        reservation: None,
        reserved_until: None,
        died_at: None,
        error: None,
        ending: None,
        consumer: None,
        started_at: None,
        history: Vec::new(),
    }
}

#[test]
fn no_batch_has_more_jobs_than_the_store_takes_at_once() {
    let mut batches = Batches::new(Buckets::ONE, 250);
    let mut sizes = Vec::new();
    let mut count = |all: Vec<(Bucket, Vec<Job>)>| {
        sizes.extend(all.into_iter().map(|(_, jobs)| jobs.len()));
    };
    for n in 0..600 {
        count(batches.add(job(n)));
    }
    count(batches.all());
    assert_eq!(sizes, [250, 250, 100]);
}
