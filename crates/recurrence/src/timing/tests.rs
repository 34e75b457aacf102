use std::time::Duration;

use jiff::Timestamp;

use super::{Fields, Timing};

fn millis(time: &str) -> u64 {
    time.parse::<Timestamp>().unwrap().as_millisecond().try_into().unwrap()
}

fn timing(zone: &str, line: &str) -> Timing {
    let fields =
        Fields { cron: Some(line.into()), timezone: Some(zone.into()), ..Fields::default() };
    Timing::parse(&fields, 0).unwrap()
}

/// Checks the instants after a time, in both directions.
#[track_caller]
fn check(timing: &Timing, after: &str, expected: &[&str]) {
    let first = millis(after);
    let instants = std::iter::successors(timing.next_after(first), |t| timing.next_after(*t));
    let instants: Vec<_> = instants.take(expected.len()).collect();
    assert_eq!(instants, expected.iter().map(|time| millis(time)).collect::<Vec<_>>());
    let last = *instants.last().unwrap();
    let earlier = |t: u64| timing.last_until(t).filter(|last| *last > first);
    let mut backwards: Vec<_> = std::iter::successors(Some(last), |t| earlier(t - 1)).collect();
    backwards.reverse();
    assert_eq!(backwards, instants);
}

#[test]
fn a_skipped_time_runs_at_the_change() {
    check(
        &timing("Europe/Berlin", "30 2 * * *"),
        "2026-03-28T12:00:00Z",
        &["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"],
    );
    check(
        &timing("Australia/Lord_Howe", "15 2 * * *"),
        "2026-10-03T00:00:00Z",
        &["2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00"],
    );
}

#[test]
fn several_skipped_times_run_once() {
    check(
        &timing("Europe/Berlin", "0,30 2,3 * * *"),
        "2026-03-28T12:00:00Z",
        &["2026-03-29T03:00:00+02:00", "2026-03-29T03:30:00+02:00", "2026-03-30T02:00:00+02:00"],
    );
}

#[test]
fn a_repeated_time_runs_the_first_time() {
    check(
        &timing("Europe/Berlin", "0,30 2 * * *"),
        "2026-10-24T12:00:00Z",
        &["2026-10-25T02:00:00+02:00", "2026-10-25T02:30:00+02:00", "2026-10-26T02:00:00+01:00"],
    );
    // Also seen from the second time.
    check(
        &timing("Europe/Berlin", "30 2 * * *"),
        "2026-10-25T02:10:00+01:00",
        &["2026-10-26T02:30:00+01:00"],
    );
}

#[test]
fn intervals_run_through_both_halves_and_skip_what_is_skipped() {
    check(
        &timing("Europe/Berlin", "*/30 * * * *"),
        "2026-10-25T02:00:00+02:00",
        &[
            "2026-10-25T02:30:00+02:00",
            "2026-10-25T02:00:00+01:00",
            "2026-10-25T02:30:00+01:00",
            "2026-10-25T03:00:00+01:00",
        ],
    );
    check(
        &timing("Europe/Berlin", "*/30 2 * * *"),
        "2026-03-28T12:00:00Z",
        &["2026-03-30T02:00:00+02:00", "2026-03-30T02:30:00+02:00"],
    );
}

#[test]
fn a_skipped_midnight_runs_on_the_day_that_it_would_begin() {
    check(
        &timing("America/Havana", "0 0 * * SUN"),
        "2024-03-09T12:00:00Z",
        &["2024-03-10T01:00:00-04:00", "2024-03-17T00:00:00-04:00"],
    );
    check(
        &timing("Asia/Beirut", "0 0 * * *"),
        "2026-03-28T12:00:00Z",
        &["2026-03-29T01:00:00+03:00", "2026-03-30T00:00:00+03:00"],
    );
}

