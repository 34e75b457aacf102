//! Limits of the size, number and duration of requests.

use crate::start::connections::{Answer, HEALTH, ask, begin, read_answer, request};
use crate::start::prelude::*;

fn put(topic: &str) -> Vec<u8> {
    request("POST /jobs", &json!({"topic": topic}).to_string())
}

/// Sends a request on a new connection.
fn send(server: &Process, request: &[u8]) -> Answer {
    ask(&server.address(), request).expect("an answer")
}

#[track_caller]
fn refused(answer: &Answer, status: u16, code: &str) {
    let problem = answer.json();
    assert_eq!((answer.status, problem["code"].as_str()), (status, Some(code)), "{problem}");
    assert_eq!(problem["applied"], "no");
    assert!(answer.head.contains("retry-after: 1"), "{}", answer.head);
}

/// Returns whether the server closes the connection within 20 s, without an answer.
fn is_closed(mut stream: TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
    matches!(stream.read(&mut [0]), Ok(0) | Err(_))
}

/// Sends a pop, and repeats it after each refusal, until `count` pops wait. The server refuses the
/// pop while another request is in flight.
async fn begin_waiting(server: &Process, pop: &[u8], count: usize) -> TcpStream {
    let end = Instant::now() + patience();
    loop {
        let stream = begin(&server.address(), pop);
        stream.set_read_timeout(Some(Duration::from_millis(50))).expect("set");
        while stream.peek(&mut [0]).is_err() {
            if waiting_pops(&server.text("/metrics").await) >= count {
                return stream;
            }
            assert!(Instant::now() < end, "the pop neither waits nor is refused");
        }
        assert!(Instant::now() < end, "the pop is always refused");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_bodies_and_waiting_pops_are_not_in_flight() {
    let (place, redis) = (WorkDir::new(), Redis::start());
    let limit = "[limits]\nrequests_in_flight = 1\n";
    let server = place.server(&(store(&redis.url(), "") + limit)).await;
    let whole = put("t");
    let half = &whole[..whole.len() - 5];
    let slow: Vec<_> = (0..3).map(|_| begin(&server.address(), half)).collect();
    let pop = request("GET /topics/other/pop?wait=60s", "");
    let mut waiting = Vec::new();
    for count in 1..=3 {
        waiting.push(begin_waiting(&server, &pop, count).await);
    }
    slow.iter().for_each(until_read);
    let mut status = 0;
    while status != 201 {
        status = send(&server, &put("t")).status;
        assert!([201, 503].contains(&status), "{status}");
    }
    let _frozen = freeze(redis.port());
    let is_refused = || {
        // One of the two puts waits for the store, and the other one is refused meanwhile.
        let mut held = begin(&server.address(), &put("t"));
        let other = send(&server, &put("t"));
        let both = [read_answer(&mut held).expect("an answer"), other];
        let refusal = both.iter().find(|answer| answer.json()["code"] == "overloaded");
        refusal.inspect(|answer| refused(answer, 503, "overloaded")).is_some()
    };
    eventually!(is_refused(), "no put is refused");
    assert_eq!(send(&server, HEALTH).status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_pops_and_puts_per_second_are_limited_per_caller() {
    let (_place, server) = started("[limits]\nwaiting_pops = 2\nputs_per_second = 4\n").await;
    let pop = &request("GET /topics/t/pop?wait=60s", "");
    let one = begin(&server.address(), pop);
    let _two = begin(&server.address(), pop);
    until_pops_wait(&server.base, 2..).await;
    refused(&send(&server, pop), 429, "too_many_requests");
    assert_eq!(send(&server, &request("GET /topics/t/pop", "")).status, 200);
    drop(one);
    until_pops_wait(&server.base, ..2).await;
    let _third = begin_waiting(&server, pop, 2).await;

    // A batch is not split. Its 40 jobs use up the limit of ten seconds, so the next put is
    // refused.
    let jobs: Vec<_> = (0..40).map(|_| json!({"topic": "other"})).collect();
    let batch = server.post_ok("/batch/jobs", json!({"jobs": jobs})).await;
    assert_eq!(batch["results"][39]["status"], 201, "{batch}");
    refused(&send(&server, &put("other")), 429, "too_many_requests");
    wait_for(&server, &put("other"), 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_token_has_its_own_limits_of_waiting_pops_and_puts() {
    let root = secret();
    let limits = "[limits]\nwaiting_pops = 1\nputs_per_second = 1\n";
    let (_place, server) = logged(&(bootstrap(&root) + limits));
    let at = server.address();
    let request = |token: &str, line: &str, body: &str| {
        let head = format!("{line} HTTP/1.1\r\nAuthorization: Bearer {token}\r\nHost: localhost");
        format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
    };
    let ask_as = |token: &str, line: &str, body: &str| {
        ask(&at, &request(token, line, body)).expect("an answer")
    };
    let [one, other] = ["one", "other"].map(|name| {
        let scopes = json!({"put": ["*"], "pop": ["*"], "admin": ["*"]});
        let body = json!({"name": name, "scopes": scopes}).to_string();
        let made = ask_as(&root, "POST /tokens", &body);
        made.json()["token"].as_str().expect("a token").to_owned()
    });
    let wait = request(&one, "GET /topics/t/pop?wait=60s", "");
    // One of the two pops waits and the other is refused, in random order.
    let mut both = [(); 2].map(|()| begin(&at, &wait));
    let mut answered;
    eventually!(
        {
            answered = both.iter_mut().find(|stream| {
                stream.set_read_timeout(Some(Duration::from_millis(50))).expect("set");
                stream.peek(&mut [0]).is_ok()
            });
            answered.is_some()
        },
        "neither pop was refused"
    );
    let answer = answered.and_then(read_answer).expect("an answer");
    refused(&answer, 429, "too_many_requests");
    let others = ask_as(&other, "GET /topics/t/pop?wait=10ms", "");
    assert_eq!(others.status, 200, "another token from the same address was refused");

    let job = r#"{"topic":"u"}"#;
    let batch = format!(r#"{{"jobs":[{}{job}]}}"#, format!("{job},").repeat(99));
    assert_eq!(ask_as(&one, "POST /batch/jobs", &batch).status, 200);
    refused(&ask_as(&one, "POST /jobs", job), 429, "too_many_requests");
    assert_eq!(ask_as(&other, "POST /jobs", job).status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_jobs_of_a_topic_are_limited() {
    let redis = Redis::start();
    for url in ["file:./data", &redis.url()] {
        let place = WorkDir::new();
        let server = place.server(&(store(url, "") + "[limits]\ntopic_jobs = 3\n")).await;
        server.put_job(json!({"topic": "t", "id": "a", "delay": "1h"})).await;
        let jobs: Vec<_> = (0..4).map(|_| json!({"topic": "t"})).collect();
        let batch = server.post_ok("/batch/jobs", json!({"jobs": jobs})).await;
        let status = |number: usize| batch["results"][number]["status"].as_u64().expect("a number");
        assert_eq!((0..4).map(status).collect::<Vec<_>>(), [201, 201, 429, 429], "{batch}");
        assert_eq!(batch["results"][2]["code"], "topic_full");
        refused(&send(&server, &put("t")), 429, "topic_full");
        assert_eq!(send(&server, &put("u")).status, 201);
        let _ = server.post("/jobs/a/kick", json!({})).await;
        assert_eq!(server.delete("/jobs/a").await, Some(200));
        wait_for(&server, &put("t"), 201);
        refused(&send(&server, &put("t")), 429, "topic_full");
    }
}

/// Repeats the request until the answer has this status.
fn wait_for(server: &Process, request: &[u8], status: u16) {
    let answered = || send(server, request).status;
    eventually_blocking!(answered() == status, "the server never answers with {status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bytes_of_a_topic_are_limited_but_jobs_can_be_removed() {
    let redis = Redis::start();
    for url in ["file:./data", &redis.url()] {
        let place = WorkDir::new();
        let server = place.server(&(store(url, "") + "[limits]\ntopic_bytes = 20000\n")).await;
        let job =
            |id: &str, bytes: usize| json!({"topic": "t", "id": id, "body": "x".repeat(bytes)});
        server.put_job(job("a", 8_000)).await;
        server.put_job(job("b", 8_000)).await;
        let (status, full) = server.post("/jobs", job("c", 8_000)).await.expect("an answer");
        assert_eq!((status, &full["code"]), (429, &"topic_full".into()), "{full}");
        assert!(full["detail"].as_str().is_some_and(|text| text.contains("limits.topic_bytes")));
        server.put_job(job("small", 1_000)).await;
        let larger = json!({"body": "x".repeat(15_000)}).to_string();
        let patch = |body: &str| send(&server, &request("PATCH /jobs/a", body));
        refused(&patch(&larger), 429, "topic_full");
        assert_eq!(patch("{\"ttr\":9}").status, 200);
        // A pop may start with any bucket, so the test pops all jobs to get a large one.
        let popped = server.get("/topics/t/pop?count=3").await.1;
        assert_eq!(popped["jobs"].as_array().map(Vec::len), Some(3), "{popped}");
        server.post_ok("/jobs/b/finish", json!({})).await;
        wait_for(&server, &request("POST /jobs", &job("c", 8_000).to_string()), 201);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_and_bytes_of_the_store_are_limited_but_can_be_removed() {
    let redis = Redis::start();
    for (url, limit) in [
        ("file:./data", "store_jobs = 2"),
        (&*redis.url(), "store_jobs = 2"),
        ("file:./data", "store_bytes = 1"),
        (&*redis.url(), "store_bytes = 1000000"),
    ] {
        redis.command("FLUSHALL").expect("an answer");
        let place = WorkDir::new();
        let server = place.server(&(store(url, "") + "[limits]\n" + limit + "\n")).await;
        let one = json!({"topic": "t", "id": "a", "delay": "1h"});
        let (status, answer) = server.post("/jobs", one).await.expect("an answer");
        if limit.starts_with("store_jobs") {
            assert_eq!(status, 201, "{answer}");
            let jobs = json!({"jobs": [{"topic": "u", "id": "b"}, {"topic": "v"}]});
            let batch = server.post_ok("/batch/jobs", jobs).await;
            let status = |number: usize| batch["results"][number]["status"].as_u64();
            assert_eq!((status(0), status(1)), (Some(201), Some(507)), "{batch}");
            assert_eq!(batch["results"][1]["code"], "store_full");
            assert_eq!(server.delete("/jobs/a").await, Some(200));
            wait_for(&server, &put("w"), 201);
        }
        let answer = send(&server, &put("x"));
        let problem = answer.json();
        assert_eq!((answer.status, &problem["code"]), (507, &"store_full".into()), "{problem}");
        let key = format!("limits.{}", limit.split(' ').next().expect("a key"));
        assert!(problem["detail"].as_str().is_some_and(|text| text.contains(&key)), "{problem}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_per_address_are_limited_and_idle_ones_closed() {
    let (_place, server) = started("[limits]\nconnections_per_address = 3\n").await;
    // The client that waited for the start of the server has the third connection.
    let mut open: Vec<TcpStream> = (0..2).map(|_| begin(&server.address(), b"")).collect();
    for stream in &mut open {
        stream.write_all(HEALTH).expect("sent");
        assert_eq!(read_answer(stream).expect("an answer").status, 200);
    }
    assert!((0..3).all(|_| is_closed(begin(&server.address(), b""))));
    drop(open);
    let is_served = || ask(&server.address(), HEALTH).is_some();
    eventually!(is_served(), "the server closes no idle connection");

    let (_place, server) = started("[limits]\nconnections = 8\n").await;
    let idle: Vec<_> = (0..40).map(|_| begin(&server.address(), b"")).collect();
    for _ in 0..10 {
        assert_eq!(send(&server, HEALTH).status, 200);
    }
    drop(idle);
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_and_slow_connections_are_closed() {
    let limits = "[limits]\nidle_timeout = \"1s\"\nheader_timeout = \"2s\"\n";
    let (_place, server) = started(limits).await;
    assert!(is_closed(begin(&server.address(), b"")), "an idle connection is not closed");
    let mut kept = begin(&server.address(), HEALTH);
    assert_eq!(read_answer(&mut kept).expect("an answer").status, 200);
    assert!(is_closed(kept), "an idle connection is not closed");

    let mut slow = begin(&server.address(), b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n");
    slow.set_read_timeout(Some(Duration::from_millis(200))).expect("set");
    let began = Instant::now();
    while slow.peek(&mut [0]).is_err() {
        assert!(began.elapsed() < patience(), "the server still waits for the head");
        let _ = slow.write_all(b"x"); // the read timeout of the peek is the pause
    }
    let answer = read_answer(&mut slow).expect("an answer");
    assert_eq!((answer.status, answer.json()["code"].as_str()), (408, Some("request_timeout")));
    assert!(began.elapsed() > Duration::from_millis(1_900), "{:?}", began.elapsed());
}
