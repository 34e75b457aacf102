//! Tests of the judge with constructed histories. It must object to each fault, and to nothing
//! else.

mod expiry;
mod moves;
mod releases;
mod transitions;

use crate::faults::{history::samples, prelude::*};

/// The store's clock at the begin of each history, in Unix milliseconds.
const EPOCH: i64 = 1_763_690_000_000;

fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn at(n: u64) -> i64 {
    EPOCH + i64::try_from(n).expect("a short history")
}

/// Returns a call that begins at `start` and takes 10 ms.
fn call(start: u64, ask: Ask, outcome: StoreResult) -> Call {
    Call { start: millis(start), end: millis(start + 10), ask, outcome }
}

fn put_with(start: u64, id: &str, delay: u64, outcome: StoreResult) -> Call {
    call(start, samples::put(Some(id), &format!("body of {id}"), millis(delay)), outcome)
}

/// Returns a put of the job that has no id.
fn nameless(outcome: StoreResult) -> Call {
    call(0, samples::put(None, "body of a", Duration::ZERO), outcome)
}

/// Returns the call without an answer.
fn perhaps(call: Call) -> Call {
    Call { outcome: StoreResult::Unknown, ..call }
}

fn put_at(start: u64, delay: u64) -> Call {
    let done = Answer::Put { id: "a".into(), due_at: at(start + 5 + delay) };
    put_with(start, "a", delay, StoreResult::Done(done))
}

fn put() -> Call {
    put_at(0, 0)
}

/// Returns a pop of a job that fell due at 5 ms. Its delivery is 5 ms after its start, with a TTR
/// of a second.
fn pop(start: u64, attempt: u32) -> Call {
    pop_with(start, attempt, |_| {})
}

fn pop_with(start: u64, attempt: u32, change: impl FnOnce(&mut Delivery)) -> Call {
    let mut job = samples::delivery("a", attempt, at(5), at(start + 5));
    change(&mut job);
    let (ask, outcome) = samples::pop([job]);
    call(start, ask, outcome)
}

/// Returns a pop without an answer, which has perhaps used an attempt.
fn lost_pop(start: u64) -> Call {
    perhaps(pop(start, 1))
}

fn cancel(start: u64, outcome: StoreResult) -> Call {
    call(start, Ask::Cancel { id: "a".into() }, outcome)
}

fn finish(start: u64, attempt: u32, outcome: StoreResult) -> Call {
    let (id, reservation) = ("a".into(), format!("r{attempt}").into());
    call(start, Ask::Finish { id, reservation }, outcome)
}

fn finished(start: u64, attempt: u32) -> Call {
    finish(start, attempt, StoreResult::Done(Answer::Finished))
}

fn released(start: u64, attempt: u32, delay: u64) -> Call {
    released_with(start, delay, &format!("r{attempt}"), true, None)
}

fn released_with(
    start: u64,
    delay: u64,
    reservation: &str,
    is_counted: bool,
    body: Option<&str>,
) -> Call {
    let (id, reservation, body) = ("a".into(), reservation.into(), body.map(Into::into));
    let ask = Ask::Release { id, reservation, delay: millis(delay), is_counted, body };
    let due_at = at(start + 5 + delay);
    call(start, ask, StoreResult::Done(Answer::Released { due_at, fate: Fate::Alive }))
}

fn deleted(start: u64, outcome: StoreResult) -> Call {
    call(start, Ask::Delete { id: "a".into() }, outcome)
}

fn touched(start: u64, attempt: u32) -> Call {
    let (id, reservation) = ("a".into(), format!("r{attempt}").into());
    let done = StoreResult::Done(Answer::Touched { reserved_until: at(start + 5 + 1000) });
    call(start, Ask::Touch { id, reservation, ttr: millis(1000) }, done)
}

fn buried(start: u64, attempt: u32) -> Call {
    let (id, reservation) = ("a".into(), format!("r{attempt}").into());
    call(
        start,
        Ask::Bury { id, reservation },
        StoreResult::Done(Answer::Buried { fate: Fate::Dead }),
    )
}

fn kick(start: u64, outcome: StoreResult) -> Call {
    call(start, Ask::Kick { id: "a".into() }, outcome)
}

fn kicked(start: u64) -> Call {
    kick(start, StoreResult::Done(Answer::Kicked))
}

