//! Tests of jobs that move to the topic `u` when they die in the topic `t`.

use super::{
    expiry::{dead, dies, put_for},
    *,
};

const U: &str = "u";

/// Returns a call that sets the target of `t` at the first server. It ends before the first put.
fn set() -> Call {
    let ask = Ask::SetDeadTo { topic: "t", target: U, server: 0 };
    Call { end: millis(0), ..call(0, ask, StoreResult::Done(Answer::DeadToSet)) }
}

/// Returns a put of a job with this number of attempts.
fn put_times(attempts: u32) -> Call {
    let mut put = put();
    if let Ask::Put { max_attempts, .. } = &mut put.ask {
        *max_attempts = attempts;
    }
    put
}

/// Returns a pop of the job from the topic `u`, where it is ready since 45 ms. Its reservation is
/// that of [`pop_again`].
fn fallen(start: u64, attempt: u32) -> Call {
    fallen_with(start, attempt, |_| {})
}

fn fallen_with(start: u64, attempt: u32, change: impl FnOnce(&mut Delivery)) -> Call {
    let pop = pop_with(start, attempt, |job| {
        (job.topic, job.due_at) = (U, at(45));
        job.reservation = format!("r{}", 10 + attempt).into();
        change(job);
    });
    Call { ask: Ask::Pop { topic: U, server: 0 }, ..pop }
}

/// Returns the release or bury with an answer that names the topic `u`.
fn moved(call: Call) -> Call {
    moved_to(U, call)
}

fn moved_to(topic: &'static str, call: Call) -> Call {
    let (fate, due_at) = (Fate::Moved(topic), at(45));
    let answer = match call.ask {
        Ask::Bury { .. } => Answer::Buried { fate },
        _ => Answer::Released { due_at, fate },
    };
    Call { outcome: StoreResult::Done(answer), ..call }
}

/// Returns a history of a job that has moved by a bury, and these calls.
fn after_a_move(calls: &[Call]) -> Vec<Call> {
    [&[set(), put(), pop(20, 1), moved(buried(40, 1))], calls].concat()
}

fn dead_in_u(is_expired: bool) -> Scan {
    let mut scan = stored(&["{dq:0}:dead:u"]);
    scan.entry("a".to_owned()).or_default().is_expired = is_expired;
    scan
}

#[test]
fn each_way_to_die_moves_a_job() {
    let lost = finish(60, 1, refused("reservation_lost"));
    is_clean(&after_a_move(&[lost, fallen(70, 1), finished(90, 11)]));
    let end = || [fallen(70, 1), finished(90, 11)];
    let by_release = [set(), put_times(1), pop(20, 1), moved(released(40, 1, 200))];
    is_clean(&[&by_release[..], &end()].concat());
    let late = |start| fallen_with(start, 1, |job| job.due_at = at(start));
    let by_ttr = [set(), put_times(1), pop(20, 1), late(1100), finished(1200, 11)];
    is_clean(&by_ttr);
    is_clean(&[set(), put_for(0, 500), late(600), finished(700, 11)]);
    // The release would put the next attempt off beyond the expiry.
    let until = |job: &mut Delivery| job.expires_at = Some(at(505));
    let held = [set(), put_for(0, 500), pop_with(20, 1, until), moved(released(40, 1, 600))];
    is_clean(&[&held[..], &end()].concat());
    // Without an answer, it may have died.
    let unsure = [set(), put(), pop(20, 1), perhaps(buried(40, 1))];
    is_clean(&[&unsure[..], &end()].concat());
    is_content(&unsure, &stored(&["{dq:0}:ready:u"]));
    is_content(&unsure, &stored(&["{dq:0}:reserved:t"]));
    is_clean(&[set(), put_times(1), lost_pop(20), late(1100), finished(1200, 11)]);
}

