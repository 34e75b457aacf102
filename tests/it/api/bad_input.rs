//! Invalid input. Each request is refused with a 4xx that names the field, and stores nothing.

use crate::api::prelude::*;

async fn assert_empty(server: &Server) {
    assert!(server.pop("t/pop?count=100").await.is_empty());
    for id in ["a", "x"] {
        server.get(&format!("/jobs/{id}")).await.problem(404, "job_not_found");
    }
}

pub async fn a_bad_put_is_refused_by_field_and_stores_nothing(server: Server) {
    let bad_json =
        ["", "{", "{\"topic\":}", "nope", "{\"topic\":\"t\"} x", "{\"topic\":\"t\",\"delay\":NaN}"];
    for body in bad_json {
        let problem = server.post("/jobs", body).await.problem(400, "invalid_json");
        assert_eq!(problem["applied"], "no");
    }
    let long = "a".repeat(129);
    let values = vec![1; 1000];
    let fields: Vec<(&str, Value)> = vec![
        ("topic", json!({"topic": 7})),
        ("topic", json!({"topic": ""})),
        ("topic", json!({"topic": "a/b"})),
        ("topic", json!({"topic": "a{b}"})),
        ("topic", json!({"topic": "a\0"})),
        ("topic", json!({"topic": ".."})),
        ("topic", json!({"topic": long})),
        ("topic", json!({"topic": "a:b"})),
        ("topic", json!({"topic": null})),
        ("id", json!({"id": ""})),
        ("id", json!({"id": "a b"})),
        ("id", json!({"id": "a/b"})),
        ("id", json!({"id": ".."})),
        ("id", json!({"id": long})),
        ("id", json!({"id": 7})),
        ("delay", json!({"delay": -1})),
        ("delay", json!({"delay": "-5s"})),
        ("delay", json!({"delay": "NaN"})),
        ("delay", json!({"delay": "soon"})),
        ("delay", json!({"delay": true})),
        ("delay", json!({"delay": 315_576_001})),
        ("delay", json!({"delay": "11y"})),
        ("delay", json!({"delay": "5"})),
        ("delay", json!({"delay": "1M"})),
        ("delay", json!({"delay": "1H"})),
        ("delay", json!({"delay": "1us"})),
        ("ttr", json!({"ttr": "60"})),
        ("delay", json!({"delay": 1e300})),
        ("due_at", json!({"due_at": "tomorrow"})),
        ("due_at", json!({"due_at": "2026-01-01"})),
        ("due_at", json!({"due_at": "2026-01-01T00:00:00"})),
        ("due_at", json!({"due_at": 1_700_000_000})),
        ("due_at", json!({"due_at": "2999-01-01T00:00:00Z"})),
        ("due_at", json!({"delay": 1, "due_at": "2030-01-01T00:00:00Z"})),
        ("ttr", json!({"ttr": 0.5})),
        ("ttr", json!({"ttr": "25h"})),
        ("max_attempts", json!({"max_attempts": -1})),
        ("max_attempts", json!({"max_attempts": 1.5})),
        ("max_attempts", json!({"max_attempts": 1e10})),
        ("backoff", json!({"backoff": []})),
        ("backoff", json!({"backoff": values})),
        ("backoff.factor", json!({"backoff": {"initial": 1, "max": 9, "factor": 0.5}})),
        ("backoff.jitter", json!({"backoff": {"initial": 1, "max": 9, "jitter": 2}})),
        ("backoff", json!({"backoff": "1s"})),
        ("on_conflict", json!({"on_conflict": "perhaps"})),
        ("dealy", json!({"dealy": 1})),
    ];
    for (field, change) in fields {
        let mut body = json!({"topic": "t", "id": "a"});
        for (name, value) in change.as_object().expect("an object") {
            body[name] = value.clone();
        }
        let problem = server.post("/jobs", body.to_string()).await.problem(422, "invalid_field");
        assert_eq!(problem["field"], field, "{body}: {problem}");
        assert!(problem["detail"].as_str().expect("text").contains(field), "{problem}");
    }
    let huge = r#"{"topic":"t","id":"a","delay":1e400}"#;
    assert_eq!(server.post("/jobs", huge).await.problem(422, "invalid_field")["field"], "delay");
    for body in ["[]", "7", "null", r#"["t"]"#, "{}", r#"{"id":"a"}"#] {
        server.post("/jobs", body).await.problem(422, "invalid_field");
    }
    assert_empty(&server).await;
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
    for id in ["..", ".", "a%2Fb", "a%20b", "%00", "a%7Bb%7D", "%ff", "a;b", long.as_str()] {
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
    assert_eq!(server.get("/jobs/%61b").await.ok(200)["id"], "ab");
}

pub async fn a_bad_pop_is_refused(server: Server) {
    let cases = [
        ("wait", "wait=61"),
        ("wait", "wait=-1"),
        ("wait", "wait=x"),
        ("wait", "wait=1M"),
        ("ttr", "ttr=1H"),
        ("wait", "wait="),
        ("wait", "wait=18446744073709551616"),
        ("count", "count=0"),
        ("count", "count=101"),
        ("count", "count=-1"),
        ("count", "count=1.5"),
        ("ttr", "ttr=0"),
        ("ttr", "ttr=25h"),
        ("wiat", "wiat=1"),
        ("count", "count=1&count=2"),
    ];
    for (field, query) in cases {
        let answer = server.get(&format!("/topics/t/pop?{query}")).await;
        assert_eq!(answer.problem(422, "invalid_field")["field"], field, "{query}");
    }
    server.post("/topics/t/pop?count=1", r#"{"count":1}"#).await.problem(422, "invalid_field");
    let many = vec!["t"; 101].join(",");
    server.get(&format!("/topics/{many}/pop")).await.problem(422, "invalid_field");
    server.get("/topics/a,,b/pop").await.problem(422, "invalid_field");
}

pub async fn parameters_that_a_route_does_not_take_are_refused(server: Server) {
    server.put(r#"{"topic":"t","id":"b","delay":"1h"}"#).await;
    for (method, path) in [
        (Method::POST, "/jobs?delay=30"),
        (Method::POST, "/batch/jobs?delay=30"),
        (Method::POST, "/batch/finish?reservation=x"),
        (Method::GET, "/jobs/b?x=1"),
        (Method::PATCH, "/jobs/b?delay=1"),
        (Method::DELETE, "/jobs/b?reservation=x"),
        (Method::DELETE, "/jobs/b?force=1"),
        (Method::DELETE, "/jobs/b?state="),
        (Method::DELETE, "/jobs/b?state=delayed,"),
        (Method::DELETE, "/jobs/b?state=delayed&state=ready"),
        (Method::DELETE, "/jobs/b?state=Delayed"),
        (Method::POST, "/jobs/b/kick?reservation=x"),
        (Method::POST, "/jobs/b/finish?wait=1"),
    ] {
        let answer = server.call(method, path, r#"{"topic":"t","id":"a"}"#).await;
        answer.problem(422, "invalid_field");
    }
    for (path, detail) in [
        ("/topics/t/pop?wiat=1", "`wiat` is not a parameter of this route; did you mean `wait`?"),
        ("/jobs/b?x=1", "`x` is not a parameter of this route; it takes wait"),
        (
            "/topics?colour=1",
            "`colour` is not a parameter of this route; it takes prefix, limit, cursor",
        ),
    ] {
        let problem = server.get(path).await.problem(422, "invalid_field");
        let said = problem["detail"].as_str().expect("text");
        assert!(said.starts_with(detail.trim_end_matches("prefix, limit, cursor")), "{said}");
    }
    let body = r#"{"reservation":"x"}"#;
    server.call(Method::DELETE, "/jobs/b", body).await.problem(422, "invalid_field");
    assert_eq!(server.get("/jobs/b").await.ok(200)["state"], "delayed");
    assert_empty(&server).await;
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
    server.put(&put(262_144)).await;
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
            server.post(&path, body.to_string()).await.problem(422, "invalid_field");
        }
        server.post(&path, "{\"jobs\":[").await.problem(400, "invalid_json");
    }
    let unknown = server.post("/batch/finish", r#"{"jobs":[{"id":"a","x":1}]}"#).await.ok(200);
    assert_eq!(unknown["results"][0]["field"], "jobs[0].x", "{unknown}");
    assert_empty(&server).await;
}

pub async fn an_unknown_id_or_a_wrong_reservation_is_refused(server: Server) {
    for action in ["finish", "release", "touch", "bury", "kick"] {
        let answer = server.post(&format!("/jobs/nobody/{action}"), "").await;
        answer.problem(404, "job_not_found");
    }
    server.put(r#"{"topic":"t","id":"a"}"#).await;
    server.put(r#"{"topic":"t","id":"x"}"#).await;
    let popped = server.pop("t/pop?count=2").await;
    let other = popped.iter().find(|job| job["id"] == "x").expect("x was popped");
    for reservation in
        [reservation_of(other), "nonsense".to_owned(), String::new(), "é\0".to_owned()]
    {
        for action in ["finish", "release", "touch", "bury"] {
            let body = json!({"reservation": reservation}).to_string();
            let answer = server.post(&format!("/jobs/a/{action}"), body).await;
            answer.problem(409, "reservation_lost");
        }
    }
    for body in [r#"{"reservation":7}"#, r#"{"rsv":"x"}"#, r#"{"id":"a"}"#, "[]"] {
        server.post("/jobs/a/finish", body).await.problem(422, "invalid_field");
    }
    let error = json!({"error": "x".repeat(5000)}).to_string();
    server.post("/jobs/a/release", error).await.problem(422, "invalid_field");
    server.post("/jobs/a/release", r#"{"delay":-1}"#).await.problem(422, "invalid_field");
    server.post("/jobs/a/touch", r#"{"ttr":0}"#).await.problem(422, "invalid_field");
    assert_eq!(server.get("/jobs/a").await.ok(200)["state"], "reserved");
}

pub async fn nonsense_never_makes_a_500(server: Server) {
    let requests = [
        "GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n\u{0}\u{1}\u{2}\u{3}\u{4}",
        "POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        "POST /jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "GET /topics/%/pop HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /topics/t/pop?%zz=%&&= HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "BREW /jobs HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "\r\n\r\n\u{16}\u{3}\u{1}",
    ];
    for request in requests {
        let request =
            request.replacen("Host: localhost", "Host: localhost\r\nConnection: close", 1);
        let answer = send_raw(&server, &request).await;
        assert!(!answer.starts_with("HTTP/1.1 5"), "{request:?}: {answer}");
        assert!(!answer.starts_with("HTTP/1.1 2"), "{request:?}: {answer}");
    }
    server.get("/readyz").await.ok(200);
    assert_empty(&server).await;
}
