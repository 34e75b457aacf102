use futures::FutureExt;

use super::*;

fn waiters() -> (Waiters, Topic, Bucket) {
    let waiters = Waiters::new(Buckets::SIXTEEN, Box::new(|_| {}));
    let bucket = Buckets::SIXTEEN.all().last().expect("16 buckets");
    (waiters, "t".parse().expect("a topic"), bucket)
}

fn jobs(count: u64) -> ReadyJobs {
    ReadyJobs { count, highest: Priority::STANDARD }
}

fn claimed(waiters: &Waiters, topic: &Topic, count: u16) -> Vec<(Bucket, u64)> {
    waiters.claim(topic, count).into_iter().map(|(bucket, jobs)| (bucket, jobs.count)).collect()
}

#[test]
fn a_claim_leaves_the_rest_to_other_pops() {
    let (waiters, topic, bucket) = waiters();
    let places = waiters.register(std::slice::from_ref(&topic));
    waiters.mark(&topic, bucket, jobs(3));
    let since = waiters.last_marks(bucket, std::iter::once(&topic))[0];
    assert_eq!(claimed(&waiters, &topic, 2), [(bucket, 2)]);
    assert_eq!(claimed(&waiters, &topic, 2), [(bucket, 1)]);
    assert!(claimed(&waiters, &topic, 2).is_empty());
    waiters.note_left(&topic, bucket, since, (5, None));
    assert_eq!(claimed(&waiters, &topic, 9), [(bucket, 5)]);
    drop(places);
    waiters.note_left(&topic, bucket, since, (0, None));
    assert!(waiters.lock().is_empty(), "nothing is kept of a topic without consumers");
}

#[test]
fn a_mark_that_was_set_during_a_pop_survives_it() {
    let (waiters, topic, bucket) = waiters();
    let _places = waiters.register(std::slice::from_ref(&topic));
    waiters.mark(&topic, bucket, jobs(1));
    let since = waiters.last_marks(bucket, std::iter::once(&topic))[0];
    claimed(&waiters, &topic, 1);
    waiters.mark(&topic, bucket, jobs(1));
    waiters.note_left(&topic, bucket, since, (0, None));
    assert_eq!(claimed(&waiters, &topic, 1), [(bucket, 1)]);
}

#[test]
fn a_claim_takes_of_all_buckets() {
    let waiters = Waiters::new(Buckets::SIXTEEN, Box::new(|_| {}));
    let topic: Topic = "t".parse().expect("a topic");
    let _places = waiters.register(std::slice::from_ref(&topic));
    for bucket in Buckets::SIXTEEN.all() {
        waiters.mark(&topic, bucket, jobs(2));
    }
    let claims = claimed(&waiters, &topic, 100);
    assert!(claims.len() == 16 && claims.iter().all(|&(_, n)| n == 2), "{claims:?}");
    assert!(claimed(&waiters, &topic, 100).is_empty());
}

#[test]
fn topics_without_consumers_leave_nothing_behind() {
    let (waiters, topic, bucket) = waiters();
    waiters.mark(&topic, bucket, jobs(1));
    assert!(waiters.lock().is_empty());
}

#[test]
fn five_thousand_topics_take_two_polls_of_sixteen_buckets() {
    for (buckets, polls) in [(16, 2), (1_024, 40)] {
        let buckets = Buckets::try_from(buckets).expect("a number of buckets");
        let waiters = Waiters::new(buckets, Box::new(|_| {}));
        let topics: Vec<Topic> =
            (0..5_000).map(|n| format!("t{n}").parse().expect("a topic")).collect();
        let _places = waiters.register(&topics);
        let mut cursor = 0;
        let mut seen = std::collections::HashSet::new();
        for _ in 0..polls {
            let page = waiters.unmarked_in(Bucket::FIRST, &mut cursor);
            assert_eq!(page.len(), waiters.topics_of_a_poll());
            assert!(page.len() * usize::from(buckets.get()) <= 2 * MAX_LISTS_PER_POLL);
            seen.extend(page);
        }
        assert_eq!(seen.len(), topics.len(), "of {buckets:?}");
    }
}

#[test]
fn no_bucket_is_always_last_whatever_other_topics_do() {
    let waiters = Waiters::new(Buckets::SIXTEEN, Box::new(|_| {}));
    let topics: Vec<Topic> = ["a", "b"].map(|t| t.parse().expect("a topic")).to_vec();
    let _places = waiters.register(&topics);
    for bucket in Buckets::SIXTEEN.all().take(2) {
        for topic in &topics {
            waiters.mark(topic, bucket, jobs(1_000_000));
        }
    }
    let mut first = std::collections::HashSet::new();
    for _ in 0..200 {
        first.insert(claimed(&waiters, &topics[0], 10)[0].0);
        claimed(&waiters, &topics[1], 10);
    }
    assert_eq!(first.len(), 2);
}

