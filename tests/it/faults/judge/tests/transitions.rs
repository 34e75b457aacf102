//! Tests of touches, burials, kicks, schedules and pauses, and of their effect on attempts.

use super::*;

#[test]
fn it_objects_to_attempts_that_were_counted_and_not_made() {
    objects(&[put(), pop(20, 2), finished(40, 2)], Rule::Attempts);
    objects(&[put(), pop(20, 1), pop(1100, 3), finished(1120, 3)], Rule::Attempts);
    is_clean(&[put(), lost_pop(20), pop(1100, 2), finished(1120, 2)]);
    // Any failed call, even shortly after the pop, means that a store call of a server may have had
    // no answer, and that a pop may have used an attempt.
    let away = finish(1200, 9, refused("store_unavailable"));
    is_clean(&[put(), pop(1100, 2), away, finished(1220, 2)]);
    // Failures that the job's state explains do not count, and neither do failures long before or
    // after.
    let explained = finish(20, 9, refused("reservation_lost"));
    objects(&[put(), explained, pop(1100, 2), finished(1120, 2)], Rule::Attempts);
    objects(&[put(), pop(1100, 2), finished(1120, 2), lost_pop(60_000)], Rule::Attempts);
    let (hour, due) = (3_600_000, |job: &mut Delivery| job.due_at = at(3_600_005));
    let late = [lost_pop(20), put_at(hour, 0), pop_with(hour + 20, 2, due), finished(hour + 40, 2)];
    objects(&late, Rule::Attempts);
}

#[test]
fn a_touch_holds_a_job_for_longer() {
    let lost = |start| finish(start, 1, refused("reservation_lost"));
    let touched = |calls: &[Call]| [&[put(), pop(20, 1), touched(800, 1)], calls].concat();
    // The first TTR ends at 1020.
    objects(&touched(&[pop(1100, 2), finished(1200, 2)]), Rule::TwoHolders);
    objects(&touched(&[lost(1100), pop(1900, 2), finished(1950, 2)]), Rule::LiveRefused);
    // From 1805 on, another consumer may have the job.
    is_clean(&touched(&[pop(1810, 2), finished(1850, 2)]));
    is_clean(&touched(&[pop(1810, 2), lost(1830), finished(1850, 2)]));
    // Without an answer, the touch may or may not have been carried out.
    let perhaps = perhaps(self::touched(800, 1));
    is_clean(&[put(), pop(20, 1), perhaps, pop(1100, 2), finished(1200, 2)]);
}

#[test]
fn it_objects_to_a_stale_call_that_was_accepted() {
    objects(&[put(), pop(20, 1), pop(1100, 2), finished(1200, 1)], Rule::StaleAccepted);
    let stale = |act| [put(), pop(20, 1), pop(1100, 2), act, finished(1300, 2)];
    for act in [released(1200, 1, 0), touched(1200, 1), buried(1200, 1)] {
        objects(&stale(act), Rule::StaleAccepted);
    }
    is_clean(&stale(touched(1200, 2)));
    let refused = finish(1200, 1, refused("reservation_lost"));
    is_clean(&stale(refused));
}

#[test]
fn it_objects_to_a_buried_job_that_is_delivered() {
    let calls = [put(), pop(20, 1), buried(100, 1), pop_again(200, 2), finished(300, 12)];
    objects(&calls, Rule::Buried);
    // A kick before the burial, after the delivery, or without success does not count.
    let none = kick(150, refused("store_unavailable"));
    for (at, kick) in [(1, kicked(10)), (4, kicked(250)), (3, none)] {
        objects(&[&calls[..at], &[kick], &calls[at..]].concat(), Rule::Buried);
    }
    // A kick without an answer may have been carried out at any later time.
    let later = [perhaps(kicked(150)), pop_again(5000, 1), finished(5100, 11)];
    is_clean(&[&calls[..3], &later].concat());
    // A burial without an answer may not have been carried out.
    let perhaps = perhaps(buried(100, 1));
    is_clean(&[put(), pop(20, 1), perhaps, pop(1100, 2), finished(1200, 2)]);
}

#[test]
fn after_a_kick_attempts_count_from_zero() {
    let begun = [put(), pop(20, 1), pop(1100, 2), buried(1200, 2), kicked(1300)];
    let then = |calls: &[Call]| [&begun[..], calls].concat();
    is_clean(&then(&[pop_again(1400, 1), finished(1500, 11)]));
    objects(&then(&[pop_again(1400, 3), finished(1500, 13)]), Rule::Attempts);
    // Two deliveries must not have the same reservation.
    let old = pop_with(1400, 1, |job| job.reservation = "r1".into());
    assert_eq!(broken(&then(&[old]), &stored(&["{dq:0}:reserved:t"])), [Rule::TwoHolders]);
    // A job that was not dead when it was kicked keeps its count of attempts.
    let delayed = [put(), pop(20, 1), released(100, 1, 5000), kicked(200)];
    let moved = pop_with(300, 2, |job| job.due_at = at(205));
    is_clean(&[&delayed[..], &[moved, finished(400, 2)]].concat());
}

