//! Tests of releases that do not count the attempt, or change the body.

use super::*;

const BODY: Option<&str> = Some("body of a~1");

/// Returns an uncounted release by this reservation.
fn snoozed(start: u64, reservation: &str) -> Call {
    released_with(start, 0, reservation, false, None)
}

/// Returns a pop of a job with this reservation that was released at `start`, 10 ms before.
fn pop_by(start: u64, attempt: u32, reservation: &str) -> Call {
    pop_with(start, attempt, |job| {
        (job.reservation, job.due_at) = (reservation.into(), at(start - 5));
    })
}

fn by(reservation: &str, start: u64) -> Call {
    let ask = Ask::Finish { id: "a".into(), reservation: reservation.into() };
    call(start, ask, StoreResult::Done(Answer::Finished))
}

#[test]
fn an_uncounted_attempt_does_not_count() {
    let begun = [put(), pop(20, 1), snoozed(100, "r1")];
    let then = |calls: &[Call]| [&begun[..], calls].concat();
    is_clean(&then(&[pop_by(110, 1, "s1"), by("s1", 200)]));
    let twice = [pop_by(110, 1, "s1"), snoozed(150, "s1"), pop_by(160, 1, "s2"), by("s2", 200)];
    is_clean(&then(&twice));
    let counted = [pop_by(110, 1, "s1"), released_with(150, 0, "s1", true, None)];
    let counted = then(&counted);
    is_clean(&[&counted[..], &[pop_by(160, 2, "s2"), by("s2", 200)]].concat());
    objects(&then(&[pop_by(110, 2, "s1"), by("s1", 200)]), Rule::Attempts);
    // The second attempt counts.
    objects(&[&counted[..], &[pop_by(160, 1, "s2"), by("s2", 200)]].concat(), Rule::Attempts);
    objects(&[&counted[..], &[pop_by(160, 3, "s2"), by("s2", 200)]].concat(), Rule::Attempts);
    // A counted release counts, of course.
    let counts = [put(), pop(20, 1), released(100, 1, 0), pop_by(110, 1, "s1"), by("s1", 200)];
    objects(&counts, Rule::Attempts);
}

#[test]
fn an_uncounted_release_without_an_answer_counts_or_not() {
    let perhaps = perhaps(snoozed(100, "r1"));
    for attempt in [1, 2] {
        let next = pop_by(1100, attempt, "s1");
        is_clean(&[put(), pop(20, 1), perhaps.clone(), next, by("s1", 1200)]);
    }
    let refused = Call { outcome: refused("reservation_lost"), ..snoozed(1100, "r1") };
    let next = pop_by(1110, 1, "s1");
    objects(&[put(), pop(20, 1), refused, next, by("s1", 1200)], Rule::Attempts);
    // A pop that waited may have got the job before or after the release.
    let waited = Call { start: millis(10), ..pop_by(110, 1, "s1") };
    is_clean(&[put(), pop(20, 1), snoozed(100, "r1"), waited, by("s1", 200)]);
}

#[test]
fn it_objects_to_two_holders_after_an_uncounted_release() {
    let begun = [put(), pop(20, 1), snoozed(100, "r1"), pop_by(110, 1, "s1")];
    let then = |calls: &[Call]| [&begun[..], calls].concat();
    objects(&then(&[pop_by(500, 2, "s2"), by("s2", 600)]), Rule::TwoHolders);
    let stale = released_with(1220, 0, "s1", true, None);
    objects(&then(&[pop_by(1200, 2, "s2"), stale, by("s2", 1250)]), Rule::StaleAccepted);
}

#[test]
fn it_objects_to_the_old_body_after_a_release_with_another() {
    let release = |start| released_with(start, 0, "r1", true, BODY);
    let new = |start, attempt| {
        pop_with(start, attempt, |job| {
            (job.body, job.due_at) = ("body of a~1".into(), at(105));
        })
    };
    let old = pop_with(120, 2, |job| job.due_at = at(105));
    is_clean(&[put(), pop(20, 1), release(100), new(120, 2), finished(200, 2)]);
    let begun = [put(), pop(20, 1), release(100)];
    let then = |calls: &[Call]| [&begun[..], calls].concat();
    objects(&then(&[old.clone(), finished(200, 2)]), Rule::OtherBody);
    // The body stays for all later attempts, until another release changes it.
    let third = pop_with(1200, 3, |job| job.due_at = at(105));
    objects(&then(&[new(120, 2), third, finished(1300, 3)]), Rule::OtherBody);
    let third = released_with(200, 0, "r2", true, Some("body of a~2"));
    let last = |body: &str| pop_with(220, 3, |job| (job.body, job.due_at) = (body.into(), at(205)));
    let thrice = |body| then(&[new(120, 2), third.clone(), last(body), finished(300, 3)]);
    is_clean(&thrice("body of a~2"));
    objects(&thrice("body of a~1"), Rule::OtherBody);
    // Also in the store.
    assert_eq!(broken(&begun, &stored(&["{dq:0}:ready:t"])), [Rule::OtherBody]);
    // A release without an answer has changed the body or not; one that was refused has not.
    let perhaps = perhaps(release(100));
    for next in [old, new(120, 2)] {
        let calls = [put(), pop(20, 1), perhaps.clone(), next.clone(), finished(200, 2)];
        is_clean(&calls);
        let refused = Call { outcome: refused("store_full"), ..release(100) };
        let calls = [put(), pop(20, 1), refused, next, finished(200, 2)];
        assert!(broken(&calls, &Scan::new()).contains(&Rule::TwoHolders));
    }
    let refused = Call { outcome: refused("reservation_lost"), ..release(1100) };
    let late = pop_with(1120, 2, |job| job.body = "body of a~1".into());
    objects(&[put(), pop(20, 1), refused, late, finished(1200, 2)], Rule::OtherBody);
}

#[test]
fn a_changed_body_names_the_put_without_an_id() {
    // The first delivery is not in the history, but the release of its holder is.
    let release = released_with(100, 0, "r1", true, BODY);
    let late = pop_with(120, 2, |job| (job.body, job.due_at) = ("body of a~1".into(), at(105)));
    let put = nameless(StoreResult::Unknown);
    is_clean(&[put, lost_pop(20), release, late, finished(200, 2)]);
}
