use proptest::prelude::*;
use serde_json::value::RawValue;

use super::*;

fn fault(json: &str) -> Option<(&'static str, usize)> {
    serde_json::from_str::<&RawValue>(json).expect("JSON by its grammar");
    check_json(json).err().map(|fault| (fault.violation, fault.at))
}

#[test]
fn what_readers_commonly_refuse_is_refused_at_its_place() {
    let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(128), "]".repeat(128));
    let digits = format!("[{}]", "9".repeat(310));
    for (json, what, at, pointer) in [
        (r#""\ud800""#, HALF, 1, ""),
        (r#"{"a":[1,"x\udc00"]}"#, HALF, 10, "/a/1"),
        (r#"{"a/~":{"b":"\ud83d\ud83d"}}"#, HALF, 13, "/a~1~0/b"),
        (r#"["\ud83dx"]"#, HALF, 2, "/0"),
        (r#"["\ud83d\n\ude00"]"#, HALF, 2, "/0"),
        (r#"["\\\udc00"]"#, HALF, 4, "/0"),
        (r#"{"a":1,"\uDC00":1}"#, HALF, 8, ""),
        ("1e400", TOO_LARGE, 0, ""),
        (r#"[[1,2],[3,-1E+400]]"#, TOO_LARGE, 10, "/1/1"),
        (r#"{"a":{},"b":1.5e309}"#, TOO_LARGE, 12, "/b"),
        (digits.as_str(), TOO_LARGE, 1, "/0"),
        (deep.as_str(), TOO_DEEP, 132, ""),
    ] {
        assert_eq!(fault(json), Some((what, at)), "{json}");
        let place = json_pointer(json, at);
        if what == TOO_DEEP {
            assert!(place.starts_with("/a/0/0") && place.ends_with('…'), "{place}");
        } else {
            assert_eq!(place, pointer, "{json}");
        }
    }
}

#[test]
fn what_readers_take_is_taken() {
    let deep = format!("{}{}", "[".repeat(128), "]".repeat(128));
    let wide = format!("[{}[]]", "[[]],".repeat(1000));
    let long = format!("0.{}", "1".repeat(5000));
    for json in [
        deep.as_str(),
        wide.as_str(),
        long.as_str(),
        "null",
        "-0",
        "1e308",
        "1e-400",
        "0e999999999999",
        "123456789012345678901234567890",
        r#""\ud83d\ude00 \\ud800 \u0000 \uffff \" \\""#,
        r#"{"[[[":"1e400","{":"{"}"#,
        r#"{"a":1,"a":2}"#,
    ] {
        assert_eq!(fault(json), None, "{json}");
    }
}

/// Generates valid JSON with texts and numbers at the limits of readers.
fn any_json() -> impl Strategy<Value = String> {
    let text = "[a-z\\[{:,0-9]{0,3}".prop_map(|text| format!("\"{text}\""));
    let escapes = proptest::collection::vec(
        prop_oneof![
            Just(r"\\"),
            Just(r#"\""#),
            Just(r"\ud83d"),
            Just(r"\uDE00"),
            Just(r"\u0000"),
            Just("ud83d"),
            Just("{"),
        ],
        0..5,
    )
    .prop_map(|parts| format!("\"{}\"", parts.concat()));
    let number = "-?(0|[1-9][0-9]{0,3})(\\.[0-9]{1,3})?([eE][+-]?[0-9]{1,4})?";
    let leaf = prop_oneof![text, escapes.clone(), number, Just("null".to_owned())];
    leaf.prop_recursive(4, 30, 5, move |inner| {
        let list = proptest::collection::vec(inner.clone(), 0..4);
        let fields = proptest::collection::vec((escapes.clone(), inner), 0..4);
        let field = |(key, value)| format!("{key} : {value}");
        prop_oneof![
            list.prop_map(|values| format!("[{}]", values.join(","))),
            fields.prop_map(move |all| {
                format!("{{{}}}", all.into_iter().map(field).collect::<Vec<_>>().join(", "))
            }),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_taken_is_what_a_strict_reader_takes(json in any_json()) {
        let reads = serde_json::from_str::<serde_json::Value>(&json).is_ok();
        prop_assert_eq!(fault(&json).is_none(), reads, "{}", json);
    }

    #[test]
    fn no_text_and_no_place_panics(json in ".{0,40}", at in 0..50_usize) {
        let _ = check_json(&json);
        let _ = json_pointer(&json, at.min(json.len()));
    }
}
