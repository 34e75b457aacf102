//! Invalid input. Each request is refused with a 4xx that names the field, and stores nothing.
//! Unit tests of each type have more invalid values.

use crate::api::prelude::*;

async fn assert_empty(server: &Server) {
    assert!(server.pop("t/pop?count=100").await.is_empty());
    for id in ["a", "x"] {
        server.get(&format!("/jobs/{id}")).await.problem(404, "job_not_found");
    }
}

pub async fn a_bad_field_is_refused_by_its_name_in_every_request(server: Server) {
    let kept = json!({"topic": "t", "id": "kept", "delay": "1h", "headers": {"a": "1"}});
    server.put(kept).await;
    let before = server.job("kept").await;
    let long = "a".repeat(129);
    let many: serde_json::Map<_, _> = (0..33).map(|n| (n.to_string(), json!(""))).collect();
    let wait = |fields| with(&json!({"initial": 1, "max": 9}), fields);
    for (field, values) in [
        ("topic", json!([7, "", "a/b", "a{b}", "a\0", "..", long, "a:b"])),
        ("id", json!(["", "a b", "a/b", "..", long, 7])),
        ("delay", json!([-1, "-5s", "soon", true, 315_576_001, "11y", "5", "1M", 1e300])),
        ("due_at", json!(["tomorrow", "2026-01-01", 1_700_000_000, "2999-01-01T00:00:00Z"])),
        ("ttr", json!(["60", 0, 0.5, "25h"])),
        ("max_attempts", json!([-1, 1.5, 1e10])),
        ("backoff", json!([[], vec![1; 1000], "1s"])),
        ("backoff[1]", json!([["1s", "2x"]])),
        ("backoff.max", json!([{"initial": "1s"}, {"initial": "1s", "max": "1M"}])),
        ("backoff.initial", json!([{"max": "1s"}])),
        ("backoff.factor", json!([wait(json!({"factor": 0.5}))])),
        ("backoff.jitter", json!([wait(json!({"jitter": 2}))])),
        ("backoff.faktor", json!([wait(json!({"faktor": 2}))])),
        ("priority", json!([10, -1, 4.5, "4", true, [4], {}])),
        ("expires_after", json!([0, "0s", -1, "5", "1M", "soon", "", true, ["1h"], {}, "11y"])),
        ("expires_at", json!(["2032-01-01T00:00:00Z"])),
        ("finished_retention", json!(["31d", -1, "soon", true, [1], 2_592_000.001])),
        ("dead_retention", json!(["11y"])),
        ("dealy", json!([1])),
        ("headers", json!([{"Host": "x"}, {"": "x"}, {"a": "1", "A": "2"}, {"a": "ü"}, many])),
        ("headers", json!([["a"], "a=b", {"a": "x".repeat(8192)}])),
        ("headers.a", json!([{"a": 1}, {"a": null}])),
    ] {
        let name = field.split(['.', '[']).next().expect("a name");
        for value in values.as_array().expect("values") {
            let put = with(&json!({"topic": "t", "id": "a"}), json!({name: value}));
            let problem = server.post("/jobs", &put).await.invalid(field);
            assert_eq!(problem["applied"], "no");
            assert!(problem["detail"].as_str().expect("text").contains(field), "{problem}");
            let change = with(&json!({"ttr": 90}), json!({name: value}));
            server.patch("kept", &change).await.invalid(field);
            // Topics have no headers, so all of them are refused.
            let field_of_topic = if name == "headers" { name } else { field };
            server.set_topic("t", &change).await.invalid(field_of_topic);
            let batch = json!({"jobs": [{"topic": "t", "id": "c"}, put]});
            let results = server.post("/batch/jobs", batch).await.results();
            assert_eq!(results[1]["field"], format!("jobs[1].{field}"), "{value}");
            assert_eq!(results[0]["status"], 201, "{results:?}");
            server.delete("/jobs/c").await.ok(200);
        }
    }
    server.get("/jobs/a").await.problem(404, "job_not_found");
    assert_eq!(server.job("kept").await, before);
    assert_eq!(server.topic("t").await["defaults"]["ttr"], Value::Null);
    for (field, rest) in [
        ("on_conflict", r#""on_conflict":"perhaps""#),
        ("topic", r#""topic":null"#),
        ("due_at", r#""delay":1,"due_at":"2030-01-01T00:00:00Z""#),
        ("delay", r#""delay":1e400"#),
        ("dead_to", r#""dead_to":"u""#),
        ("dead_from", r#""dead_from":"u""#),
    ] {
        let topic = if field == "topic" { "" } else { r#""topic":"t","# };
        server.post("/jobs", format!("{{{topic}{rest}}}")).await.invalid(field);
    }
    for body in ["[]", "7", "null", r#"["t"]"#, "{}", r#"{"id":"a"}"#] {
        server.post("/jobs", body).await.problem(422, "invalid_field");
    }
    for body in
        ["", "{", r#"{"topic":}"#, "nope", "\0\u{1}", r#"{"topic":"t"} x"#, r#"{"delay":NaN}"#]
    {
        assert_eq!(server.post("/jobs", body).await.problem(400, "invalid_json")["applied"], "no");
    }
    assert_empty(&server).await;
}

/// Routes, and invalid values of their parameters.
const PARAMETERS: [(&str, &str, &[&str]); 49] = [
    ("GET /topics/t/pop", "wait", &["61", "-1", "x", "1M", "", "18446744073709551616"]),
    ("GET /topics/t/pop", "count", &["0", "101", "-1", "1.5", "1&count=2"]),
    ("GET /topics/t/pop", "ttr", &["0", "25h", "1H"]),
    ("GET /topics/t/pop", "consumer", &["", "%20", "a+b", "%e4", "a&consumer=a"]),
    ("GET /topics/t/pop", "wiat", &["1"]),
    ("GET /topics/t/pop", "%zz", &["%", "&&="]),
    ("GET /jobs/b", "wait", &["61s", "-1", "soon", "1s&wait=2s", ""]),
    ("GET /jobs/b", "wiat", &["1s"]),
    ("POST /jobs", "delay", &["30"]),
    ("POST /batch/jobs", "delay", &["30"]),
    ("POST /batch/finish", "reservation", &["x"]),
    ("PATCH /jobs/b", "delay", &["1"]),
    ("DELETE /jobs/b", "reservation", &["x"]),
    ("DELETE /jobs/b", "force", &["1"]),
    ("DELETE /jobs/b", "state", &["", "delayed,", "delayed&state=ready", "Delayed"]),
    ("DELETE /jobs/b", "remember", &["31d", "-1", "soon", "1s&remember=2s"]),
    ("POST /jobs/b/kick", "reservation", &["x"]),
    ("POST /jobs/b/finish", "wait", &["1"]),
    ("GET /topics/t/jobs", "state", &["lost", "%ff", "\u{e9}"]),
    ("GET /topics/t/jobs?state=dead", "limit", &["0", "1001", "%f0%9f"]),
    ("GET /topics/t/jobs?state=dead", "cursor", &["%00"]),
    ("GET /topics/t/jobs?state=dead", "error_contains", &[""]),
    ("GET /topics/t/jobs?state=dead", "due_before", &["1000000000000"]),
    ("GET /topics/t/jobs?state=ready", "due_before", &["tomorrow"]),
    ("GET /topics/t/jobs?state=dead", "dry_run", &["true"]),
    ("GET /topics/t/jobs?state=finished", "died_after", &["1000000000000"]),
    ("GET /topics/t/errors", "limit", &["0", "101", "many"]),
    ("GET /topics/t/errors", "state", &["dead"]),
    ("GET /topics/t/due", "step", &["0", "1&from=1900000000000&until=1900000501000"]),
    ("GET /topics/t/due?from=1900000000000", "until", &["1900000000000"]),
    ("GET /topics/t/due", "state", &["delayed"]),
    ("GET /topics", "limit", &["0", "1001"]),
    ("GET /topics", "prefix", &["a/b", "%ff"]),
    ("GET /topics", "cursor", &["a/b"]),
    ("GET /overview", "topic", &["a"]),
    ("GET /schedules", "limit", &["0", "1001"]),
    ("GET /schedules", "topic", &["a:b"]),
    ("GET /schedules", "prefix", &["%20"]),
    ("GET /schedules", "cursor", &["%20"]),
    ("GET /schedules", "state", &["dead"]),
    ("DELETE /topics/t/jobs", "state", &["lost"]),
    ("DELETE /topics/t/jobs", "limit", &["1"]),
    ("DELETE /topics/t/jobs", "died_after", &["1000000000000"]),
    ("DELETE /topics/t/jobs", "cursor", &["a"]),
    ("POST /topics/t/kick", "state", &["ready", "gone"]),
    ("POST /topics/t/kick", "limit", &["0", "1000001"]),
    ("POST /topics/t/kick", "due_after", &["1000000000000"]),
    ("POST /topics/t/kick", "dry_run", &["1"]),
    ("POST /topics/t/pause", "for", &["1h"]),
];

pub async fn bad_parameters_are_refused_by_name(server: Server) {
    server.put(r#"{"topic":"t","id":"b"}"#).await;
    let before = server.job("b").await;
    for (route, field, values) in PARAMETERS {
        let (method, path) = route.split_once(' ').expect("a route");
        let method: Method = method.parse().expect("a method");
        let takes_no_body = method == Method::GET || path.starts_with("/jobs/b/");
        let body =
            if takes_no_body || path.starts_with("/topics") { "" } else { r#"{"topic":"t"}"# };
        let start = if path.contains('?') { '&' } else { '?' };
        for value in values {
            let path = format!("{path}{start}{field}={value}");
            server.call(method.clone(), &path, body).await.invalid(field);
        }
    }
    for (path, field) in [
        ("/topics/t/jobs", "state"),
        ("/topics/a,b/jobs?state=dead", "topic"),
        ("/topics/a,b", "topic"),
        ("/topics/a,,b/pop", "topic"),
        (&format!("/topics/{}/pop", ["t"; 101].join(",")), "topic"),
    ] {
        server.get(path).await.invalid(field);
    }
    server.post("/topics/..%2f/pause", "").await.invalid("topic");
    for (path, body, field) in [
        ("/topics/t/pop?count=1", r#"{"count":1}"#, "count"),
        ("/topics/t/pop?consumer=a", r#"{"consumer":"a"}"#, "consumer"),
        ("/topics/t/pop", r#"{"consumer":7}"#, "consumer"),
        ("/topics/t/pause", r#"{"x":1}"#, "x"),
        ("/topics/t/pause", r#"{"for":0}"#, "for"),
        ("/topics/t/pause", r#"{"for":"5"}"#, "for"),
        ("/topics/t/pause", r#"{"for":"11y"}"#, "for"),
        ("/topics/t/pause", r#"{"until":"1h"}"#, "until"),
    ] {
        server.post(path, body).await.invalid(field);
    }
    for (path, detail) in [
        ("/topics/t/pop?wiat=1", "`wiat` is not a parameter of this route; did you mean `wait`?"),
        ("/jobs/b?x=1", "`x` is not a parameter of this route; it takes wait"),
        ("/topics?colour=1", "`colour` is not a parameter of this route; it takes "),
    ] {
        let problem = server.get(path).await.problem(422, "invalid_field");
        assert!(problem["detail"].as_str().expect("text").starts_with(detail), "{problem}");
    }
    let body = r#"{"reservation":"x"}"#;
    server.call(Method::DELETE, "/jobs/b", body).await.problem(422, "invalid_field");
    assert_eq!(server.job("b").await, before);
    assert_shows(&server.topic("t").await, json!({"paused": false, "ready": 1, "delayed": 0}));
}

/// Sends a request line unchanged, since a client library would normalize it.
async fn send_raw(server: &Server, request: &str) -> String {
    let mut connection = TcpStream::connect(server.address).await.expect("connected");
    connection.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).await.expect("read");
    String::from_utf8_lossy(&answer).into_owned()
}

pub async fn a_bad_id_or_topic_in_the_path_is_refused(server: Server) {
    let long = "a".repeat(129);
    for id in ["..", ".", "%", "a%2Fb", "a%20b", "%00", "a%7Bb%7D", "%ff", "a;b", &long] {
        for (method, path) in [
            ("GET", format!("/jobs/{id}")),
            ("POST", format!("/jobs/{id}/finish")),
            ("GET", format!("/topics/{id}/pop")),
        ] {
            let request = format!(
                "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
            );
            let answer = send_raw(&server, &request).await;
            assert!(answer.starts_with("HTTP/1.1 422 "), "{path}: {answer}");
            assert!(answer.contains("\"code\":\"invalid_field\""), "{path}: {answer}");
        }
    }
    for path in ["/jobs/", "/jobs//finish", "/topics//pop", "/jobs/a/b/finish"] {
        let answer = server.post(path, "").await;
        assert!(answer.status.is_client_error(), "{path}: {answer:?}");
    }
    // An id with needless percent-encoding is still the same id.
    server.put(r#"{"topic":"t","id":"ab"}"#).await;
    assert_eq!(server.job("%61b").await["id"], "ab");
}

pub async fn a_body_over_the_limit_is_refused_however_it_is_sent(server: Server) {
    let put = |length: usize| {
        let body = format!("\"{}\"", "x".repeat(length - 2));
        format!(r#"{{"topic":"t","id":"x","body":{body}}}"#)
    };
    let problem = server.post("/jobs", put(262_145)).await.problem(413, "body_too_large");
    assert_eq!(problem["field"], "body");
    assert!(problem["detail"].as_str().expect("text").contains("262144"), "{problem}");
    // Sends a request above the size limit with a `Content-Length`, and in chunks without one.
    server.post("/jobs", put(9 << 20)).await.problem(413, "body_too_large");
    let head = "POST /jobs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
    let mut connection = TcpStream::connect(server.address).await.expect("connected");
    connection.write_all(head.as_bytes()).await.expect("sent");
    let chunk = format!("{:x}\r\n{}\r\n", 1 << 20, "x".repeat(1 << 20));
    for _ in 0..12 {
        if connection.write_all(chunk.as_bytes()).await.is_err() {
            break; // the server has refused the request
        }
    }
    let mut answer = vec![0; 64];
    let length = connection.read(&mut answer).await.unwrap_or(0);
    let answer = String::from_utf8_lossy(&answer[..length]).into_owned();
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 413 "), "{answer}");

    let encoded =
        server.request(Method::POST, "/jobs").header("content-encoding", "gzip").body("x");
    Server::send(encoded).await.problem(415, "unsupported_encoding");
    assert_empty(&server).await;
    server.put(put(262_144)).await;
}

pub async fn a_bad_batch_is_refused(server: Server) {
    let many: Vec<Value> = vec![json!({"topic": "t", "id": "a"}); 1001];
    for route in ["jobs", "finish", "release", "touch", "delete"] {
        let path = format!("/batch/{route}");
        for body in [
            json!({"jobs": []}),
            json!({"jobs": many}),
            json!({"jobs": 7}),
            json!({}),
            json!({"jobs": [], "x": 1}),
            json!([]),
        ] {
            server.post(&path, body).await.problem(422, "invalid_field");
        }
        server.post(&path, "{\"jobs\":[").await.problem(400, "invalid_json");
    }
    let unknown = server.post("/batch/finish", r#"{"jobs":[{"id":"a","x":1}]}"#).await;
    assert_eq!(unknown.results()[0]["field"], "jobs[0].x");
    assert_empty(&server).await;
}

pub async fn an_unknown_id_or_a_wrong_reservation_is_refused(server: Server) {
    for action in ["finish", "release", "touch", "bury", "kick"] {
        server.act("nobody", action, "").await.problem(404, "job_not_found");
    }
    server.put(r#"{"topic":"t","id":"a"}"#).await;
    server.put(r#"{"topic":"t","id":"x"}"#).await;
    let popped = server.pop("t/pop?count=2").await;
    let other = popped.iter().find(|job| job["id"] == "x").expect("x was popped");
    for reservation in [&reservation_of(other), "nonsense", "", "é\0"] {
        for action in ["finish", "release", "touch", "bury"] {
            let by = json!({"reservation": reservation});
            server.act("a", action, by).await.problem(409, "reservation_lost");
        }
    }
    for (action, body) in [
        ("finish", json!({"reservation": 7})),
        ("finish", json!({"rsv": "x"})),
        ("finish", json!({"id": "a"})),
        ("finish", json!([])),
        ("release", json!({"error": "x".repeat(5000)})),
        ("release", json!({"delay": -1})),
        ("touch", json!({"ttr": 0})),
    ] {
        server.act("a", action, body).await.problem(422, "invalid_field");
    }
    assert_eq!(server.job("a").await["state"], "reserved");
}
