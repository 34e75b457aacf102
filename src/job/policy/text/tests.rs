use proptest::prelude::*;

use super::*;
use crate::job::Headers;

const TRACEPARENT_TEXT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn policy(text: &str) -> Policy {
    text.parse().unwrap_or_else(|_| panic!("{text:?}"))
}

#[test]
fn texts_never_change_because_stored_jobs_have_them() {
    assert_eq!(Policy::STANDARD.to_string(), "");
    let text = format!("t=5000;m=3;d=0;f=7;p={TRACEPARENT_TEXT};h=a=1&B=2+3;b=list:0,120000");
    assert_eq!(policy(&text).to_string(), text);
    assert_eq!(policy(&text).ttr, Millis::new(5000));
}

#[test]
fn the_example_in_whole_txt_sets_every_field() {
    let text = include_str!("../whole.txt");
    let Policy { ttr, max_attempts, backoff, dead_retention, finished_retention, .. } =
        policy(text);
    let Policy { traceparent, headers, .. } = policy(text);
    let standard = Policy::STANDARD;
    assert!(ttr != standard.ttr && max_attempts != standard.max_attempts);
    assert!(dead_retention != standard.dead_retention && backoff.is_some());
    assert!(finished_retention != standard.finished_retention);
    assert!(traceparent.is_some() && !headers.is_empty());
}

#[test]
fn texts_of_schema_4_are_read() {
    assert_eq!(policy(",,,"), Policy::STANDARD);
    let text = format!("5000,3,0/{TRACEPARENT_TEXT},list:0,120000");
    let expected = format!("t=5000;m=3;d=0;p={TRACEPARENT_TEXT};b=list:0,120000");
    assert_eq!(policy(&text), policy(&expected));
}

#[test]
fn invalid_texts_are_refused() {
    for text in
        ["x=1", "t", "t=", "t=a", ";", "t=1;", "b=list:", "p=00", "h=a", ",", "1,2,3", "1,2,3,x"]
    {
        assert_eq!(text.parse::<Policy>(), Err(PolicyError), "{text:?}");
    }
}

proptest! {
    #[test]
    fn a_policy_equals_the_policy_parsed_from_its_text(ttr: u32, max_attempts: u32, retention: u32, traced: bool, backoff in proptest::option::of("list:[1-9][0-9]{0,5}|exp:1000:2:60000:0[.]5")) {
        let policy = Policy {
            ttr: Millis::new(ttr.into()),
            max_attempts,
            backoff: backoff.map(|text| text.parse().expect("a backoff")),
            dead_retention: Millis::new(retention.into()),
            finished_retention: Millis::new((retention / 2).into()),
            traceparent: traced.then(|| TRACEPARENT_TEXT.parse().expect("valid")),
            headers: if traced { "a=1%3B2&b=".parse().expect("valid") } else { Headers::NONE },
        };
        let text = policy.to_string();
        prop_assert!(!text.contains([' ', '\n']), "{text}");
        prop_assert_eq!(text.parse(), Ok(policy));
    }
}
