//! The log of a server: one line per event, and no secrets.

use crate::start::prelude::*;

fn lines<'a>(log: &'a str, word: &str) -> Vec<&'a str> {
    log.lines().filter(|line| line.contains(word)).collect()
}

/// Returns the only line with the first word. It must contain the other words too.
#[track_caller]
fn one<'a>(log: &'a str, words: &[&str]) -> &'a str {
    let [line] = lines(log, words[0])[..] else { panic!("one line with {:?}: {log}", words[0]) };
    for word in words {
        assert!(line.contains(word), "no {word:?} in {line:?}");
    }
    line
}

async fn send(server: &Logged, method: &str, path: &str, body: Value) -> u16 {
    let request = server.request(method, path).header("X-Request-Id", "of-the-test");
    let request = request.body(body.to_string());
    request.send().await.expect("an answer").status().as_u16()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_start_is_logged_in_one_line() {
    let (place, redis) = (WorkDir::new(), Redis::start());
    let version = concat!("version=\"", env!("CARGO_PKG_VERSION"), "\"");
    let server = Logged::start(&place, "");
    let address = format!("address={} ", server.address());
    let log = server.wait_for("serving");
    let dashboard = format!("dashboard={}/ ", server.base);
    let access = ["serving", version, &address, &dashboard, "tls=false", "tokens=\"none\""];
    let file = ["store=\"file:./data\"", "buckets=1", "ack=\"fsync\"", "jobs=0"];
    one(&log, &[&access[..], &file].concat());
    assert_eq!(lines(&log, "WARN"), [""; 0], "{log}");
    for id in ["a", "b"] {
        assert_eq!(send(&server, "POST", "/jobs", json!({"topic": id, "id": id})).await, 201);
    }
    drop(server);
    one(&Logged::start(&place, "").wait_for("serving"), &["serving", "jobs=2"]);

    let url = redis.url();
    let on_redis = Logged::start(&place, &store(&url, "")).wait_for("serving");
    one(&on_redis, &["serving", &format!("store=\"{url}0\""), "buckets=1", "ack=\"memory\""]);
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_failed_requests_are_summed_up_in_the_log() {
    let (place, mut redis) = (WorkDir::new(), Redis::start());
    let server = Logged::start(&place, &store(&redis.url(), ""));
    redis.kill();
    let put = json!({"topic": "t", "id": "x", "body": "a-secret"});
    assert_eq!(send(&server, "POST", "/jobs", put.clone()).await, 503);
    let log = server.wait_for("a request failed");
    let words = ["method=POST", "path=\"/jobs\"", "status=503", "code=\"store_unavailable\""];
    let line = one(&log, &[&["a request failed"], &words[..]].concat());
    assert!(line.contains("cause=") && line.contains("request_id=\"of-the-test\""), "{line}");
    for _ in 0..100 {
        assert_eq!(send(&server, "POST", "/jobs", put.clone()).await, 503);
    }
    let batch = json!({"jobs": [put, {"topic": "t", "delay": "no time"}]});
    assert_eq!(send(&server, "POST", "/batch/jobs", batch).await, 503);
    let log = server.stopped();
    let shown = lines(&log, "path=\"").len();
    assert!(shown <= 10 + 1, "{log}");
    let sums = lines(&log, "more in the last");
    assert!(sums.iter().any(|line| line.contains(" s: a request failed")), "{log}");
    let more: usize = sums
        .iter()
        .filter(|line| line.ends_with(": a request failed"))
        .map(|line| line.split("… and ").nth(1).and_then(|rest| rest.split(' ').next()))
        .map(|number| number.and_then(|number| number.parse::<usize>().ok()).expect("a number"))
        .sum();
    assert_eq!(shown + more, 102, "the log does not account for all failed requests: {log}");
    assert!(!log.contains("a-secret"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn actions_on_topics_are_logged_for_audits() {
    let (_place, server) = logged("");
    assert_eq!(send(&server, "POST", "/topics/t/pause", json!({})).await, 200);
    let log = server.wait_for("/topics/t/pause");
    let words = ["INFO delay_queue::audit:", "method=POST", "status=200", "result=\"paused\""];
    one(&log, &[&["uri=\"/topics/t/pause\""], &words[..]].concat());
    assert!(!log.contains('{'), "the log contains JSON: {log}");
}

/// Returns the only audit line with this URI in a log of JSON lines.
#[track_caller]
fn audited(log: &str, uri: &str) -> Value {
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut own = lines.filter(|line| line["uri"] == uri);
    let line = own.next().unwrap_or_else(|| panic!("no {uri:?} in {log}"));
    assert!(own.next().is_none(), "the log has several lines with {uri:?}: {log}");
    assert_eq!((&line["target"], &line["level"]), (&"delay_queue::audit".into(), &"INFO".into()));
    assert!(line["timestamp"].is_string(), "{line}");
    line
}

const JSON_LOG: &str = "[log]\nformat = \"json\"\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_log_of_json_lines_has_one_schema() {
    let (_place, server) = logged(JSON_LOG);
    let log = server.wait_for("serving");
    for line in log.lines() {
        let line: Value = serde_json::from_str(line).expect("a line of JSON");
        for field in ["timestamp", "level", "target", "message"] {
            assert!(line[field].is_string(), "{field} is no top-level field: {line}");
        }
    }
    assert!(log.contains("\"store\":\"file:./data\""), "{log}");
    for id in ["a", "b"] {
        assert_eq!(send(&server, "POST", "/jobs", json!({"topic": "t", "id": id})).await, 201);
    }
    let nothing = || json!({});
    for (method, path, body, result) in [
        ("POST", "/topics/t/pause", nothing(), "paused"),
        ("POST", "/v1/topics/t/resume", nothing(), "resumed"),
        ("PUT", "/topics/t", json!({"ttr": 7}), "7"),
        ("POST", "/topics/t/kick?limit=5", nothing(), "0 jobs kicked"),
        ("DELETE", "/topics/t/jobs?state=ready", nothing(), "2 jobs purged"),
    ] {
        assert_eq!(send(&server, method, path, body).await, 200, "{path}");
        let line = audited(&server.wait_for(path), path);
        let of_the_test = (&line["method"], &line["status"], &line["request_id"]);
        assert_eq!(of_the_test, (&method.into(), &200.into(), &"of-the-test".into()), "{line}");
        let text = |field: &str| line[field].as_str().expect("text");
        let is_local = text("peer").starts_with("127.0.0.1:");
        assert!(text("result").contains(result) && is_local, "{line}");
    }
    assert_eq!(send(&server, "DELETE", "/topics/t/jobs?state=gone", nothing()).await, 422);
    let wrong = audited(&server.wait_for("state=gone"), "/topics/t/jobs?state=gone");
    assert_eq!((&wrong["status"], &wrong["result"]), (&422.into(), &"invalid_field".into()));
    // The log shortens text from clients.
    let path = format!("/{}", "x".repeat(5_000));
    let foreign = server.request("GET", &path).header("Origin", "https://evil.test");
    assert_eq!(foreign.send().await.expect("an answer").status(), 403);
    let refused = audited(&server.wait_for("a refused request"), &path[..256]);
    assert_eq!(refused["result"], "forbidden_origin");
    assert_eq!(send(&server, "GET", "/topics/t", nothing()).await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn at_debug_each_request_has_a_line_without_its_body_and_query() {
    let (_place, server) = logged("[log]\nfilter = \"debug\"\n");
    let put = json!({"topic": "t", "id": "one", "body": "a-secret"});
    assert_eq!(send(&server, "POST", "/jobs", put).await, 201);
    assert_eq!(send(&server, "GET", "/jobs/one?key=a-secret", json!({})).await, 422);
    let log = server.wait_for("path=\"/jobs/one\"");
    let words =
        ["DEBUG", "access", "method=GET", "status=422", "ms=", "request_id=\"of-the-test\""];
    one(&log, &[&["path=\"/jobs/one\""], &words[..]].concat());
    assert!(!log.contains("a-secret"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_action_is_logged_even_if_its_client_disconnects() {
    let (redis, root) = (Redis::start(), secret());
    let (_place, server) =
        logged(&[JSON_LOG, &bootstrap(&root), &store(&redis.url(), "")].concat());
    // This token has all scopes, since the server refuses puts with the bootstrap token.
    let scopes = json!({"put": ["*"], "manage": ["*"], "admin": ["*"]});
    let made = server.request("POST", "/tokens").bearer_auth(&root);
    let made = made.json(&json!({"name": "all", "scopes": scopes}));
    let made: Value = made.send().await.expect("an answer").json().await.expect("a token");
    let secret = made["token"].as_str().expect("the secret");
    // Redis is frozen, so that the client disconnects before the answer.
    let frozen = freeze(redis.port());
    let at = server.address();
    for line in ["POST /jobs", "DELETE /tokens/shop", "DELETE /jobs/one", "POST /v1/topics/t/pause"]
    {
        let mut client = TcpStream::connect(&at).expect("the server listens");
        let body = if line == "POST /jobs" { r#"{"topic":"t"}"# } else { "{}" };
        let head = format!("Host: {at}\r\nAuthorization: Bearer {secret}\r\nX-Request-Id: gone");
        let head = format!("{head}\r\nExpect: 100-continue\r\nContent-Length: {}", body.len());
        write!(client, "{line} HTTP/1.1\r\n{head}\r\n\r\n").expect("sent");
        // `100 Continue` proves that the handler waits for the body.
        let mut go_on = [0; 25];
        client.read_exact(&mut go_on).expect("an interim answer");
        assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
        client.write_all(body.as_bytes()).expect("sent");
        drop(client);
    }
    for path in ["/tokens/shop", "/jobs/one", "/v1/topics/t/pause"] {
        let line = audited(&server.wait_for(path), path);
        assert_eq!((&line["status"], &line["token"]), (&499.into(), &"all".into()), "{line}");
        assert_eq!(line["request_id"], "gone");
        let result = line["result"].as_str().expect("text");
        assert!(result.contains("may have been done"), "{line}");
        assert!(line["peer"].as_str().is_some_and(|peer| peer.starts_with("127.0.0.1:")), "{line}");
    }
    let log = server.wait_for("\"/jobs/one\"");
    assert!(!log.contains("\"/jobs\""), "a put is in the audit log: {log}");
    frozen.thaw();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_sent_in_the_wrong_place_is_not_logged() {
    let secret = secret();
    let (_place, server) = logged(&format!("{JSON_LOG}filter = \"debug\"\n"));
    let put = json!({"topic": "t", "id": "a"});
    assert_eq!(send(&server, "POST", "/jobs", put).await, 201);
    for (method, path, status) in [
        ("POST", format!("/topics/t/kick?access_token={secret}&limit=1"), 422),
        ("DELETE", format!("/tokens/{secret}"), 404),
        ("POST", format!("/topics/{}{secret}/kick", "t".repeat(230)), 422),
        ("GET", format!("/jobs/{secret}"), 404),
    ] {
        assert_eq!(send(&server, method, &path, json!({})).await, status, "{path}");
    }
    let log = server.stopped();
    audited(&log, "/topics/t/kick?access_token=dq_…&limit=1");
    audited(&log, "/tokens/dq_…");
    assert!(!log.contains(&secret[..8]), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_a_push_are_audited_without_secrets() {
    let (_place, server) = logged(&format!("{JSON_LOG}filter = \"debug\"\n"));
    let secret = format!("whsec_{}", "AQID".repeat(8));
    let push = json!({
        "url": "https://hook.invalid/a?key=query", "concurrency": 7, "secrets": [secret],
        "headers": {"authorization": "Bearer key"}, "timeout": 1,
    });
    let path = "/topics/t/push";
    assert_eq!(send(&server, "PUT", path, push).await, 201);
    for act in ["pause", "resume", "test"] {
        assert_eq!(send(&server, "POST", &format!("/v1{path}/{act}"), json!({})).await, 200);
    }
    let bad = json!({"url": "https://hook.invalid/", "secrets": [format!("{secret}!")]});
    assert_eq!(send(&server, "PUT", "/v1/topics/t/push", bad).await, 422);
    assert_eq!(send(&server, "GET", path, json!({})).await, 200);
    assert_eq!(send(&server, "DELETE", path, json!({})).await, 204);
    let log = server.stopped();
    let audit = lines(&log, "an operator's action");
    let results: Vec<String> = audit
        .iter()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
        .map(|line| line["result"].as_str().expect("text").to_owned())
        .collect();
    let words = ["https://hook.invalid/a?…", "\"concurrency\":7"];
    let words = [words, ["\"secrets\":\"1\"", "\"authorization\":\"set\""]].concat();
    assert!(words.iter().all(|word| results[0].contains(word)), "{results:?}");
    let rest = ["push paused", "push resumed", "push tested", "invalid_field", "push removed"];
    assert_eq!(results[1..], rest);
    for secret in ["AQID", "Bearer key", "key=query"] {
        assert!(!log.contains(secret), "{log}");
    }
}