#[test]
fn a_skipped_day_ends_with_the_change() {
    check(
        &timing("Pacific/Apia", "0 9 30 * *"),
        "2011-12-01T00:00:00Z",
        &["2011-12-31T00:00:00+14:00", "2012-01-30T09:00:00+14:00"],
    );
}

#[test]
fn a_change_back_across_midnight_repeats_the_day_before() {
    check(
        &timing("America/Havana", "30 0,23 2,3 11 *"),
        "2024-11-02T12:00:00Z",
        &["2024-11-02T23:30:00-04:00", "2024-11-03T00:30:00-04:00", "2024-11-03T23:30:00-05:00"],
    );
}

#[test]
fn one_restricted_day_suffices_unless_a_field_has_a_star() {
    check(
        &timing("UTC", "0 0 13 * FRI"),
        "2026-02-01T00:00:00Z",
        &[
            "2026-02-06T00:00:00Z",
            "2026-02-13T00:00:00Z",
            "2026-02-20T00:00:00Z",
            "2026-02-27T00:00:00Z",
            "2026-03-06T00:00:00Z",
            "2026-03-13T00:00:00Z",
        ],
    );
    let mondays = ["2026-03-09T00:00:00Z", "2026-03-23T00:00:00Z", "2026-04-13T00:00:00Z"];
    check(&timing("UTC", "0 0 */2 * MON"), "2026-03-02T00:00:00Z", &mondays);
    check(
        &timing("UTC", "0 0 1-7 * +MON"),
        "2026-03-01T00:00:00Z",
        &["2026-03-02T00:00:00Z", "2026-04-06T00:00:00Z"],
    );
}

#[test]
fn instants_begin_with_start_and_stop_before_end() {
    let [start, end] = ["2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z"].map(millis);
    let fields = Fields { start: Some(start), end: Some(end), ..Fields::default() };
    let cron = Fields { cron: Some("0 0 * * *".into()), ..fields.clone() };
    let every = Fields { every: Some(Duration::from_secs(86_400)), ..fields };
    for timing in [cron, every].map(|fields| Timing::parse(&fields, 0).unwrap()) {
        assert_eq!(timing.next_after(0), Some(start));
        assert_eq!(timing.next_after(start), Some(start + 86_400_000));
        assert_eq!(timing.next_after(start + 86_400_000), None);
        assert_eq!(timing.last_until(u64::MAX), Some(start + 86_400_000));
        assert_eq!(timing.last_until(start), Some(start));
        assert_eq!(timing.last_until(start - 1), None);
    }
}

#[test]
fn a_search_ends_after_ten_years() {
    let timing = timing("UTC", "0 0 29 2 *");
    // 2100 is no leap year.
    assert_eq!(
        timing.next_after(millis("2096-03-01T00:00:00Z")),
        Some(millis("2104-02-29T00:00:00Z"))
    );
    let future = Fields { cron: Some("0 0 1 1 *".into()), ..Fields::default() };
    let future = Timing::parse(&future, 0).unwrap();
    assert_eq!(future.next_after(u64::MAX), None);
    assert_eq!(future.last_until(u64::MAX), None);
    assert_eq!(
        future.last_until(millis("9999-06-01T00:00:00Z")),
        Some(millis("9998-01-01T00:00:00Z"))
    );
}

#[test]
fn an_interval_runs_before_its_anchor_too() {
    let every = Some(Duration::from_millis(1_500));
    let fields = Fields { every, anchor: Some(10_000), ..Fields::default() };
    let timing = Timing::parse(&fields, 0).unwrap();
    assert_eq!(timing.next_after(0), Some(1_000));
    assert_eq!(timing.next_after(1_000), Some(2_500));
    assert_eq!(timing.next_after(10_000), Some(11_500));
    assert_eq!(timing.last_until(9_999), Some(8_500));
    assert_eq!(timing.last_until(10_000), Some(10_000));
    assert_eq!(timing.last_until(999), None);
    assert_eq!(timing.next_after(u64::MAX), None);
}
