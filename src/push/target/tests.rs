use super::*;

const FAILED: Ended = Ended {
    is_delivered: false,
    health: Health::Unavailable,
    is_busy: false,
    time: Duration::from_millis(3),
};
const DELIVERED: Ended = Ended { is_delivered: true, health: Health::Available, ..FAILED };

fn request(target: &Target, ended: Ended, now: Instant) {
    let epoch = target.begin(4);
    target.end(epoch, Some(ended), now);
}

fn open(now: Instant) -> Target {
    let target = Target::new("http://a:80".to_owned(), now);
    (0..10).for_each(|_| request(&target, FAILED, now));
    target
}

#[test]
fn an_open_target_is_probed_once_a_second() {
    let target = open(Instant::now());
    assert_eq!((target.breaker(), target.room()), (BreakerState::Open, Some(0)));
    let place = Place { index: 1, servers: 2 };
    assert!(!target.take_probe(place, 10), "the other server has the turn");
    assert!(target.take_probe(place, 11) && !target.take_probe(place, 11));
    target.give_probe_back(9);
    assert!(!target.take_probe(place, 11), "the probe of another second");
    target.give_probe_back(11);
    assert!(target.take_probe(place, 11));
    request(&target, DELIVERED, Instant::now());
    assert_eq!((target.breaker(), target.room()), (BreakerState::Recovering, Some(1)));
    assert!(!target.take_probe(place, 13));
    let epoch = target.begin(4);
    assert_eq!(target.room(), Some(0));
    target.end(epoch, None, Instant::now());
    assert_eq!((target.room(), target.in_flight()), (Some(1), 0));
}

#[test]
fn requests_from_before_a_change_do_not_change_the_breaker() {
    let now = Instant::now();
    let target = Target::new("http://a:80".to_owned(), now);
    let old: Vec<u64> = (0..20).map(|_| target.begin(4)).collect();
    (0..10).for_each(|_| request(&target, FAILED, now));
    old[..5].iter().for_each(|epoch| target.end(*epoch, Some(DELIVERED), now));
    assert_eq!(target.breaker(), BreakerState::Open);
    request(&target, DELIVERED, now);
    assert_eq!((target.room(), target.in_flight()), (Some(1), 15));
    old[5..].iter().for_each(|epoch| target.end(*epoch, Some(FAILED), now));
    (0..4).for_each(|_| request(&target, DELIVERED, now));
    assert_eq!((target.breaker(), target.in_flight()), (BreakerState::Closed, 0));
    request(&target, FAILED, now);
    assert_eq!(target.breaker(), BreakerState::Closed, "the failures before do not count");
}

#[test]
fn a_request_that_shows_nothing_changes_nothing() {
    let target = open(Instant::now());
    request(&target, Ended { health: Health::Unknown, ..FAILED }, Instant::now());
    assert_eq!(target.breaker(), BreakerState::Open);
}

#[test]
fn an_open_breaker_without_probes_is_forgotten() {
    let now = Instant::now();
    assert_eq!(open(now).breaker(), BreakerState::Open);
    if let Some(past) = now.checked_sub(FORGOTTEN_AFTER) {
        let target = open(past);
        assert_eq!((target.breaker(), target.room()), (BreakerState::Recovering, Some(1)));
    }
}

#[test]
fn the_delay_doubles_each_time_it_has_passed() {
    let start = Instant::now();
    let target = open(start);
    let at = |seconds| target.retry_delay(start + Duration::from_secs(seconds)).get();
    assert_eq!([at(0), at(1), at(4)], [5_000; 3]);
    assert_eq!([at(5), at(14)], [10_000; 2]);
    assert_eq!(at(15), 20_000);
    assert_eq!([at(100), at(200), at(400), at(1_000)], [40_000, 80_000, 160_000, 300_000]);
    assert_eq!(at(2_000), 300_000);
    request(&target, Ended { is_busy: true, ..DELIVERED }, start);
    assert_eq!(at(2_001), 300_000, "a job of a batch must wait");
    request(&target, DELIVERED, start);
    assert_eq!(at(2_002), 5_000);
}