/// Returns a pop after a kick, with a new reservation.
fn pop_again(start: u64, attempt: u32) -> Call {
    pop_with(start, attempt, |job| job.reservation = format!("r{}", 10 + attempt).into())
}

fn rescheduled(start: u64, delay: u64) -> Call {
    let done = StoreResult::Done(Answer::Rescheduled { due_at: at(start + 5 + delay) });
    call(start, Ask::Reschedule { id: "a".into(), delay: millis(delay) }, done)
}

fn pause(start: u64, outcome: StoreResult) -> Call {
    call(start, Ask::Pause { topic: "t", server: 0 }, outcome)
}

fn paused(start: u64) -> Call {
    pause(start, StoreResult::Done(Answer::Paused))
}

fn resume(start: u64, outcome: StoreResult) -> Call {
    call(start, Ask::Resume { topic: "t" }, outcome)
}

fn refused(code: &str) -> StoreResult {
    StoreResult::Refused(code.into())
}

fn stored(sets: &[&str]) -> Scan {
    let body = "\"body of a\"".to_owned();
    let sets = sets.iter().map(ToString::to_string).collect();
    let stored = Stored { bodies: vec![body], sets, ..Stored::default() };
    BTreeMap::from([("a".to_owned(), stored)])
}

/// Returns the rules that the judge finds broken.
fn broken(calls: &[Call], scan: &Scan) -> Vec<Rule> {
    let mut rules: Vec<Rule> = judge(calls, scan, &[]).iter().map(|found| found.rule).collect();
    rules.sort();
    rules.dedup();
    rules
}

fn objects(calls: &[Call], rule: Rule) {
    assert_eq!(broken(calls, &Scan::new()), [rule]);
}

fn is_clean(calls: &[Call]) {
    is_content(calls, &Scan::new());
}