#[test]
fn a_moved_job_dies_again_and_is_kicked_where_it_is() {
    let again = fallen_with(300, 1, |job| {
        (job.due_at, job.reservation) = (at(205), "r12".into());
    });
    let end = [again, finished(400, 12)];
    let buried = after_a_move(&[fallen(70, 1), buried(100, 11)]);
    is_content(&buried, &dead_in_u(false));
    is_clean(&[&buried[..], &[kicked(200)], &end].concat());
    assert!(broken(&[&buried[..], &end].concat(), &Scan::new()).contains(&Rule::Buried));
    let spent = [set(), put_times(1), pop(20, 1), moved(released(40, 1, 0)), fallen(70, 1)];
    is_content(&spent, &dead_in_u(false));
}

#[test]
fn it_objects_to_a_moved_job_in_its_first_topic() {
    let gone = || deleted(1300, StoreResult::Done(Answer::Deleted));
    objects(&after_a_move(&[pop(100, 2), gone()]), Rule::OtherTopic);
    // This pop was in progress during the burial, but its attempt came after that of the burial.
    let overlaps = Call { start: millis(45), ..pop(60, 2) };
    objects(&after_a_move(&[overlaps, gone()]), Rule::OtherTopic);
    let shown = [set(), put(), pop(20, 1), perhaps(buried(40, 1)), fallen(70, 1)];
    let back = [&shown[..], &[pop(1100, 2), gone()]].concat();
    assert!(broken(&back, &Scan::new()).contains(&Rule::OtherTopic));
    let sets = |sets| broken(&after_a_move(&[]), &stored(sets));
    assert_eq!(sets(&["{dq:0}:ready:u"]), []);
    assert_eq!(sets(&["{dq:0}:reserved:t"]), [Rule::OtherTopic]);
    assert_eq!(sets(&["{dq:0}:dead:t", "{dq:0}:ready:u"]), [Rule::OtherTopic, Rule::Sets]);
    objects(&after_a_move(&[]), Rule::Lost);
}

#[test]
fn it_objects_to_a_move_without_a_death() {
    let end = |calls: &[Call]| [calls, &[fallen(1100, 1), finished(1200, 11)]].concat();
    let failed = Call { outcome: refused("reservation_lost"), ..buried(1050, 1) };
    let alive = [set(), put(), pop(20, 1)];
    for calls in [&alive[..2], &alive, &[set(), put_for(0, 2000)]] {
        objects(&end(calls), Rule::OtherTopic);
    }
    for last in [released(40, 1, 0), failed] {
        objects(&end(&[&alive[..], &[last]].concat()), Rule::OtherTopic);
    }
    let uncounted = released_with(40, 0, "r1", false, None);
    objects(&end(&[set(), put_times(1), pop(20, 1), uncounted]), Rule::OtherTopic);
    assert_eq!(broken(&[set(), put()], &stored(&["{dq:0}:ready:u"])), [Rule::OtherTopic]);
    // Nobody has set a target.
    objects(&end(&[put_times(1), pop(20, 1)]), Rule::OtherTopic);
    assert_eq!(broken(&[put()], &stored(&["{dq:0}:ready:u"])), [Rule::OtherTopic]);
    // A pop of another topic got the job.
    let stray = Call { ask: Ask::Pop { topic: "v", server: 0 }, ..pop(20, 1) };
    objects(&[put(), stray, finished(40, 1)], Rule::OtherTopic);
}

#[test]
fn it_objects_to_a_job_that_stays_dead_in_its_first_topic() {
    let expired = [set(), put_for(0, 500)];
    assert_eq!(broken(&expired, &dead(true)), [Rule::NotMoved]);
    let spent = [put_times(1), pop(20, 1)];
    assert_eq!(broken(&[&[set()], &spent[..]].concat(), &dead(false)), [Rule::NotMoved]);
    let told = [set(), put_times(1), pop(20, 1), dies(released(40, 1, 0))];
    assert_eq!(broken(&told, &stored(&["{dq:0}:ready:u"])), [Rule::NotMoved]);
    let told = [set(), put(), pop(20, 1), buried(40, 1)];
    assert_eq!(broken(&told, &stored(&["{dq:0}:ready:u"])), [Rule::NotMoved]);
    // The server of the put may not have known the target.
    let ask = Ask::SetDeadTo { topic: "t", target: U, server: 1 };
    let other = Call { ask, ..set() };
    let later = Call { start: millis(5), end: millis(15), ..set() };
    for unsure in [perhaps(set()), other, later] {
        is_content(&[std::slice::from_ref(&unsure), &spent[..]].concat(), &dead(false));
        is_content(&[unsure, put(), pop(20, 1), buried(40, 1)], &dead(false));
    }
}

