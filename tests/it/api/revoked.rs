//! Requests that act long after their token was checked: once their body has arrived, or once they
//! have waited for a job.

use crate::api::{job_waits::WELL_BEFORE_TIMEOUT, prelude::*};

const SENT_BYTES: usize = 20;
/// A request of which only the head and a part of the body were sent.
struct HalfSent {
    stream: TcpStream,
    rest: String,
}

impl HalfSent {
    async fn begin(server: &Server, path: &str, token: &str, body: &Value) -> Self {
        let body = body.to_string();
        let mut stream = TcpStream::connect(server.address).await.expect("connected");
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nExpect: 100-continue\r\n{}\
             Content-Length: {}\r\n\r\n",
            authorization(token),
            body.len(),
        );
        stream.write_all(head.as_bytes()).await.expect("sent");
        // The server answers `100 Continue` once it has accepted the token.
        let mut go_on = [0; 25];
        stream.read_exact(&mut go_on).await.expect("an answer");
        assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
        stream.write_all(&body.as_bytes()[..SENT_BYTES]).await.expect("sent");
        Self { stream, rest: body[SENT_BYTES..].to_owned() }
    }

    async fn end(mut self) -> u16 {
        self.stream.write_all(self.rest.as_bytes()).await.expect("sent");
        status(&mut self.stream).await
    }
}

fn authorization(token: &str) -> String {
    match token {
        "" => String::new(),
        token => format!("Authorization: Bearer {token}\r\n"),
    }
}

async fn status(stream: &mut TcpStream) -> u16 {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect(&answer)
}

async fn root(server: &Server) -> String {
    let scopes = json!({"admin": ["*"], "put": ["*"], "pop": ["*"], "read": ["*"]});
    server.token("", "root", scopes).await
}

/// Begins a waiting GET on a connection of its own.
async fn begin_get(server: &Server, path: &str, token: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).await.expect("connected");
    let head = format!(
        "GET {path}?wait=60s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{}\r\n",
        authorization(token)
    );
    stream.write_all(head.as_bytes()).await.expect("sent");
    stream
}

pub async fn the_token_must_be_valid_when_the_body_is_complete(server: Server) {
    let mallory = json!({"name": "mallory", "scopes": {"admin": ["*"]}});
    let as_open = HalfSent::begin(&server, "/tokens", "", &mallory).await;
    let root = root(&server).await;
    assert_eq!(as_open.end().await, 401, "the server does not require a token although one exists");

    let scopes = json!({"admin": ["*"], "put": ["*"]});
    let leaver = server.token(&root, "leaver", scopes).await;
    let token = HalfSent::begin(&server, "/tokens", &leaver, &mallory).await;
    let job =
        HalfSent::begin(&server, "/jobs", &leaver, &json!({"topic": "t", "id": "late"})).await;
    let kept = HalfSent::begin(&server, "/jobs", &root, &json!({"topic": "t", "id": "kept"})).await;
    let gone = server.call_as(&root, Method::DELETE, "/tokens/leaver", "").await;
    assert_eq!(gone.status, 204, "{}", gone.text);
    assert_eq!([token.end().await, job.end().await, kept.end().await], [401, 401, 201]);

    let tokens = server.call_as(&root, Method::GET, "/tokens", "").await.ok(200);
    assert_eq!(tokens["tokens"].as_array().map(Vec::len), Some(1), "{tokens}");
    assert_eq!(server.call_as(&root, Method::GET, "/topics/t", "").await.ok(200)["ready"], 1);
}

pub async fn a_waiting_pop_gets_no_job_once_its_token_is_invalid(server: Server) {
    let root = root(&server).await;
    // Waits until both pops have begun, even on a busy machine.
    let put = json!({"topic": "clock", "delay": "6s"});
    let end = server.call_as(&root, Method::POST, "/jobs", put).await.ok(201)["due_at"].clone();
    let mut waiting = Vec::new();
    for (name, expires_at) in [("leaver", Value::Null), ("brief", end)] {
        let token = json!({"name": name, "scopes": {"pop": ["*"]}, "expires_at": expires_at});
        let token = server.create_token(&root, token).await;
        let stream = begin_get(&server, &format!("/topics/{name}/pop"), &token).await;
        waiting.push((name, token, stream));
    }
    let metrics = async || server.call_as(&root, Method::GET, "/metrics", "").await.text;
    let waiting_pops = async || value_of(&metrics().await, "delay_queue_waiting_pops");
    eventually!(waiting_pops().await == Some(2.0), "not both pops wait");
    server.call_as(&root, Method::DELETE, "/tokens/leaver", "").await;
    for (name, token, mut stream) in waiting {
        let access = async || server.call_as(&token, Method::GET, "/access", "").await.status;
        eventually!(access().await == 401, "{name}: the token stays valid");
        let put = json!({"topic": name, "max_attempts": 1});
        server.call_as(&root, Method::POST, "/jobs", put).await.ok(201);
        let mut refused = String::new();
        stream.read_to_string(&mut refused).await.expect("an answer");
        assert!(refused.starts_with("HTTP/1.1 401 "), "{name}: {refused}");
        assert!(refused.contains(r#""applied":"no""#), "{name}: {refused}");
        // The job was given back before the answer.
        let pop = format!("/topics/{name}/pop");
        let jobs = server.call_as(&root, Method::GET, &pop, "").await.jobs();
        assert_eq!(jobs[0]["attempt"], 1, "the attempt that was given back counts: {jobs:?}");
    }
}

pub async fn a_wait_for_a_job_ends_once_its_token_is_invalid(server: Server) {
    let root = root(&server).await;
    let put = json!({"topic": "t", "id": "a", "delay": "1h"});
    server.call_as(&root, Method::POST, "/jobs", put).await.ok(201);
    let leaver = server.token(&root, "leaver", json!({"read": ["*"]})).await;
    let mut stream = begin_get(&server, "/jobs/a", &leaver).await;
    pass(Duration::from_millis(500)).await; // until the wait has probably begun; one that begins later is refused too
    let began = Instant::now();
    server.call_as(&root, Method::DELETE, "/tokens/leaver", "").await;
    assert_eq!(status(&mut stream).await, 401);
    assert!(
        began.elapsed() < scaled(WELL_BEFORE_TIMEOUT),
        "the wait ended only after {:?}",
        began.elapsed()
    );
}
