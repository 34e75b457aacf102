use proptest::prelude::*;

use super::*;

fn duration(json: &str) -> Result<u64, serde_json::Error> {
    serde_json::from_str::<Millis>(json).map(Millis::get)
}

#[test]
fn durations_are_seconds_or_text_with_units_and_are_rounded_up() {
    for (json, millis) in [
        ("0", 0),
        ("30", 30_000),
        ("0.25", 250),
        ("16.1", 16_100),
        ("0.0001", 1),
        ("1.0001", 1_001),
        (r#""0s""#, 0),
        (r#""500ms""#, 500),
        (r#""90s""#, 90_000),
        (r#""1h30m""#, 5_400_000),
        (r#""7d""#, 604_800_000),
        (r#""1w1d1h1m1s1ms""#, 694_861_001),
        (r#""0.1ms""#, 1),
        (r#""1.5h""#, 5_400_000),
        (r#""0.00000000000000000001w""#, 1),
        ("315576000", MAX_DURATION.get()),
    ] {
        assert_eq!(duration(json).expect(json), millis, "{json}");
    }
}

#[test]
fn a_number_is_read_as_its_shortest_decimal_text() {
    let by_text = |seconds: f64| scaled(&seconds.to_string(), 1_000);
    proptest!(|(millis in 0..=MAX_DURATION.get())| {
        let seconds = Millis::new(millis).as_seconds();
        prop_assert_eq!((exact_millis(seconds), by_text(seconds)), (Some(millis), Some(millis)));
        for near in [seconds.next_up(), seconds.next_down(), seconds + 0.0005, -seconds] {
            let exact = exact_millis(near);
            prop_assert!(exact.is_none() || exact == by_text(near), "{near}");
        }
    });
    assert_eq!(exact_millis(-0.0), None, "its text has a sign");
}

#[test]
fn invalid_durations_are_refused_with_the_allowed_forms() {
    let refused = [
        "-1",
        "-0.5",
        "315576001",
        "315576000.0001",
        "1e300",
        "18446744073709551615",
        r#""""#,
        r#""NaN""#,
        r#""-5s""#,
        r#""+5s""#,
        r#""5""#,
        r#""0""#,
        r#""0.5""#,
        r#""5 parsecs""#,
        r#""1h30""#,
        r#""1M""#,
        r#""1y""#,
        r#""1H""#,
        r#""1S""#,
        r#""1us""#,
        r#""1sec""#,
        r#""1 h""#,
        r#""1h 30m""#,
        r#"" 1h""#,
        r#""1h\n""#,
        r#"".5h""#,
        r#""5.h""#,
        r#""1.2.3s""#,
        r#""h""#,
        r#""3653d""#,
        r#""99999999999999999999w""#,
    ];
    for json in refused {
        let error = duration(json).expect_err(json).to_string();
        assert!(error.contains("from 0 to ten years"), "{json}: {error}");
        assert!(error.contains("ms, s, m, h, d, w"), "{json}: {error}");
    }
    for json in ["true", "[]", "{}", "null"] {
        duration(json).expect_err(json);
    }
}

#[test]
fn a_refusal_says_what_is_wrong_with_the_unit() {
    for (json, why) in [
        (r#""5""#, "lacks a unit"),
        (r#""1h30""#, "lacks a unit"),
        (r#""1M""#, r#""M" is not a unit, because months"#),
        (r#""1y""#, r#""y" is not a unit, because months and years"#),
        (r#""1H""#, r#""H" is not a unit (units are case-sensitive"#),
    ] {
        let error = duration(json).expect_err(json).to_string();
        assert!(error.contains(why), "{json}: {error}");
    }
}

#[test]
fn a_query_takes_a_plain_number_of_seconds_too() {
    let taken = ["20", "0.25", "20s", "1m"].map(|text| Millis::from_query(text).expect(text));
    assert_eq!(taken.map(Millis::get), [20_000, 250, 20_000, 60_000]);
    for text in ["", "-1", "1e3", "+5", "1M", "1.", "99999999999", "NaN"] {
        Millis::from_query(text).expect_err(text);
    }
}

proptest! {
    #[test]
    fn a_duration_round_trips_through_its_json_number(millis in 0..=MAX_DURATION.0) {
        let json = serde_json::to_string(&Millis(millis)).expect("a number");
        prop_assert_eq!(duration(&json).expect("our own number"), millis);
    }

    #[test]
    fn units_add_up(parts in proptest::collection::vec((0..1000_u64, 0..UNITS.len()), 1..6)) {
        let text: String =
            parts.iter().map(|&(n, unit)| format!("{n}{}", UNITS[unit].0)).collect();
        let sum: u64 = parts.iter().map(|&(n, unit)| n * UNITS[unit].1).sum();
        let expected = Some(Millis(sum)).filter(|&span| span <= MAX_DURATION);
        prop_assert_eq!(text.parse().ok(), expected);
    }

    #[test]
    fn parsing_arbitrary_text_never_panics(text in ".{0,40}") {
        let _ = text.parse::<Millis>();
        let _ = Millis::from_query(&text);
    }
}
