use super::*;
use crate::http::wire::{PatchJob, PopOptions, PutJob};

fn refused(json: &str, within: &str) -> (String, String) {
    let problem = match parse::<PutJob>(json.as_bytes(), within) {
        Err(problem) => problem,
        Ok(_) => panic!("accepted: {json}"),
    };
    (problem.field.unwrap_or_default(), problem.detail)
}

#[test]
fn a_refusal_names_the_path_of_the_field_and_the_error() {
    for (json, field, detail) in [
        (r#"{"topic":"t","dealy":1}"#, "dealy", "`dealy` is not known: expected one of `topic`"),
        (r#"{"topic":"t","topic":"u"}"#, "topic", "`topic` is given twice"),
        (r#"{"topic":7}"#, "topic", "`topic` must be a string, got integer `7`"),
        (r#"{"topic":{}}"#, "topic", "`topic` must be a string, got an object"),
        (
            r#"{"on_conflict":"x"}"#,
            "on_conflict",
            "`on_conflict` must be one of `reject`, `keep`, `replace`, got `x`",
        ),
        (r#"{"backoff":{"initial":1}}"#, "backoff.max", "`backoff.max` is missing"),
        (r#"{"backoff":{"max":1}}"#, "backoff.initial", "`backoff.initial` is missing"),
        (
            r#"{"backoff":{"initial":1,"max":1,"x":1}}"#,
            "backoff.x",
            "`backoff.x` is not known: expected one of `initial`, `factor`, `max`, `jitter`",
        ),
        (
            r#"{"backoff":{"initial":1,"max":9,"factor":0.5}}"#,
            "backoff.factor",
            "`backoff.factor` must be from 1 to 1000, got 0.5",
        ),
        (r#"{"backoff":[1,"1M"]}"#, "backoff[1]", "\"M\" is not a unit"),
        (r#"{"backoff":"1s"}"#, "backoff", "`backoff` must be a list of durations or {"),
        (r#"{"delay":1e400}"#, "delay", "`delay` must be a number that a double can hold"),
        (r#"{"id":"\ud800"}"#, "id", "`id` must be text of whole characters"),
    ] {
        for (within, prefix) in [("", ""), ("jobs[3]", "jobs[3].")] {
            let (named, message) = refused(json, within);
            assert_eq!(named, format!("{prefix}{field}"), "{json}: {message}");
            let detail = detail.replacen(&format!("`{field}`"), &format!("`{named}`"), 1);
            assert!(message.contains(&detail), "{json}: {message}");
        }
    }
}

#[test]
fn invalid_json_is_reported_with_its_place_and_its_field() {
    for (json, message) in [
        (
            r#"{"topic": "x" "id":1}"#,
            "the request must be JSON: expected `,` or `}` at line 1 column 15",
        ),
        (
            r#"{"topic": ?}"#,
            "the request must be JSON: expected value in `topic` at line 1 column 11",
        ),
        (r#"{'topic': 1}"#, "the request must be JSON: key must be a string at line 1 column 2"),
        (r#"{"backoff": {"max": ?}}"#, "the request must be JSON: expected value in `backoff"),
    ] {
        let (_, detail) = refused(json, "");
        assert!(detail.starts_with(message), "{json}: {detail}");
        assert!(!detail.contains('?'), "{json}: {detail}");
    }
}

#[test]
fn a_request_that_is_not_an_object_names_no_field() {
    for json in ["[]", "7", "null", r#"["t"]"#] {
        assert_eq!(refused(json, "").0, "", "{json}");
        assert_eq!(refused(json, "jobs[3]").0, "jobs[3]", "{json}");
    }
}

#[test]
fn a_long_value_is_shortened_in_the_refusal() {
    let json = format!(r#"{{"delay":[],"{}":1}}"#, "x".repeat(100_000));
    assert!(refused(&json, "").1.len() < 1000);
    let json = format!(r#"{{"ttr":true,"{}":1}}"#, "x".repeat(100_000));
    assert!(parse::<PatchJob>(json.as_bytes(), "").err().is_some_and(|p| p.detail.len() < 1000));
    let json = format!(r#"{{"on_conflict":"{}"}}"#, "x".repeat(100_000));
    assert!(refused(&json, "").1.len() < 1000);
    let json = format!(r#"{{"{}":1}}"#, "x".repeat(100_000));
    let (field, detail) = refused(&json, "");
    assert!(field.len() < 1000 && detail.len() < 1000);
}

#[test]
fn a_count_must_be_a_whole_number() {
    for (json, got) in [("3.5", "floating point `3.5`"), ("-1", "integer `-1`")] {
        let request = format!("{{\"count\":{json}}}");
        let Err(problem) = parse::<PopOptions>(request.as_bytes(), "") else { panic!("{json}") };
        assert_eq!(problem.detail, format!("`count` must be a whole number from 0, got {got}"));
    }
}
