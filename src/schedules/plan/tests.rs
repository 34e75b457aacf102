use super::*;
use crate::{job::Millis, schedules::TimingFields};

const MINUTE: u64 = 60_000;
const DAY: u64 = 24 * 60 * MINUTE;

fn every_minute() -> Timing {
    let fields = TimingFields { every: Some(Millis::new(MINUTE)), ..TimingFields::default() };
    fields.parse(UnixMillis::new(0)).expect("a timing")
}

fn at(millis: u64) -> UnixMillis {
    UnixMillis::new(millis)
}

fn plan(missed: Missed, next: u64, now: u64) -> Step {
    step(&every_minute(), missed, at(next), at(now), false, &mut None)
}

/// Makes steps until no instant is due; returns the instants that were put.
fn all(missed: Missed, next: u64, now: u64) -> (Vec<u64>, u64) {
    let (mut next, mut put, mut left_out) = (at(next), Vec::new(), 0);
    let mut catching_up = None;
    while next <= at(now) {
        let step = step(&every_minute(), missed, next, at(now), false, &mut catching_up);
        put.extend(step.put.map(UnixMillis::get));
        left_out += step.missed;
        next = step.next.expect("it never ends");
    }
    (put, left_out)
}

#[test]
fn an_instant_is_put_up_to_a_minute_after_it() {
    for missed in [Missed::Once, Missed::None, Missed::All] {
        for late in [0, 1, 59_999, 60_000] {
            let step = plan(missed, DAY, DAY + late);
            assert_eq!(step, Step { put: Some(at(DAY)), next: Some(at(DAY + MINUTE)), missed: 0 });
        }
    }
}

#[test]
fn the_latest_missed_instant_is_put_or_none_or_the_last_thousan() {
    // At this time, the instant at DAY is a minute overdue and not missed; those before it are.
    let now = DAY + MINUTE;
    let recent = [DAY, DAY + MINUTE];
    let of = |missed| all(missed, DAY - 5 * MINUTE, now);
    assert_eq!(of(Missed::Once), (vec![DAY + MINUTE], 6));
    assert_eq!(of(Missed::None), (recent.to_vec(), 5));
    let last: Vec<u64> = (0..7).map(|n| DAY - 5 * MINUTE + n * MINUTE).collect();
    assert_eq!(of(Missed::All), (last, 0));
}

#[test]
fn the_thousand_are_counted_from_the_latest() {
    let now = DAY + 1_400 * MINUTE;
    let (put, left_out) = all(Missed::All, DAY, now);
    // 1,399 are missed; the other two are at most a minute overdue.
    assert_eq!(put.len(), 1_002);
    assert_eq!(left_out, 399);
    assert_eq!(put[0], DAY + 399 * MINUTE);
    assert_eq!(put.last(), Some(&now));
}

#[test]
fn a_year_of_missed_instants_takes_one_step() {
    let step = plan(Missed::Once, DAY, 366 * DAY);
    assert_eq!(step.put, Some(at(366 * DAY)));
    assert_eq!(step.next, Some(at(366 * DAY + MINUTE)));
    assert_eq!(step.missed, 999, "counted up to the maximum");
}

#[test]
fn once_after_an_outage_puts_one_job_for_the_latest_instant() {
    let fields = TimingFields { every: Some(Millis::new(1_000)), ..TimingFields::default() };
    let timing = fields.parse(at(0)).expect("a timing");
    let now = DAY + 500;
    for (next, is_behind) in [(DAY - 10 * MINUTE, false), (DAY - 59_000, true), (DAY, true)] {
        let step = step(&timing, Missed::Once, at(next), at(now), is_behind, &mut None);
        let missed = (DAY - next) / 1_000;
        assert_eq!(step, Step { put: Some(at(DAY)), next: Some(at(DAY + 1_000)), missed });
    }
}

#[test]
fn a_schedule_ends_with_its_last_instant() {
    let fields = TimingFields {
        every: Some(Millis::new(MINUTE)),
        end: Some(at(DAY + 1)),
        ..TimingFields::default()
    };
    let timing = fields.parse(at(0)).expect("a timing");
    let of = |missed, now| step(&timing, missed, at(DAY - MINUTE), at(now), false, &mut None);
    assert_eq!(of(Missed::Once, DAY - MINUTE).next, Some(at(DAY)));
    assert_eq!(of(Missed::Once, 2 * DAY), Step { put: Some(at(DAY)), next: None, missed: 1 });
    assert_eq!(of(Missed::None, 2 * DAY), Step { put: None, next: None, missed: 2 });
}

#[test]
fn a_refused_put_is_tried_again_before_an_instant_is_missed() {
    let of = |missed, now| last_try(&every_minute(), missed, at(DAY), at(now));
    for missed in [Missed::Once, Missed::None] {
        for late in [0, 30_000, 60_000] {
            assert_eq!(of(missed, DAY + late), Some(at(DAY + 45_000)), "{late}");
        }
    }
    // The first instant is missed; the second one is not.
    assert_eq!(of(Missed::None, DAY + 60_001), Some(at(DAY + MINUTE + 45_000)));
    assert_eq!(of(Missed::None, DAY + 120_001), Some(at(DAY + 2 * MINUTE + 45_000)));
    assert_eq!(of(Missed::Once, DAY + 60_001), None, "any try puts the latest one");
    assert_eq!(of(Missed::All, DAY), None);
}