#[test]
fn every_bucket_is_first_at_times_whatever_consumers_ask_for() {
    for (buckets, count) in [(3, 96), (5, 80), (16, 100), (25, 100), (16, 1)] {
        let buckets = Buckets::try_from(buckets).expect("a number of buckets");
        let waiters = Waiters::new(buckets, Box::new(|_| {}));
        let topic: Topic = "t".parse().expect("a topic");
        let _places = waiters.register(std::slice::from_ref(&topic));
        for bucket in buckets.all() {
            waiters.mark(&topic, bucket, jobs(1_000_000));
        }
        let firsts = (0..2_000).map(|_| claimed(&waiters, &topic, count)[0].0);
        let firsts: std::collections::HashSet<Bucket> = firsts.collect();
        assert_eq!(firsts.len(), usize::from(buckets.get()), "{buckets:?}, {count}");
    }
}

#[test]
fn a_mark_between_the_check_and_the_wait_wakes() {
    let (waiters, topic, bucket) = waiters();
    let places = waiters.register(std::slice::from_ref(&topic));
    let marked = places.marked();
    waiters.mark(&topic, bucket, jobs(1));
    assert!(marked.now_or_never().is_some());
}

#[test]
fn a_wake_up_passes_on_if_its_waiter_leaves() {
    let (waiters, topic, bucket) = waiters();
    let topics = std::slice::from_ref(&topic);
    let (first, second) = (waiters.register(topics), waiters.register(topics));
    let (mut woken, mut asleep) = (Box::pin(first.marked()), Box::pin(second.marked()));
    waiters.mark(&topic, bucket, jobs(1));
    assert!((&mut woken).now_or_never().is_some());
    assert!((&mut asleep).now_or_never().is_none());
    drop(first); // its client disconnected before it popped
    assert!((&mut asleep).now_or_never().is_some());
}

#[test]
fn other_servers_are_told_of_jobs_without_a_consumer_here() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    let waiters = Waiters::new(
        Buckets::SIXTEEN,
        Box::new(move |hint| tell.lock().expect("no panic").push(hint)),
    );
    let topic: Topic = "t".parse().expect("a topic");
    let bucket = Buckets::SIXTEEN.all().last().expect("16 buckets");
    let told = || std::mem::take(&mut *told.lock().expect("no panic"));
    let ready = |count| Hint::Ready { bucket, topic: topic.clone(), jobs: jobs(count) };
    waiters.ready(&topic, bucket, jobs(2));
    assert_eq!(told(), [ready(2)], "no consumer waits");
    let place = waiters.register(std::slice::from_ref(&topic));
    waiters.ready(&topic, bucket, jobs(1));
    assert_eq!(told(), [], "a consumer here has it");
    waiters.ready(&topic, bucket, jobs(3));
    assert_eq!(told(), [ready(2)]);
    waiters.mark(&topic, bucket, jobs(5));
    assert_eq!(told(), [], "a poll, or another server's own hint");
    drop(place);
    assert_eq!(told(), [ready(1)], "the consumer left without popping it");
    drop(waiters.register(std::slice::from_ref(&topic)));
    assert_eq!(told(), [], "once is enough");
}

#[test]
fn a_topic_without_consumers_is_forgotten() {
    let (waiters, topic, bucket) = waiters();
    let other = Buckets::SIXTEEN.all().next().expect("16 buckets");
    let two = [topic.clone(), "waited-for".parse().expect("a topic")];
    let _waiting = waiters.register(&two[1..]);
    let place = waiters.register(&two[..1]);
    waiters.mark(&topic, bucket, jobs(2)); // one is popped here, the other one elsewhere
    drop(place);
    assert_eq!(claimed(&waiters, &topic, 1).len(), 1, "kept for a consumer that asks again");
    assert_eq!(waiters.unmarked_in(other, &mut 0).len(), 2);
    let long_ago = Instant::now().checked_sub(KEPT_FOR).expect("this machine is up for longer");
    waiters.lock().get_mut(&topic).expect("kept").left_at = long_ago;
    waiters.lock().get_mut(&two[1]).expect("kept").left_at = long_ago;
    assert_eq!(waiters.unmarked_in(other, &mut 0), &two[1..]);
    assert_eq!(waiters.lock().len(), 1);
}

#[test]
fn topics_without_waiters_are_dropped_at_the_cap() {
    let (waiters, topic, bucket) = waiters();
    let many: Vec<Topic> =
        (0..MAX_KEPT).map(|n| format!("t{n}").parse().expect("a topic")).collect();
    let _waiting = waiters.register(&many);
    let place = waiters.register(std::slice::from_ref(&topic));
    waiters.mark(&topic, bucket, jobs(2));
    drop(place);
    assert_eq!(waiters.lock().len(), MAX_KEPT);
}

#[test]
fn polls_ask_only_for_topics_without_a_mark() {
    let (waiters, topic, bucket) = waiters();
    let _places = waiters.register(std::slice::from_ref(&topic));
    assert_eq!(waiters.unmarked_in(bucket, &mut 0), std::slice::from_ref(&topic));
    waiters.mark(&topic, bucket, jobs(1));
    assert!(waiters.unmarked_in(bucket, &mut 0).is_empty());
}
