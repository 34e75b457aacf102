use super::*;

const NOW: UnixMillis = UnixMillis::new(1_900_000_000_000);

fn answer(status: u16, body: &'static str) -> Answer {
    Answer {
        status: StatusCode::from_u16(status).expect("a status"),
        headers: HeaderMap::new(),
        body: Bytes::from_static(body.as_bytes()),
        is_whole: true,
        is_public: true,
    }
}

fn one(status: u16, body: &'static str) -> (Verdict, bool) {
    let mut judged = Judged::of_one(Ok(answer(status, body)), NOW);
    assert_eq!(judged.status, Some(status));
    (judged.verdicts.remove(0), judged.health == Health::Busy)
}

#[test]
fn each_status_has_its_verdict() {
    for status in [200, 201, 204, 299] {
        assert_eq!(one(status, ""), (Verdict::Accepted(None), false), "{status}");
    }
    for (status, is_target_failure) in
        [(300, false), (302, false), (400, false), (404, false), (500, false)]
    {
        let (verdict, ill) = one(status, "no");
        assert!(
            matches!(verdict, Verdict::Failed(_)) && ill == is_target_failure,
            "{status}: {verdict:?}"
        );
    }
    for status in [429, 502, 503, 504] {
        let (verdict, ill) = one(status, "");
        assert!(matches!(verdict, Verdict::Later { after: None, .. }) && ill, "{status}");
    }
    let (verdict, ill) = one(410, "no such shop");
    let error = "the endpoint answered 410 Gone: no such shop".to_owned();
    assert_eq!((verdict, ill), (Verdict::Refused(error), false));
}

#[test]
fn failures_count_only_if_the_request_was_sent() {
    let judged = |failure: Failure| {
        let mut judged = Judged::of_one(Err(failure), NOW);
        (judged.verdicts.remove(0), judged.health)
    };
    let text = || "why".to_owned();
    let later = Verdict::Later { after: None, error: text() };
    assert_eq!(judged(Failure::NotSent(text())), (later, Health::Unreachable));
    assert_eq!(judged(Failure::TimedOut(text())), (Verdict::Failed(text()), Health::Busy));
    assert_eq!(judged(Failure::Lost(text())), (Verdict::Failed(text()), Health::Unknown));
    assert_eq!(judged(Failure::Compressed(text())), (Verdict::Failed(text()), Health::Unknown));
}

#[test]
fn only_json_that_readers_accept_is_a_result() {
    let result = |body| match one(200, body).0 {
        Verdict::Accepted(result) => result,
        verdict => panic!("{verdict:?}"),
    };
    assert_eq!(result(" {\"paid\": true}\n"), Some(Bytes::from_static(b"{\"paid\": true}")));
    for body in ["", "ok", "null", "{", "\"\\ud800\"", "1e999"] {
        assert_eq!(result(body), None, "{body}");
    }
    let long: &'static str = format!("\"{}\"", "x".repeat(MAX_RESULT_BYTES)).leak();
    assert_eq!(result(long), None);
}

#[test]
fn retry_after_is_from_a_second_to_a_day() {
    let after = |text: &str| {
        let mut answer = answer(503, "");
        answer.headers.insert(RETRY_AFTER, text.parse().expect("a value"));
        match Judged::of_one(Ok(answer), NOW).verdicts.remove(0) {
            Verdict::Later { after, .. } => after.map(Millis::get),
            verdict => panic!("{verdict:?}"),
        }
    };
    assert_eq!(after("120"), Some(120_000));
    assert_eq!((after("0"), after("99999999999999999999")), (Some(1_000), Some(86_400_000)));
    assert_eq!(after("Sun, 17 Mar 2030 17:47:40 GMT"), Some(60_000));
    assert_eq!(after("Sun, 06 Nov 1994 08:49:37 GMT"), Some(1_000));
    assert_eq!((after("soon"), after(""), after("-5")), (None, None, None));
}

#[test]
fn answers_of_private_addresses_are_not_repeated() {
    let private = Answer { is_public: false, ..answer(500, "the secret of the instance") };
    let Judged { verdicts, .. } = Judged::of_one(Ok(private), NOW);
    let result = Answer { is_public: false, ..answer(200, "{\"internal\":1}") };
    assert_eq!(Judged::of_one(Ok(result), NOW).verdicts, [Verdict::Accepted(None)]);
    let error = "the endpoint answered 500 Internal Server Error".to_owned();
    assert_eq!(verdicts, [Verdict::Failed(error)]);
    let long: &'static str = "é".repeat(600).leak();
    let Verdict::Failed(error) = one(500, long).0 else { panic!("a failure") };
    assert!(error.len() < MAX_QUOTE_BYTES + 60 && error.ends_with('é'), "{}", error.len());
}

#[test]
fn a_batch_has_one_status_or_one_for_each_job() {
    let ids: Vec<JobId> = ["a", "b", "c", "d"].map(|id| id.parse().expect("an id")).into();
    let ids: Vec<&JobId> = ids.iter().collect();
    let judged = |answer| Judged::of_batch(Ok(answer), &ids, NOW).verdicts;
    for body in ["", "ok"] {
        assert_eq!(judged(answer(200, body)), vec![Verdict::Accepted(None); 4], "{body}");
    }
    let verdicts = judged(answer(
        207,
        r#"{"results":[{"id":"b","status":410,"error":"gone"},{"id":"a","status":200,"more":1},
           {"id":"c","status":503},{"id":7},{"id":"x","status":200}]}"#,
    ));
    let texts: Vec<String> = verdicts.iter().map(|verdict| format!("{verdict:?}")).collect();
    assert_eq!(texts[0], "Accepted(None)");
    assert_eq!(texts[1], "Refused(\"the endpoint answered 410 Gone: gone\")");
    assert!(texts[2].starts_with("Later"), "{texts:?}");
    assert!(texts[3].contains("no result of this job"), "{texts:?}");
    for answer in [answer(200, "{\"ok\":true}"), Answer { is_whole: false, ..answer(200, "") }] {
        assert!(judged(answer).iter().all(|verdict| matches!(verdict, Verdict::Failed(_))));
    }
    let health = |body| Judged::of_batch(Ok(answer(200, body)), &ids[..2], NOW).health;
    let busy = r#"{"results":[{"id":"a","status":503},{"id":"b","status":429}]}"#;
    assert_eq!(health(busy), Health::Busy);
    assert_eq!(health(r#"{"results":[{"id":"a","status":503}]}"#), Health::Available);
    let down = judged(answer(503, "{\"results\":[{\"id\":\"a\",\"status\":200}]}"));
    assert!(down.iter().all(|verdict| matches!(verdict, Verdict::Later { .. })));
}

#[test]
fn the_default_backoff_ends_at_a_day() {
    assert_eq!(default_backoff(1, 0.5), Millis::new(5_000));
    assert_eq!((default_backoff(2, 0.0).get(), default_backoff(2, 1.0).get()), (270_000, 330_000));
    assert_eq!(default_backoff(0, 0.5), default_backoff(1, 0.5));
    assert_eq!(default_backoff(1_000, 0.5), Millis::new(86_400_000));
}
