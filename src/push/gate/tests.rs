use super::*;

const PLACE: Place = Place { index: 0, servers: 1 };
const AVAILABLE: Outcome = Outcome::Available { is_busy: false };
const TIME: Duration = Duration::from_millis(3);

fn gate(now: Instant) -> Arc<Gate> {
    let gate = Arc::new(Gate::new("http://a:80".to_owned(), now));
    gate.set_share(&"t".parse().expect("a topic"), 4);
    gate
}

/// Lets a request enter in a second of its own, and end so.
fn request(gate: &Arc<Gate>, second: u64, outcome: Outcome) {
    let mut pass = gate.enter(PLACE, second, Instant::now()).expect("a pass");
    pass.sent();
    pass.set_result(outcome, TIME);
}

fn open() -> Arc<Gate> {
    let gate = gate(Instant::now());
    (0..10).for_each(|_| request(&gate, 0, Outcome::Unavailable));
    gate
}

#[test]
fn an_open_gate_is_probed_once_a_second() {
    let (gate, now) = (open(), Instant::now());
    assert_eq!(gate.breaker(), BreakerState::Open);
    let place = Place { index: 1, servers: 2 };
    assert!(gate.enter(place, 10, now).is_none(), "the other server has the turn");
    let probe = gate.enter(place, 11, now).expect("a probe");
    assert!(gate.enter(place, 11, now).is_none(), "the second has its probe");
    drop(probe);
    let mut probe = gate.enter(place, 11, now).expect("the probe was given back");
    probe.sent();
    drop(probe);
    assert!(gate.enter(place, 11, now).is_none(), "the probe was sent");
}

#[test]
fn the_requests_of_a_recovery_double() {
    let gate = open();
    gate.set_share(&"u".parse().expect("a topic"), 8);
    request(&gate, 10, AVAILABLE);
    for expected in [1, 2, 4, 8] {
        assert_eq!(gate.breaker(), BreakerState::Recovering);
        let now = Instant::now();
        let mut passes: Vec<Pass> =
            std::iter::from_fn(|| gate.enter(PLACE, 11, now)).take(100).collect();
        assert_eq!(passes.len(), expected);
        passes.iter_mut().for_each(|pass| pass.set_result(AVAILABLE, TIME));
    }
    // It reaches the shares of all pushes.
    assert_eq!(gate.breaker(), BreakerState::Closed);
}

#[test]
fn requests_from_before_a_change_do_not_change_the_breaker() {
    let (gate, now) = (gate(Instant::now()), Instant::now());
    let mut old: Vec<Pass> = (0..20).filter_map(|_| gate.enter(PLACE, 0, now)).collect();
    (0..10).for_each(|_| request(&gate, 0, Outcome::Unavailable));
    assert!(!old[0].is_valid(), "it was not sent before the breaker opened");
    for mut pass in old.drain(..5) {
        pass.set_result(AVAILABLE, TIME);
    }
    assert_eq!(gate.breaker(), BreakerState::Open);
    request(&gate, 1, AVAILABLE);
    for mut pass in old.drain(..) {
        pass.set_result(Outcome::Unavailable, TIME);
    }
    (0..4).for_each(|_| request(&gate, 1, AVAILABLE));
    assert_eq!(gate.breaker(), BreakerState::Closed);
    request(&gate, 1, Outcome::Unavailable);
    assert_eq!(gate.breaker(), BreakerState::Closed, "the failures before do not count");
}

#[test]
fn a_request_without_a_result_changes_nothing() {
    let gate = open();
    drop(gate.enter(PLACE, 10, Instant::now()).expect("a probe"));
    assert_eq!(gate.breaker(), BreakerState::Open);
}

#[test]
fn states_that_no_request_ends_end_by_time() {
    let gate = open();
    gate.lock().age(Instant::now() + FORGOTTEN_AFTER / 2);
    assert_eq!(gate.breaker(), BreakerState::Open);
    gate.lock().age(Instant::now() + FORGOTTEN_AFTER);
    assert_eq!(gate.breaker(), BreakerState::Recovering);
    let now = Instant::now() + FORGOTTEN_AFTER;
    let pass = gate.enter(PLACE, 10, now).expect("a pass");
    assert!(gate.enter(PLACE, 10, now + RECOVERED_AFTER / 2).is_none());
    gate.lock().age(now + RECOVERED_AFTER);
    assert_eq!(gate.breaker(), BreakerState::Recovering, "it has refused a request");
    gate.lock().age(now + RECOVERED_AFTER * 2);
    assert_eq!(gate.breaker(), BreakerState::Closed);
    drop(pass);
}

#[test]
fn the_delay_doubles_each_time_it_has_passed() {
    let (start, gate) = (Instant::now(), open());
    let at = |seconds| gate.retry_delay(start + Duration::from_secs(seconds)).get();
    assert_eq!([at(0), at(1), at(4)], [5_000; 3]);
    assert_eq!([at(5), at(14)], [10_000; 2]);
    assert_eq!(at(15), 20_000);
    assert_eq!([at(100), at(200), at(400), at(1_000)], [40_000, 80_000, 160_000, 300_000]);
    assert_eq!(at(2_000), 300_000);
    request(&gate, 1, Outcome::Available { is_busy: true });
    assert_eq!(at(2_001), 300_000, "a job of a batch must wait");
    request(&gate, 1, AVAILABLE);
    assert_eq!(at(2_002), 5_000);
}
