use proptest::prelude::*;

use super::*;
use crate::job::{Headers, Priority};

const TRACEPARENT_TEXT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn policy(text: &str) -> Policy {
    text.parse().unwrap_or_else(|_| panic!("{text:?}"))
}

#[test]
fn texts_never_change_because_stored_jobs_have_them() {
    assert_eq!(Policy::STANDARD.to_string(), "");
    let text = format!(
        "t=5000;m=3;d=0;f=7;r=9;x=8;e=1800000000000;g=a.b;o=c_d;s=1800000000001;p={TRACEPARENT_TEXT};h=a=1&B=2+3;b=list:0,120000"
    );
    assert_eq!(policy(&text).to_string(), text);
    assert_eq!(policy(&text).ttr, Millis::new(5000));
}

#[test]
fn the_example_in_whole_txt_sets_every_field() {
    let text = include_str!("../whole.txt");
    let Policy { ttr, max_attempts, backoff, dead_retention, finished_retention, .. } =
        policy(text);
    let Policy { priority, expires_after, expires_at, traceparent, headers, .. } = policy(text);
    let Policy { dead_to, dead_from, scheduled_at, .. } = policy(text);
    let standard = Policy::STANDARD;
    assert!(ttr != standard.ttr && max_attempts != standard.max_attempts);
    assert!(dead_retention != standard.dead_retention && backoff.is_some());
    assert!(finished_retention != standard.finished_retention);
    assert!(!priority.is_standard() && expires_after.is_some() && expires_at.is_some());
    assert!(dead_to.is_some() && dead_from.is_some() && scheduled_at.is_some());
    assert!(traceparent.is_some() && !headers.is_empty());
}

#[test]
fn a_finished_retention_has_the_largest_unit() {
    for (text, millis) in [
        ("7", 7),
        ("1s", 1_000),
        ("1500", 1_500),
        ("90m", 5_400_000),
        ("36h", 129_600_000),
        ("30d", 2_592_000_000),
    ] {
        let written = policy(&format!("f={text}"));
        assert_eq!(written.finished_retention, Millis::new(millis));
        assert_eq!(written.to_string(), format!("f={text}"));
        assert_eq!(policy(&format!("f={millis}")), written, "milliseconds are read too");
    }
}

#[test]
fn invalid_texts_are_refused() {
    for text in [
        "z=1",
        "r=10",
        "r=",
        "x=",
        "e=a",
        "s=",
        "g=",
        "o=a b",
        "f=d",
        "f=1w",
        "f=1dd",
        "f=9999999999999d",
        "t",
        "t=",
        "t=a",
        ";",
        "t=1;",
        "b=list:",
        "p=00",
        "h=a",
        ",,,",
    ] {
        assert_eq!(text.parse::<Policy>(), Err(PolicyError), "{text:?}");
    }
}

proptest! {
    #[test]
    fn a_policy_equals_the_policy_parsed_from_its_text(ttr: u32, max_attempts: u32, retention: u32, unit in prop::sample::select(vec![1, 1_000, 60_000, 3_600_000, 86_400_000]), traced: bool, backoff in proptest::option::of("list:[1-9][0-9]{0,5}|exp:1000:2:60000:0[.]5")) {
        let policy = Policy {
            ttr: Millis::new(ttr.into()),
            max_attempts,
            backoff: backoff.map(|text| text.parse().expect("a backoff")),
            dead_retention: Millis::new(retention.into()),
            finished_retention: Millis::new(u64::from(retention / 2) * unit),
            priority: Priority::new((ttr % 10) as u8).expect("a digit"),
            expires_after: traced.then(|| Millis::new(ttr.into())),
            expires_at: traced.then(|| UnixMillis::new(retention.into())),
            dead_to: traced.then(|| "a.b".parse().expect("a topic")),
            dead_from: (ttr % 2 == 0).then(|| "c".parse().expect("a topic")),
            scheduled_at: (ttr % 3 == 0).then(|| UnixMillis::new(retention.into())),
            traceparent: traced.then(|| TRACEPARENT_TEXT.parse().expect("valid")),
            headers: if traced { "a=1%3B2&b=".parse().expect("valid") } else { Headers::NONE },
        };
        let text = policy.to_string();
        prop_assert!(!text.contains([' ', '\n']), "{text}");
        prop_assert_eq!(text.parse(), Ok(policy));
    }
}