#[test]
fn a_kick_makes_a_delayed_job_due() {
    let now = pop_with(100, 1, |job| job.due_at = at(55));
    is_clean(&[put_at(0, 500), kicked(50), now.clone(), finished(200, 1)]);
    objects(&[put_at(0, 500), now, finished(200, 1)], Rule::Early);
    let refused = kick(50, refused("job_reserved"));
    objects(&[put_at(0, 500), refused, pop(100, 1), finished(200, 1)], Rule::Early);
}

#[test]
fn it_objects_to_a_rescheduled_job_before_its_new_time() {
    let at_new = |start, due: u64| pop_with(start, 1, move |job| job.due_at = at(due));
    let moved = |pop| [put_at(0, 100), rescheduled(20, 500), pop, finished(900, 1)];
    is_clean(&moved(at_new(525, 525)));
    objects(&moved(at_new(400, 105)), Rule::Early);
    // The first pop is too early by the clients' clock, and the second by the store's clock.
    let early = pop_with(505, 1, |job| (job.due_at, job.reserved_until) = (at(525), at(1530)));
    objects(&moved(early), Rule::Early);
    objects(&moved(at_new(600, 520)), Rule::Early);
    // This pop began before the change, but got the job after the change, at the old due time.
    let waited = Call { start: millis(10), ..at_new(400, 105) };
    objects(&moved(waited), Rule::Early);
    // The change made the job due earlier than its put.
    let sooner = [put_at(0, 5000), rescheduled(20, 100), at_new(130, 125), finished(200, 1)];
    is_clean(&sooner);
    // Without an answer, both times are allowed.
    let perhaps = perhaps(rescheduled(20, 500));
    is_clean(&[put_at(0, 100), perhaps, at_new(120, 105), finished(200, 1)]);
}

#[test]
fn it_objects_to_a_late_consumer_of_a_changed_job() {
    let gone = deleted(1400, StoreResult::Done(Answer::Deleted));
    let late = |act| [put(), pop(20, 1), rescheduled(1100, 0), act, gone.clone()];
    objects(&late(released(1200, 1, 0)), Rule::StaleAccepted);
    objects(&[put(), pop(20, 1), rescheduled(1100, 0), finished(1200, 1)], Rule::StaleAccepted);
    is_clean(&late(finish(1200, 1, refused("reservation_lost"))));
    // The finish overlaps the change and may have come first, or it is of the next consumer.
    is_clean(&[put(), pop(20, 1), rescheduled(1100, 0), finished(1105, 1)]);
    let next = pop_with(1200, 2, |job| job.due_at = at(1105));
    is_clean(&[put(), pop(20, 1), rescheduled(1100, 0), next, finished(1300, 2)]);
    // A change that was or may have been refused ends no reservation.
    for outcome in [refused("job_reserved"), StoreResult::Unknown] {
        let change = Call { outcome, ..rescheduled(1100, 0) };
        is_clean(&[put(), pop(20, 1), change, finished(1200, 1)]);
    }
}

#[test]
fn it_objects_to_a_paused_topic_that_delivers() {
    let resumed = |start| resume(start, StoreResult::Done(Answer::Resumed));
    let done = |calls: &[Call]| [&[put()], calls, &[finished(900, 1)]].concat();
    objects(&done(&[paused(100), pop(200, 1), resumed(300)]), Rule::Paused);
    objects(&done(&[paused(100), pop(200, 1)]), Rule::Paused);
    objects(&done(&[resumed(50), paused(100), pop(200, 1), resumed(300)]), Rule::Paused);
    // The pop began before the acknowledgement, or ended after the resume was sent.
    is_clean(&done(&[paused(100), pop(105, 1), resumed(300)]));
    is_clean(&done(&[paused(100), resumed(200), pop(195, 1)]));
    is_clean(&done(&[paused(100), resumed(200), pop(220, 1)]));
    // If a pause or resume has no answer, the topic was possibly not paused during the pop.
    let (perhaps, resumed) = (pause(100, StoreResult::Unknown), resume(150, StoreResult::Unknown));
    is_clean(&done(&[perhaps, pop(200, 1)]));
    is_clean(&done(&[paused(100), resumed.clone(), pop(200, 1)]));
    is_clean(&done(&[resumed, paused(170), pop(200, 1)]));
    let failed = resume(150, refused("store_unavailable"));
    objects(&done(&[paused(100), failed, pop(200, 1)]), Rule::Paused);
    // Another server may get the pause later.
    let there = Call { ask: Ask::Pop { topic: "t", server: 1 }, ..pop(200, 1) };
    is_clean(&done(&[paused(100), there]));
    // A pause of another topic does not count.
    let other = call(100, Ask::Pause { topic: "u", server: 0 }, StoreResult::Done(Answer::Paused));
    is_clean(&done(&[other, pop(200, 1)]));
}