fn is_content(calls: &[Call], scan: &Scan) {
    let found = judge(calls, scan, &[]);
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn a_clean_history_is_clean() {
    let late = |job: &mut Delivery| job.due_at = at(1200);
    let clean = [
        put(),
        pop(20, 1),
        released(100, 1, 1000),
        finish(150, 1, refused("reservation_lost")),
        // The TTR of attempt 2 ends, and a later finish with its reservation is refused.
        pop_with(1200, 2, late),
        pop_with(2300, 3, late),
        finish(2350, 2, refused("reservation_lost")),
        finished(2400, 3),
        deleted(2500, refused("job_not_found")),
    ];
    is_clean(&clean);
    let due = |n: u64| move |job: &mut Delivery| job.due_at = at(n);
    let every_call = [
        put_at(0, 2000),
        rescheduled(10, 500),
        pop_with(600, 1, due(515)),
        touched(1000, 1),
        finish(1700, 9, refused("reservation_lost")),
        buried(1800, 1),
        kicked(1900),
        pop_with(1950, 1, |job| (job.due_at, job.reservation) = (at(1905), "r11".into())),
        touched(2000, 11),
        finished(2900, 11),
    ];
    is_clean(&every_call);
    is_content(&[put()], &stored(&["{dq:0}:ready:t"]));
    is_clean(&[put(), deleted(20, StoreResult::Done(Answer::Deleted))]);
}

#[test]
fn what_is_unknown_may_have_gone_either_way() {
    let unknown_put = put_with(0, "a", 0, StoreResult::Unknown);
    is_clean(std::slice::from_ref(&unknown_put));
    is_content(std::slice::from_ref(&unknown_put), &stored(&["{dq:0}:ready:t"]));
    let exists = put_with(30, "a", 0, refused("job_exists"));
    is_content(&[unknown_put.clone(), exists], &stored(&["{dq:0}:ready:t"]));
    is_clean(&[unknown_put, pop(20, 1), finished(40, 1)]);
    let unknown = finish(40, 1, StoreResult::Unknown);
    is_clean(&[put(), pop(20, 1), unknown.clone()]);
    let again = finish(60, 1, refused("job_not_found"));
    is_clean(&[put(), pop(20, 1), unknown.clone(), again]);
    is_clean(&[put(), pop(20, 1), unknown, pop(1100, 2), finished(1120, 2)]);
    is_clean(&[put(), lost_pop(20), pop(1100, 2), finished(1120, 2)]);
}

#[test]
fn a_job_without_an_id_is_known_by_its_body_and_only_once() {
    let unknown = nameless(StoreResult::Unknown);
    is_clean(&[unknown.clone(), pop(20, 1), finished(40, 1)]);
    let twin = pop_with(60, 1, |job| {
        job.id = "b".into();
        job.reservation = "r9".into();
    });
    objects(&[unknown, pop(20, 1), finished(40, 1), twin], Rule::NeverPut);
    let refused = nameless(refused("store_unavailable"));
    objects(&[refused, pop(20, 1), finished(40, 1)], Rule::NeverPut);
}

#[test]
fn it_objects_to_a_lost_job() {
    objects(&[put()], Rule::Lost);
    objects(&[put(), pop(20, 1)], Rule::Lost);
    objects(&[put(), deleted(20, refused("job_not_found"))], Rule::Lost);
    let away = finish(40, 1, refused("store_unavailable"));
    objects(&[put(), pop(20, 1), away], Rule::Lost);
    let unknown = put_with(0, "a", 0, StoreResult::Unknown);
    objects(&[unknown, put_with(20, "a", 0, refused("job_exists"))], Rule::Lost);
}

#[test]
fn it_objects_to_what_was_never_put() {
    objects(&[pop(20, 1), finished(40, 1)], Rule::NeverPut);
    let refused_put = put_with(0, "a", 0, refused("store_unavailable"));
    let refused_and_popped = [refused_put.clone(), pop(20, 1), finished(40, 1)];
    objects(&refused_and_popped, Rule::NeverPut);
    let found = judge(&refused_and_popped, &Scan::new(), &[]);
    assert!(found[0].what.contains("store_unavailable"), "{found:?}");
    assert_eq!(broken(&[refused_put], &stored(&["{dq:0}:ready:t"])), [Rule::NeverPut]);
    let exists = put_with(0, "a", 0, refused("job_exists"));
    objects(&[exists], Rule::NeverPut);
    // A later put does not excuse this.
    let put_later = [pop(0, 1), put_at(100, 0), finished(200, 1)];
    assert!(broken(&put_later, &Scan::new()).contains(&Rule::NeverPut));
}

#[test]
fn it_objects_to_another_body() {
    let other = pop_with(20, 1, |job| job.body = "another".into());
    objects(&[put(), other, finished(40, 1)], Rule::OtherBody);
    let mut scan = stored(&["{dq:0}:ready:t"]);
    scan.entry("a".to_owned()).or_default().bodies = vec!["\"another\"".to_owned()];
    assert_eq!(broken(&[put()], &scan), [Rule::OtherBody]);
}

#[test]
fn it_objects_to_an_early_delivery_by_either_clock() {
    let told_right = pop_with(100, 1, |job| {
        job.due_at = at(505);
        job.reserved_until = at(1600);
    });
    objects(&[put_at(0, 500), told_right, finished(200, 1)], Rule::Early);
    let early_by_the_store = pop_with(20, 1, |job| job.due_at = at(26));
    objects(&[put(), early_by_the_store, finished(40, 1)], Rule::Early);
    let due_before_its_put = pop_with(20, 1, |job| job.due_at = at(4));
    objects(&[put(), due_before_its_put, finished(40, 1)], Rule::Early);
    objects(&[put(), pop(20, 1), released(40, 1, 500), pop(100, 2), finished(120, 2)], Rule::Early);
}

#[test]
fn it_objects_to_two_holders() {
    objects(&[put(), pop(20, 1), pop(900, 2), finished(950, 2)], Rule::TwoHolders);
    // The delivery is a millisecond too early by the store's clock, but perhaps not by the clients'
    // clock.
    let soon = pop_with(1020, 2, |job| job.reserved_until = at(1024 + 1000));
    objects(&[put(), pop(20, 1), soon, finished(1050, 2)], Rule::TwoHolders);
    // A finish that certainly failed does not release the job.
    let away = finish(40, 1, refused("store_unavailable"));
    objects(&[put(), pop(20, 1), away, pop(900, 2), finished(950, 2)], Rule::TwoHolders);
    // One reservation twice, at once and after the TTR.
    let popped = |again| broken(&[put(), pop(20, 1), again], &stored(&["{dq:0}:reserved:t"]));
    assert_eq!(popped(pop(60, 1)), [Rule::TwoHolders, Rule::Attempts]);
    assert_eq!(popped(pop(1100, 1)), [Rule::TwoHolders, Rule::Attempts]);
    let counted = pop_with(1100, 2, |job| job.reservation = "r1".into());
    assert_eq!(popped(counted), [Rule::TwoHolders]);
}

#[test]
fn it_objects_to_a_live_finish_that_was_refused() {
    let lost = finish(40, 1, refused("reservation_lost"));
    objects(&[put(), pop(20, 1), lost, pop(1100, 2), finished(1200, 2)], Rule::LiveRefused);
    let gone = finish(40, 1, refused("job_not_found"));
    assert_eq!(broken(&[put(), pop(20, 1), gone], &Scan::new()), [Rule::Lost, Rule::LiveRefused]);
}

#[test]
fn it_objects_to_a_delivery_after_the_end() {
    objects(&[put(), pop(20, 1), finished(40, 1), pop(60, 2)], Rule::AfterTheEnd);
    // The same holds during the finish: either the pop came after the finish, or the finish came
    // too late.
    objects(&[put(), pop(20, 1), finished(1100, 1), pop(1105, 2)], Rule::AfterTheEnd);
    let deleted = || deleted(40, StoreResult::Done(Answer::Deleted));
    objects(&[put(), deleted(), pop(60, 1)], Rule::AfterTheEnd);
    objects(&[put(), pop(20, 1), deleted(), finished(60, 1)], Rule::AfterTheEnd);
    // A finish that was forgotten: the job stays, and is ready after the TTR.
    let finishes = [put(), pop(20, 1), finished(40, 1), pop(1100, 2), finished(1200, 2)];
    objects(&finishes, Rule::AfterTheEnd);
    for ended in [&finishes[..3], &[put(), deleted()]] {
        assert_eq!(broken(ended, &stored(&["{dq:0}:ready:t"])), [Rule::AfterTheEnd]);
    }
}

#[test]
fn it_objects_to_an_id_that_is_taken_and_put_again() {
    let cancelled = |start| cancel(start, StoreResult::Done(Answer::Deleted));
    let (taken, again) = (put_with(60, "a", 0, refused("job_exists")), put_at(60, 0));
    for end in [finished(40, 1), cancelled(40)] {
        is_clean(&[put(), pop(20, 1), end.clone(), taken.clone()]);
        objects(&[put(), pop(20, 1), end, again.clone()], Rule::Twice);
    }
    let late = pop_with(600, 1, |job| job.due_at = at(505));
    objects(&[put_at(0, 500), cancelled(20), late], Rule::AfterTheEnd);
    // The first put may have been carried out. Only one put was certainly accepted.
    let lost = put_with(0, "a", 0, StoreResult::Unknown);
    let popped = pop_with(60, 1, |job| job.due_at = at(25));
    is_clean(&[lost, put_at(20, 0), popped, finished(80, 1)]);
    let late = finish(1060, 1, refused("job_finished"));
    objects(&[put(), pop(20, 1), late.clone()], Rule::Lost);
    is_clean(&[put(), pop(20, 1), cancelled(40), late]);
}

#[test]
fn it_objects_to_attempts_that_do_not_grow_or_never_end() {
    let again = pop_with(1100, 1, |job| job.reservation = "r9".into());
    objects(&[put(), pop(20, 1), again, finished(1120, 9)], Rule::Attempts);
    objects(&[put(), pop(20, 4), finished(40, 4)], Rule::Attempts);
    let two_then_one = [put(), pop(20, 2), pop(1100, 1), finished(1200, 2)];
    assert!(broken(&two_then_one, &Scan::new()).contains(&Rule::Attempts));
}

#[test]
fn it_objects_to_a_job_in_two_sets_or_in_none() {
    for sets in [&["{dq:0}:ready:t", "{dq:0}:reserved:t"][..], &[]] {
        assert_eq!(broken(&[put()], &stored(sets)), [Rule::Sets]);
    }
    let mut scan = stored(&["{dq:0}:ready:t"]);
    scan.entry("a".to_owned()).or_default().bodies.clear();
    assert_eq!(broken(&[put()], &scan), [Rule::Sets]);
}

#[test]
fn it_objects_to_an_error_that_does_not_say_what_it_changed() {
    let wrong = || StoreResult::Wrong("500".into());
    objects(&[put_with(0, "a", 0, wrong())], Rule::WrongAnswer);
}