#[test]
fn it_objects_to_an_answer_that_names_a_wrong_move() {
    let held = |last: Call| [set(), put(), pop(20, 1), last];
    let broken_by = |calls: &[Call]| broken(calls, &stored(&["{dq:0}:ready:u"]));
    assert_eq!(broken_by(&held(moved_to("v", buried(40, 1)))), [Rule::OtherTopic]);
    assert_eq!(broken_by(&[put(), pop(20, 1), moved(buried(40, 1))]), [Rule::OtherTopic]);
    // One attempt of three was used.
    let calls = [&held(moved(released(40, 1, 0)))[..], &[fallen(70, 1)]].concat();
    assert_eq!(broken_by(&calls), [Rule::OtherTopic]);
    let uncounted = moved(released_with(40, 0, "r1", false, None));
    assert_eq!(broken_by(&[set(), put_times(1), pop(20, 1), uncounted]), [Rule::OtherTopic]);
    assert_eq!(
        broken_by(&after_a_move(&[fallen(70, 1), moved(buried(90, 11))])),
        [Rule::OtherTopic]
    );
}

#[test]
fn a_move_ends_the_reservation() {
    objects(&after_a_move(&[finished(60, 1)]), Rule::StaleAccepted);
    let kept = after_a_move(&[touched(60, 1)]);
    assert_eq!(broken(&kept, &stored(&["{dq:0}:ready:u"])), [Rule::StaleAccepted]);
    let late = [set(), put_times(1), pop(20, 1), fallen_with(1100, 1, |job| job.due_at = at(1030))];
    objects(&[&late[..], &[finished(1200, 1)]].concat(), Rule::StaleAccepted);
    // Nothing has ended the TTR of the first consumer.
    let soon = [set(), put_times(1), pop(20, 1), fallen(500, 1), finished(600, 11)];
    objects(&soon, Rule::TwoHolders);
    // The consumer that holds the moved job can end it.
    let lost = finish(90, 11, refused("reservation_lost"));
    let calls = after_a_move(&[fallen(70, 1), lost]);
    assert_eq!(broken(&calls, &stored(&["{dq:0}:reserved:u"])), [Rule::LiveRefused]);
}

#[test]
fn attempts_times_and_expiry_begin_anew_after_a_move() {
    objects(&after_a_move(&[fallen(70, 2), finished(90, 12)]), Rule::Attempts);
    let twice = [fallen(70, 1), fallen_with(1200, 2, |job| job.due_at = at(1100))];
    is_clean(&after_a_move(&[&twice[..], &[finished(1300, 12)]].concat()));
    let early = fallen_with(70, 1, |job| job.due_at = at(30));
    let released = [set(), put_times(1), pop(20, 1), moved(released(40, 1, 0)), early];
    objects(&[&released[..], &[finished(90, 11)]].concat(), Rule::Early);
    let expires =
        fallen_with(600, 1, |job| (job.due_at, job.expires_at) = (at(505), Some(at(505))));
    let calls = [set(), put_for(0, 500), expires, finished(700, 11)];
    objects(&calls, Rule::Expired);
    let expired = [set(), put_for(0, 500)];
    is_content(&expired, &stored(&["{dq:0}:ready:u"]));
    assert_eq!(broken(&expired, &dead_in_u(true)), [Rule::Expired, Rule::Dead]);
    assert_eq!(broken(&after_a_move(&[]), &dead_in_u(false)), [Rule::Dead]);
    let other = fallen_with(70, 1, |job| job.body = "another".into());
    objects(&after_a_move(&[other, finished(90, 11)]), Rule::OtherBody);
}
