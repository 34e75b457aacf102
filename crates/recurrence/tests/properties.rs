//! Properties of all timings, whatever the line, the zone and the time.

use std::time::Duration;

use proptest::prelude::*;
use recurrence::{Fields, Timing};

/// 2026-01-01T00:00:00Z.
const NOW: u64 = 1_767_225_600_000;
const YEAR: u64 = 366 * 86_400_000;

const ZONES: [&str; 12] = [
    "UTC",
    "Asia/Kolkata",
    "Europe/Berlin",
    "America/New_York",
    "America/Sao_Paulo",
    "America/Havana",
    "America/Scoresbysund",
    "Asia/Beirut",
    "Africa/Casablanca",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Africa/Monrovia",
];

/// Times in the years that clients use, around changes of clocks, and any others.
fn time() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..4 * NOW,
        NOW..NOW + 2 * YEAR,
        // The days around the change in Europe on 2026-03-29 and on 2026-10-25.
        1_774_659_600_000..1_774_832_400_000u64,
        1_792_803_600_000..1_792_976_400_000u64,
        any::<u64>(),
    ]
}

fn field(max: u32, min: u32) -> impl Strategy<Value = String> {
    let value = min..=max;
    prop_oneof![
        3 => Just("*".to_owned()),
        2 => value.clone().prop_map(|value| value.to_string()),
        1 => (1u32..20).prop_map(|step| format!("*/{step}")),
        1 => (value.clone(), value.clone()).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))),
        1 => prop::collection::vec(value.prop_map(|value| value.to_string()), 1..4)
            .prop_map(|values| values.join(",")),
    ]
}

fn line() -> impl Strategy<Value = String> {
    let day = prop_oneof![
        6 => field(31, 1).boxed(),
        1 => Just("L".to_owned()).boxed(),
        1 => Just("LW".to_owned()).boxed(),
        1 => Just("15W,1".to_owned()).boxed(),
    ];
    let weekday = prop_oneof![
        6 => field(7, 0).boxed(),
        1 => Just("MON-FRI".to_owned()).boxed(),
        1 => Just("5#2".to_owned()).boxed(),
        1 => Just("SUNL".to_owned()).boxed(),
        1 => Just("+MON".to_owned()).boxed(),
    ];
    let second =
        prop_oneof![3 => Just(String::new()), 1 => field(59, 0).prop_map(|field| field + " ")];
    (second, field(59, 0), field(23, 0), day, field(12, 1), weekday).prop_map(
        |(second, minute, hour, day, month, weekday)| {
            format!("{second}{minute} {hour} {day} {month} {weekday}")
        },
    )
}

fn zone() -> impl Strategy<Value = String> {
    prop::sample::select(&ZONES[..]).prop_map(str::to_owned)
}

/// Checks that both searches agree on the instants around `t`.
fn check_around(timing: &Timing, t: u64) -> Result<(), TestCaseError> {
    if let Some(next) = timing.next_after(t) {
        prop_assert!(next > t);
        prop_assert_eq!(timing.last_until(next), Some(next));
        prop_assert_eq!(timing.next_after(next - 1), Some(next));
        // No instant lies between `t` and the next one.
        let previous = timing.last_until(next - 1);
        prop_assert!(previous.is_none_or(|previous| previous <= t));
        // Unless the search ended after ten years.
        prop_assert!(
            timing.last_until(t).is_none_or(|last| Some(last) == previous || previous.is_none())
        );
    }
    if let Some(last) = timing.last_until(t) {
        prop_assert!(last <= t);
        prop_assert_eq!(timing.last_until(last), Some(last));
        let next = timing.next_after(last);
        prop_assert!(next.is_none_or(|next| next > t));
        prop_assert_eq!(
            timing.next_after(last.saturating_sub(1)),
            Some(last).filter(|last| *last > 0).or(next)
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn both_searches_of_a_cron_line_agree(line in line(), zone in zone(), t in time()) {
        let fields = Fields { cron: Some(line), timezone: Some(zone), ..Fields::default() };
        if let Ok(timing) = Timing::parse(&fields, NOW) {
            check_around(&timing, t)?;
        }
    }

    #[test]
    fn both_searches_of_an_interval_agree(millis in 1000u64..400_000_000_000, anchor in time(), t in time()) {
        let every = Some(Duration::from_millis(millis));
        let fields = Fields { every, anchor: Some(anchor), ..Fields::default() };
        if let Ok(timing) = Timing::parse(&fields, NOW) {
            check_around(&timing, t)?;
        }
    }

    #[test]
    fn instants_lie_between_start_and_end(
        line in line(), zone in zone(), start in time(), span in 1..3 * YEAR, t in time(),
    ) {
        let end = start.saturating_add(span);
        let fields = Fields { cron: Some(line), timezone: Some(zone), ..Fields::default() };
        let bounded = Fields { start: Some(start), end: Some(end), ..fields.clone() };
        let (Ok(whole), Ok(timing)) = (Timing::parse(&fields, NOW), Timing::parse(&bounded, NOW)) else {
            return Ok(());
        };
        check_around(&timing, t)?;
        for t in [t, start, start.saturating_sub(1), end - 1, end] {
            let next = whole.next_after(t.max(start.saturating_sub(1)));
            prop_assert_eq!(timing.next_after(t), next.filter(|next| *next < end));
            let last = whole.last_until(t.min(end - 1));
            prop_assert_eq!(timing.last_until(t), last.filter(|last| *last >= start));
        }
    }

    #[test]
    fn any_text_is_refused_or_makes_a_timing(cron in any::<String>(), zone in any::<String>(), t: u64) {
        for timezone in [None, Some(zone)] {
            let fields = Fields { cron: Some(cron.clone()), timezone, ..Fields::default() };
            if let Ok(timing) = Timing::parse(&fields, t) {
                check_around(&timing, t)?;
            }
        }
    }

    #[test]
    fn text_like_a_line_is_refused_or_makes_a_timing(cron in "(CRON_TZ=[A-Z/]{0,9} )?([0-9*,/#LW?+@A-Z-]{1,6} ){4,6}", t in time()) {
        let fields = Fields { cron: Some(cron), ..Fields::default() };
        if let Ok(timing) = Timing::parse(&fields, NOW) {
            check_around(&timing, t)?;
            prop_assert!(!timing.description().is_empty());
        }
    }
}
