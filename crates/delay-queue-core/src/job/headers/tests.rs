use proptest::prelude::*;

use super::*;

fn read(json: &str) -> Result<Headers, String> {
    serde_json::from_str(json).map_err(|error| error.to_string())
}

#[test]
fn names_and_values_come_back_as_they_were_written() {
    let json = r#"{"X-Tenant":"7 of 9;\t100%","x.y":"","a":"=&+"}"#;
    let headers = read(json).expect("valid");
    assert_eq!(serde_json::to_string(&headers).expect("JSON"), json);
    assert_eq!(headers.to_string(), "X-Tenant=7+of+9%3B%09100%25&x.y=&a=%3D%26%2B");
    assert_eq!(headers.to_string().parse(), Ok(headers));
    assert_eq!(read("{}").expect("valid"), Headers::default());
}

#[test]
fn each_rule_is_refused_by_name() {
    let refused = [
        (r#"{"":"v"}"#, "RFC 9110"),
        (r#"{"a b":"v"}"#, "RFC 9110"),
        (r#"{"ä":"v"}"#, "RFC 9110"),
        (r#"{"a":"v","A":"v"}"#, r#"the name "A" twice"#),
        (r#"{"a":"v","a":"v"}"#, r#"the name "a" twice"#),
        (r#"{"Host":"v"}"#, "reserved"),
        (r#"{"Webhook-Id":"v"}"#, "reserved"),
        (r#"{"PROXY-anything":"v"}"#, "reserved"),
        (r#"{"a":"line\nfeed"}"#, "visible ASCII"),
        (r#"{"a":"ü"}"#, "visible ASCII"),
        (r#"{"a":7}"#, "invalid type"),
        (r#"["a"]"#, "an object of text values"),
    ];
    for (json, why) in refused {
        let error = read(json).expect_err(json);
        assert!(error.contains(why), "{json}: {error}");
    }
    for name in ["te-x", "hosts", "x-host", "webhook", "proxy"] {
        assert!(read(&format!(r#"{{"{name}":"v"}}"#)).is_ok(), "{name}");
    }
}

#[test]
fn the_limits_are_those_of_the_contract() {
    let pairs = |count: usize| (0..count).map(|n| (format!("n{n:02}"), String::new())).collect();
    assert!(Headers::new(pairs(MAX_HEADERS)).is_ok());
    assert_eq!(Headers::new(pairs(33)), Err(HeadersError::Count(33)));
    let sized = |bytes: usize| Headers::new(vec![("n".to_owned(), "v".repeat(bytes - 1))]);
    assert!(sized(MAX_HEADER_BYTES).is_ok());
    assert_eq!(sized(8193), Err(HeadersError::Size(8193)));
}

#[test]
fn a_text_that_no_headers_have_is_refused() {
    for text in ["a", "a=b&", "a=%2", "a=b;c", "a=%41", "host=x"] {
        assert!(text.parse::<Headers>().is_err(), "{text}");
    }
}

proptest! {
    #[test]
    fn headers_survive_their_text(
        pairs in proptest::collection::btree_map("[a-z!#$%&'*+.^_`|~-]{1,9}", "[ -~\t]{0,20}", 0..9),
    ) {
        let Ok(headers) = Headers::new(pairs.into_iter().collect()) else { return Ok(()) };
        let text = headers.to_string();
        prop_assert!(!text.contains([' ', ';', '\t', '\n']), "{text}");
        prop_assert_eq!(text.parse(), Ok(headers));
    }
}
