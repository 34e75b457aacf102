use super::*;

#[test]
fn deadlines_are_polled_rarely_without_doubt() {
    assert!(Known::default().wants_deadline(false), "the first poll");
    let mut known = Known { last_poll: Some(Instant::now()), ..Known::default() };
    assert!(!known.wants_deadline(false) && known.wants_deadline(true));
    known.polls_without_deadline = SKIPPED_POLLS - 1;
    assert!(known.wants_deadline(false), "hints may be lost");
}

fn schedule_that_knows(next_in: Duration) -> (Deadlines, UnixMillis) {
    let mut deadlines = Deadlines::new(1);
    let at = UnixMillis::new(1_000_000);
    deadlines.learn(Bucket::FIRST, Some(Next { at, wait: next_in }));
    (deadlines, at)
}

#[test]
fn a_nearer_deadline_is_placed_by_the_clock_of_the_store() {
    let (mut deadlines, at) = schedule_that_knows(Duration::from_secs(60));
    let (_, far) = deadlines.known[0].next.expect("known");
    deadlines.report(Bucket::FIRST, UnixMillis::new(at.get() - 10_000));
    let (nearer, when) = deadlines.known[0].next.expect("known");
    assert_eq!(nearer.get(), at.get() - 10_000);
    let apart = far - when;
    assert!(apart.abs_diff(Duration::from_secs(10)) < Duration::from_millis(1), "{apart:?}");
    deadlines.report(Bucket::FIRST, at);
    assert_eq!(deadlines.known[0].next.expect("known").0, nearer, "a later one changes nothing");
}

#[test]
fn where_the_clock_is_not_known_the_store_is_asked_at_once() {
    let mut deadlines = Deadlines::new(1);
    deadlines.report(Bucket::FIRST, UnixMillis::new(1_000_000));
    let (_, when) = deadlines.known[0].next.expect("known");
    assert!(when <= Instant::now());
}

#[test]
fn a_pause_delays_a_promote_but_not_beyond_its_end() {
    let (mut deadlines, at) = schedule_that_knows(Duration::ZERO);
    let now = Instant::now();
    let [paused, over] = [now + Duration::from_secs(60), now - Duration::from_secs(1)];
    let known = &mut deadlines.known[0];
    let (_, when) = known.next.expect("known");
    known.paced_until = Some(paused);
    assert_eq!(known.promote_at(), Some(paused));
    known.paced_until = Some(over);
    assert_eq!(known.promote_at(), Some(when));
    // A deadline that a transition reports waits too.
    known.paced_until = Some(paused);
    deadlines.report(Bucket::FIRST, UnixMillis::new(at.get() - 10_000));
    assert_eq!(deadlines.known[0].promote_at(), Some(paused));
    deadlines.known[0].next = None;
    assert_eq!(deadlines.known[0].promote_at(), None);
}
