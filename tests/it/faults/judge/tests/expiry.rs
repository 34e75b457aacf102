//! Tests of jobs that expire, and of dead jobs without a reason.

use super::*;

/// Returns a put of a job that expires this long after its due time.
pub fn put_for(delay: u64, expires_after: u64) -> Call {
    let mut put = put_at(0, delay);
    if let Ask::Put { expires_after: after, .. } = &mut put.ask {
        *after = Some(millis(expires_after));
    }
    put
}

/// Returns a pop of a job that is due and expires at these times.
fn pop_until(start: u64, attempt: u32, (due, expires): (u64, u64)) -> Call {
    pop_with(start, attempt, |job| (job.due_at, job.expires_at) = (at(due), Some(at(expires))))
}

pub fn dead(is_expired: bool) -> Scan {
    let mut scan = stored(&["{dq:0}:dead:t"]);
    scan.entry("a".to_owned()).or_default().is_expired = is_expired;
    scan
}

/// Returns the release with the answer that the job stays dead.
pub fn dies(call: Call) -> Call {
    let (due_at, fate) = (at(5), Fate::Dead);
    Call { outcome: StoreResult::Done(Answer::Released { due_at, fate }), ..call }
}

#[test]
fn it_objects_to_a_delivery_after_the_expiry() {
    let popped = |start| [put_for(0, 500), pop_until(start, 1, (5, 505)), finished(start + 900, 1)];
    // The consumer may finish a job that expires while it holds it.
    is_clean(&popped(400));
    // The store compares the begun millisecond, and counts the reservation from the next one.
    is_clean(&popped(500));
    objects(&popped(501), Rule::Expired);
    // By the clients' clock only: the store shows an earlier time of the pop.
    let mut shown = popped(520);
    if let StoreResult::Done(Answer::Popped(jobs)) = &mut shown[1].outcome {
        jobs[0].reserved_until = at(1400);
    }
    objects(&shown, Rule::Expired);
    // This pop began before, and may have got the job before.
    shown[1].start = millis(300);
    is_clean(&shown);
    // Without an answer, the put may have been carried out later.
    let late = pop_until(5000, 1, (4900, 5400));
    is_clean(&[perhaps(put_for(0, 500)), late, finished(5100, 1)]);
}

#[test]
fn it_objects_to_another_expiry_than_that_of_the_put() {
    let never = [put_for(0, 500), pop(20, 1), finished(40, 1)];
    objects(&never, Rule::Expired);
    let longer = [put_for(0, 500), pop_until(20, 1, (5, 506)), finished(40, 1)];
    objects(&longer, Rule::Expired);
    objects(&[put(), pop_until(20, 1, (5, 505)), finished(40, 1)], Rule::Expired);
}

#[test]
fn a_change_or_a_kick_moves_the_expiry() {
    let moved = |change, pop| [put_for(0, 500), change, pop, finished(5100, 1)];
    is_clean(&moved(rescheduled(20, 1000), pop_until(1300, 1, (1025, 1525))));
    objects(&moved(rescheduled(20, 1000), pop_until(1540, 1, (1025, 1525))), Rule::Expired);
    is_clean(&moved(kicked(900), pop_until(1300, 1, (905, 1405))));
    is_clean(&moved(perhaps(kicked(900)), pop_until(5000, 1, (4900, 5400))));
}

#[test]
fn an_expired_job_is_dead_and_not_lost() {
    is_content(&[put_for(0, 500), deleted(900, refused("store_unavailable"))], &dead(true));
    let released = dies(released(400, 1, 200));
    let calls = [put_for(0, 500), pop_until(20, 1, (5, 505)), released.clone()];
    is_content(&calls, &dead(true));
    let again = pop_with(700, 2, |job| (job.due_at, job.expires_at) = (at(605), Some(at(805))));
    let alive = [&calls[..], &[again, finished(800, 2)]].concat();
    assert!(broken(&alive, &Scan::new()).contains(&Rule::Buried));
    assert_eq!(broken(&[put_for(0, 500)], &Scan::new()), [Rule::Lost]);
    // A job must not remain alive after a release that delays it beyond its expiry.
    let lives = Call { outcome: self::released(400, 1, 200).outcome, ..released };
    let calls = [put_for(0, 500), pop_until(20, 1, (5, 505)), lives];
    assert_eq!(broken(&calls, &dead(true)), [Rule::Expired]);
}

#[test]
fn it_objects_to_a_job_that_dies_without_a_reason() {
    assert_eq!(broken(&[put()], &dead(false)), [Rule::Dead]);
    assert_eq!(broken(&[put()], &dead(true)), [Rule::Expired, Rule::Dead]);
    // This job expires in an hour.
    let hour = put_for(0, 3_600_000);
    assert_eq!(broken(&[hour], &dead(true)), [Rule::Expired, Rule::Dead]);
    assert_eq!(broken(&[put(), pop(20, 1), released(40, 1, 0)], &dead(false)), [Rule::Dead]);
    // The error of an expired job says so, unless a late consumer replaced it.
    assert_eq!(broken(&[put_for(0, 500)], &dead(false)), [Rule::Dead]);
    let held = [put_for(0, 500), pop_until(20, 1, (5, 505))];
    is_content(&[&held[..], &[dies(released(1100, 1, 0))]].concat(), &dead(false));
    is_content(&[put(), pop(20, 1), buried(40, 1)], &dead(false));
    let spent = [put(), pop(20, 1), pop(1100, 2), pop(2200, 3)];
    is_content(&spent, &dead(false));
    is_content(&[put(), lost_pop(20)], &dead(false));
}

#[test]
fn a_wrong_clock_excuses_late_and_early_ends() {
    let wrong = [(millis(10), millis(600))];
    let late = [put_for(0, 500), pop_until(700, 1, (5, 505)), finished(800, 1)];
    assert!(judge(&late, &Scan::new(), &wrong).is_empty());
    // A release may have put the next attempt off by days.
    let hour = |start| Call { start: millis(start), ..put_for(0, 3_600_000) };
    assert!(judge(&[hour(5)], &dead(true), &wrong).is_empty());
    let later = Call { end: millis(710), ..hour(700) };
    let found: Vec<Rule> = judge(&[later], &dead(true), &wrong).iter().map(|o| o.rule).collect();
    assert_eq!(found, [Rule::Expired, Rule::Dead]);
}
