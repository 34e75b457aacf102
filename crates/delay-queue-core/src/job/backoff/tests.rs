use proptest::prelude::*;

use super::*;

fn parse(json: &str) -> Result<Backoff, String> {
    serde_json::from_str(json).map_err(|error| error.to_string())
}

fn any_backoff() -> impl Strategy<Value = Backoff> {
    let list = proptest::collection::vec(0..10_000_000_u64, 1..=MAX_VALUES)
        .prop_map(|values| Backoff::List(values.into_iter().map(Millis::new).collect()));
    let exponential = (1..10_000_u64, 1.0..1000.0, 1..10_000_000_u64, 0.0..=1.0).prop_map(
        |(initial, factor, max, jitter)| Backoff::Exponential {
            initial: Millis::new(initial),
            factor,
            max: Millis::new(max),
            jitter,
        },
    );
    prop_oneof![list, exponential]
}

#[test]
fn a_list_of_waits_repeats_its_last_value() {
    let backoff = parse(r#"["0s","2m","10m"]"#).expect("a list");
    let id = "order-1".parse().expect("an id");
    let seconds = [1, 2, 3, 4, 9].map(|attempt| backoff.delay(&id, attempt).get() / 1000);
    assert_eq!(seconds, [0, 120, 600, 600, 600]);
    assert_eq!(backoff.attempts(), Some(4));
}

#[test]
fn exponential_waits_and_jitter_stay_within_bounds() {
    let backoff = parse(r#"{"initial":"1s","factor":2,"max":"1m","jitter":0.1}"#).expect("exp");
    let id = "order-1".parse().expect("an id");
    for (attempt, wait) in [(1, 1000), (2, 2000), (6, 32_000)] {
        let delay = backoff.delay(&id, attempt).get();
        assert!((wait * 9 / 10..=wait * 11 / 10).contains(&delay), "{attempt}: {delay}");
    }
    assert!(backoff.delay(&id, u32::MAX).get() <= 60_000);
}

#[test]
fn waits_with_jitter_are_pinned() {
    let waits = |text: &str, id: &str| {
        let (backoff, id) = (text.parse::<Backoff>().expect("exp"), id.parse().expect("an id"));
        [1, 2, 3, 7].map(|attempt| backoff.delay(&id, attempt).get())
    };
    assert_eq!(waits("exp:1000:2:60000:0", "a"), [1000, 2000, 4000, 60_000]);
    assert_eq!(waits("exp:1000:2:1000000:0.5", "a"), PINNED[0]);
    assert_eq!(waits("exp:1000:2:1000000:0.5", "order:4711"), PINNED[1]);
}

const PINNED: [[u64; 4]; 2] = [[625, 1493, 3469, 86_452], [548, 1338, 3161, 81_522]];

#[test]
fn a_jitter_below_zero_by_its_sign_alone_is_none() {
    let json = parse(r#"{"initial":1,"factor":2,"max":10,"jitter":-0.0}"#).expect("exp");
    let text: Backoff = "exp:1:2:10:-0".parse().expect("exp");
    assert_eq!([json.to_string(), text.to_string()], ["exp:1000:2:10000:0", "exp:1:2:10:0"]);
}

#[test]
fn a_stored_text_that_is_not_a_backoff_is_refused() {
    for text in
        ["", "list:", "list:a", "exp:0:2:1000:0", "exp:1:2:3", "exp:1:2:3:0:0", "exp:1:0.5:3:0"]
    {
        text.parse::<Backoff>().expect_err(text);
    }
}

#[test]
fn unusable_backoffs_are_refused() {
    let many = serde_json::to_string(&vec![1; 1000]).expect("a list");
    let refused = [
        "[]",
        many.as_str(),
        r#"{"initial":1,"max":10,"factor":0.5}"#,
        r#""1s""#,
        "5",
        "[null]",
        r#"{"initial":1,"max":10,"jitter":1.1}"#,
        r#"{"initial":0,"max":10}"#,
        r#"[-1]"#,
        r#"{"initial":1,"max":10,"jitter":-0.1}"#,
        r#"{"initial":1}"#,
        r#"{"initial":1,"max":1,"x":1}"#,
    ];
    for json in refused {
        parse(json).expect_err(json);
    }
}

proptest! {
    #[test]
    fn a_backoff_survives_its_stored_text_and_its_json(backoff in any_backoff()) {
        prop_assert_eq!(backoff.to_string().parse::<Backoff>(), Ok(backoff.clone()));
        let json = serde_json::to_string(&backoff).expect("json");
        prop_assert_eq!(parse(&json), Ok(backoff));
    }
}
