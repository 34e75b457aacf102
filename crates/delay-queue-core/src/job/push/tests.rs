use super::*;

fn push() -> Push {
    Push {
        url: "https://shop.example/hook".to_owned(),
        concurrency: 16,
        rate: "100/s".parse().ok(),
        timeout: 15_000,
        secrets: vec![Hidden::new("whsec_AAAA".to_owned())],
        headers: Headers::new(vec![("X-Shop".to_owned(), "7".to_owned())]).expect("headers"),
        authorization: Some(Hidden::new("Bearer key".to_owned())),
        batch: Some(PushBatch { max: 100, linger: 200 }),
        backoff: None,
        secret_headers: [("x-key".to_owned(), Hidden::new("hunted".to_owned()))].into(),
        set_by: Some("shop".to_owned()),
        accepted_at: Some(UnixMillis::new(7)),
        paused: None,
    }
}

#[test]
fn the_stored_form_is_stable() {
    let text = serde_json::to_string(&push()).expect("JSON");
    assert_eq!(
        text,
        "{\"url\":\"https://shop.example/hook\",\"concurrency\":16,\"rate\":\"100/s\",\
         \"timeout_ms\":15000,\"secrets\":[\"whsec_AAAA\"],\"headers\":{\"X-Shop\":\"7\"},\
         \"authorization\":\"Bearer key\",\"batch\":{\"max\":100,\"linger_ms\":200},\
         \"secret_headers\":{\"x-key\":\"hunted\"},\"set_by\":\"shop\",\
         \"accepted_at\":\"1970-01-01T00:00:00.007Z\"}"
    );
    assert_eq!(serde_json::from_str::<Push>(&text).expect("a push"), push());
    let least = r#"{"url":"http://a","concurrency":1,"timeout_ms":1000,"added_later":1}"#;
    let least: Push = serde_json::from_str(least).expect("unknown fields are ignored");
    assert_eq!((least.concurrency, least.paused), (1, None));
}

#[test]
fn an_export_has_no_secrets_and_is_paused() {
    let text = serde_json::to_string(&push().exported()).expect("JSON");
    assert!(!text.contains("whsec_") && !text.contains("Bearer"), "{text}");
    assert!(!text.contains("hunted") && !text.contains("shop\""), "{text}");
    assert!(text.ends_with("\"paused\":\"imported\"}"), "{text}");
    let shown = format!("{:?}", push());
    assert!(!shown.contains("Bearer") && !shown.contains("hunted"));
}

#[test]
fn only_a_number_with_a_unit_is_a_rate() {
    for (text, seconds) in [("1/s", 1), ("1000000/m", 60), ("500/h", 3600)] {
        let rate: Rate = text.parse().expect("a rate");
        assert_eq!((rate.to_string().as_str(), rate.period().as_secs()), (text, seconds));
    }
    for text in ["", "/s", "0/s", "1000001/s", "1/d", "1 /s", "+1/s", "1/s ", "1", "1/", "-1/s"] {
        assert!(text.parse::<Rate>().is_err(), "{text}");
    }
}
