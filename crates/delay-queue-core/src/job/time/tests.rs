use proptest::prelude::*;

use super::*;

fn time(json: &str) -> Result<u64, serde_json::Error> {
    serde_json::from_str::<UnixMillis>(json).map(UnixMillis::get)
}

#[test]
fn times_are_rfc_3339_or_thirteen_digits() {
    assert_eq!(time(r#""2026-01-31T12:00:00.0001+08:00""#).expect("rfc 3339"), 1_769_832_000_001);
    assert_eq!(time("1769832000001").expect("milliseconds"), 1_769_832_000_001);
    assert_eq!(time("1769832000001.0").expect("a whole number"), 1_769_832_000_001);
    assert_eq!(time(r#""1969-01-31T12:00:00Z""#).expect("before the epoch"), 0);
    assert_eq!(
        time(r#""2016-12-31T23:59:60Z""#).expect("a leap second"),
        time(r#""2017-01-01T00:00:00Z""#).expect("the second after it"),
        "never early"
    );
    assert_eq!(
        time(r#""2017-01-01T00:59:60.25+01:00""#).expect("within a leap second"),
        time(r#""2017-01-01T00:00:00.250Z""#).expect("the second after it"),
    );
    let refused = [
        "1769832000",
        "17698320000010",
        "-1",
        "1.5",
        "1769832000001.5",
        r#""2026-01-31""#,
        r#""tomorrow""#,
        r#""2026-01-31T12:00:00""#,
        r#""2026-13-31T12:00:00Z""#,
        r#""2026-01-31T12:00:61Z""#,
        r#""2016-12-31T235960.000Z""#,
        r#""2026-01-31T12:00:é0Z""#,
        r#""""#,
        r#""2026-01-31T12:00:00+01:00[Europe/Paris]""#,
    ];
    for json in refused {
        let error = time(json).expect_err(json).to_string();
        assert!(error.contains("RFC 3339 text with an offset"), "{json}: {error}");
    }
}

proptest! {
    #[test]
    fn a_time_survives_its_text(millis in 0..9_999_999_999_999_u64) {
        let time = UnixMillis(millis);
        prop_assert_eq!(time.to_string().parse::<UnixMillis>(), Ok(time));
    }

    #[test]
    fn parsing_arbitrary_text_never_panics(text in ".{0,40}") {
        let _ = text.parse::<UnixMillis>();
    }

    #[test]
    fn the_text_is_that_of_the_library(millis in 0..=UnixMillis::NEVER.get()) {
        let library = Timestamp::from_millisecond(i64::try_from(millis).expect("a small number"));
        let text = format!("{:.3}", library.expect("a time before the year 10000"));
        let json = serde_json::to_string(&UnixMillis::new(millis)).expect("text");
        prop_assert_eq!(json, format!("{text:?}"));
        prop_assert_eq!(UnixMillis::new(millis).to_string(), text);
    }
}
