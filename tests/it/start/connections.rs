//! Connections in extreme cases: the server stops, descriptors run out, clients do not read, or
//! send invalid requests.

use socket2::{Domain, Socket, Type};

use crate::start::prelude::*;

pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// Connects as a client with a small receive buffer.
pub fn slow_reader(address: &str) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(128 << 10).expect("a small buffer");
    let address: std::net::SocketAddr = address.parse().expect("an address");
    socket.connect(&address.into()).expect("connected");
    socket.into()
}

/// Reads one answer. `None` if the connection ended before the answer was complete.
pub fn read_answer(stream: &mut TcpStream) -> Option<Answer> {
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
    let mut seen = [0; 1024];
    let end = loop {
        let count = stream.peek(&mut seen).ok().filter(|&count| count > 0)?;
        if let Some(at) = seen[..count].windows(4).position(|end| end == b"\r\n\r\n") {
            break at + 4;
        }
    };
    let mut head = vec![0; end];
    stream.read_exact(&mut head).ok()?;
    let head = String::from_utf8(head).expect("a head is text").to_lowercase();
    let status = head.get(9..12)?.parse().ok()?;
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().expect("a number"))];
    stream.read_exact(&mut body).ok()?;
    Some(Answer { status, head, body })
}

pub fn ask(address: &str, request: &[u8]) -> Option<Answer> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.write_all(request).ok()?;
    read_answer(&mut stream)
}

/// Sends the bytes on a new connection, which is returned.
pub fn begin(address: &str, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("connected");
    stream.write_all(bytes).expect("sent");
    stream
}

/// Returns a request, such as `POST /jobs`, with this body.
pub fn request(line: &str, body: &str) -> Vec<u8> {
    let head = format!("{line} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}", body.len());
    format!("{head}\r\n\r\n{body}").into()
}

pub const HEALTH: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";

#[test]
fn a_burst_of_connections_waits_for_a_server_that_is_busy() {
    let (_place, server) = logged("");
    let at = server.address().parse().expect("an address");
    server.signal("-STOP");
    // A connection would time out if the kernel's queue had no room for it.
    let connect = || TcpStream::connect_timeout(&at, Duration::from_secs(5));
    let connected: Vec<_> = (0..400).map_while(|_| connect().ok()).collect();
    server.signal("-CONT");
    assert_eq!(connected.len(), 400);
}

/// Body of a put, of 13 bytes.
const PUT: &str = r#"{"topic":"t"}"#;

/// Settings that allow a job whose answer exceeds the kernel's buffers.
const LARGE: &str = "[limits]\nmax_body_bytes = 33554432\nrequest_bytes = 35651584\n";

/// Starts a server with a job of 32 MB.
async fn start_with_large_job(more: &str) -> (WorkDir, Process) {
    let (place, server) = started(&format!("{LARGE}{more}")).await;
    let body = "x".repeat(32_000_000);
    server.put_job(json!({"topic": "t", "id": "large", "body": body, "delay": "1h"})).await;
    (place, server)
}

const GET_LARGE_JOB: &[u8] = b"GET /jobs/large HTTP/1.1\r\nHost: localhost\r\n\r\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_stopping_server_completes_answers_it_has_begun() {
    let grace = "[server]\nshutdown_grace = \"60s\"\n";
    let (_place, mut server) = start_with_large_job(grace).await;
    let mut reader = slow_reader(&server.address());
    reader.write_all(GET_LARGE_JOB).expect("sent");
    let mut first = [0; 12];
    reader.read_exact(&mut first).expect("the answer has begun");
    assert_eq!(&first, b"HTTP/1.1 200");
    server.signal("-TERM");
    // Waits for longer than the server leaves a connection without a request open.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let mut rest = Vec::new();
    tokio::task::block_in_place(|| reader.read_to_end(&mut rest)).expect("read");
    let is_whole = rest.len() > 32_000_000 && rest.ends_with(b"}\n");
    assert!(is_whole, "only {} bytes of the answer arrived", rest.len());
    assert_eq!(tokio::task::block_in_place(|| server.wait()), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_its_answer_is_disconnected() {
    let (_place, server) = start_with_large_job("write_timeout = \"1s\"\n").await;
    let mut reader = slow_reader(&server.address());
    reader.write_all(GET_LARGE_JOB).expect("sent");
    // The first bytes prove that the server has accepted and counted the connection.
    reader.read_exact(&mut [0; 12]).expect("the answer has begun");
    let open = sockets(server.id());
    eventually!(sockets(server.id()) < open, "the client is still connected");
    let mut rest = Vec::new();
    let _ = reader.read_to_end(&mut rest);
    assert!(rest.len() < 32_000_000, "the whole answer arrived: {} bytes", rest.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopping_server_answers_requests_on_idle_connections() {
    let (_place, mut server) = started("").await;
    let address = server.address();
    let mut idle = begin(&address, HEALTH);
    assert_eq!(read_answer(&mut idle).expect("an answer").status, 200);
    let mut half = begin(&address, b"GET /healthz HTTP");
    server.signal("-TERM");
    eventually!(TcpStream::connect(&address).is_err(), "the server accepts more connections");
    idle.write_all(HEALTH).expect("sent");
    let answer = read_answer(&mut idle).expect("an answer");
    assert!(answer.head.contains("connection: close"), "{}", answer.head);
    let answer = read_answer(&mut half).expect("an answer");
    assert_eq!((answer.status, answer.json()["code"].as_str()), (503, Some("shutting_down")));
    assert_eq!(tokio::task::block_in_place(|| server.wait()), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_in_flight_at_the_shutdown_timeout_get_an_answer() {
    let (place, redis) = (WorkDir::new(), Redis::start());
    let settings = store(&redis.url(), "") + "[server]\nshutdown_grace = 0\n";
    let mut server = place.server(&settings).await;
    let _frozen = freeze(redis.port());
    let stream = begin(&server.address(), &request("POST /jobs", PUT));
    // After `100 Continue`, this request is in flight too.
    let head =
        "POST /jobs HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 13";
    let mut asked = begin(&server.address(), format!("{head}\r\n\r\n").as_bytes());
    assert_eq!(read_answer(&mut asked).expect("an answer").status, 100);
    asked.write_all(PUT.as_bytes()).expect("sent");
    tokio::task::block_in_place(|| [&stream, &asked].into_iter().for_each(until_read));
    server.signal("-TERM");
    for mut stream in [stream, asked] {
        let answer = read_answer(&mut stream).expect("an answer");
        let problem = answer.json();
        assert_eq!((answer.status, problem["code"].as_str()), (503, Some("shutting_down")));
        assert_eq!(problem["applied"], "unknown");
        assert!(answer.head.contains("connection: close"), "{}", answer.head);
    }
    assert_eq!(tokio::task::block_in_place(|| server.wait()), Some(0));
}

#[test]
fn idle_connections_are_closed_when_descriptors_run_out() {
    let place = WorkDir::new();
    let server = Logged::within(&place, "", &["prlimit", "--nofile=64:64"]);
    let address = server.address();
    let idle: Vec<_> = (0..200).map(|_| begin(&address, b"")).collect();
    let look = request("GET /readyz", "");
    for _ in 0..10 {
        assert_eq!(ask(&address, &look).expect("an answer").status, 200);
    }
    // Many clients send requests on more connections than there are descriptors.
    thread::scope(|scope| {
        for _ in 0..100 {
            scope.spawn(|| {
                let (mut kept, mut served) = (None, 0);
                while served < 20 {
                    let stream = kept.take().or_else(|| TcpStream::connect(&address).ok());
                    let Some(mut stream) = stream else { continue };
                    let sent = stream.write_all(&look);
                    if let Some(answer) = sent.ok().and_then(|()| read_answer(&mut stream)) {
                        served += 1;
                        kept = (!answer.head.contains("connection: close")).then_some(stream);
                    }
                }
            });
        }
    });
    let said = server.wait_for("no room for another connection");
    assert_eq!(said.matches("no room for another connection").count(), 1, "{said}");
    assert!(said.contains("limit=64"), "{said}");
    drop(idle);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_accept_without_descriptors_closes_idle_connections() {
    let (_place, server) = started("").await;
    // The limit is lowered after the start, so the server does not know it.
    let lower = ["--pid", &server.id().to_string(), "--nofile=40:40"].map(str::to_owned);
    assert!(Command::new("prlimit").args(lower).status().expect("prlimit runs").success());
    let idle: Vec<_> = (0..100).map(|_| begin(&server.address(), b"")).collect();
    assert_eq!(ask(&server.address(), HEALTH).expect("an answer").status, 200);
    drop(idle);
}

#[test]
fn the_limit_of_open_files_is_raised_to_its_maximum() {
    let place = WorkDir::new();
    let server = Logged::within(&place, "", &["prlimit", "--nofile=64:512"]);
    let limits = fs::read_to_string(format!("/proc/{}/limits", server.id())).expect("it runs");
    let line = limits.lines().find(|line| line.starts_with("Max open files")).expect("a line");
    assert_eq!(line.split_whitespace().nth(3), Some("512"), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_http_request_is_refused_with_a_problem() {
    let (_place, server) = started("[limits]\nheader_timeout = \"1s\"\n").await;
    let address = server.address();
    let long = "x".repeat(200_000);
    let chunked =
        "POST /jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n";
    for (request, status, code) in [
        ("nonsense\r\n\r\n", 400, "invalid_request"),
        ("\r\n\r\n\u{16}\u{3}\u{1}", 400, "invalid_request"),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "invalid_request"),
        ("GET / HTTP/3.7\r\n\r\n", 400, "invalid_request"),
        ("POST /jobs HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400, "invalid_request"),
        (chunked, 400, "invalid_request"),
        (&format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(150)), 431, "headers_too_large"),
        (&format!("GET / HTTP/1.1\r\na: {long}\r\n\r\n"), 431, "headers_too_large"),
        (&format!("GET /{long} HTTP/1.1\r\n\r\n"), 431, "headers_too_large"),
        ("GET /healthz HTTP/1.1\r\nHost:", 408, "request_timeout"),
    ] {
        let shown = &request[..request.len().min(40)];
        let answer = ask(&address, request.as_bytes()).expect("an answer");
        let problem = answer.json();
        assert_eq!(answer.status, status, "{shown:?}: {}", answer.head);
        assert!(answer.head.contains("content-type: application/problem+json"), "{}", answer.head);
        assert_eq!(problem["code"], code, "{shown:?}");
        assert_eq!((&problem["status"], &problem["applied"]), (&status.into(), &"no".into()));
        let id = problem["request_id"].as_str().expect("text");
        assert!(answer.head.contains(&format!("x-request-id: {id}\r\n")), "{}", answer.head);
        assert!(answer.body.ends_with(b"}\n"), "{shown:?}");
    }
    // Sends invalid bytes after a request on the same connection. A connection without any request
    // gets no answer.
    let mut stream = begin(&address, &[HEALTH, b"nonsense\r\n\r\n"].concat());
    assert_eq!(read_answer(&mut stream).expect("an answer").status, 200);
    assert_eq!(read_answer(&mut stream).expect("an answer").status, 400);
    assert!(read_answer(&mut begin(&address, b"")).is_none());
}

const TOO_LONG: &[u8] =
    b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000000\r\n\r\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_request_with_a_too_large_length_is_refused_at_once() {
    let (_place, server) = started("").await;
    let begun = Instant::now();
    let answer = ask(&server.address(), TOO_LONG).expect("an answer");
    assert_eq!(answer.status, 413);
    assert!(begun.elapsed() < Duration::from_secs(10), "the server waited for the body");
    // A client that reads only after it has sent the whole request gets the answer too.
    let whole = request("POST /jobs", &"x".repeat(20_000_000));
    let mut stream = begin(&server.address(), &whole);
    let answer = read_answer(&mut stream).expect("an answer");
    assert_eq!((answer.status, answer.json()["code"].as_str()), (413, Some("body_too_large")));
    assert!(answer.head.contains("connection: close"), "{}", answer.head);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_keeps_sending_after_its_answer_is_cut_off() {
    let (_place, server) = started("[limits]\nwrite_timeout = \"1s\"\n").await;
    let mut stream = begin(&server.address(), TOO_LONG);
    assert_eq!(read_answer(&mut stream).expect("an answer").status, 413);
    // The client's pauses are shorter than the limit for slow clients.
    let begun = Instant::now();
    while stream.write_all(b"x").is_ok() {
        assert!(begun.elapsed() < patience(), "the server still reads from the client");
        tokio::time::sleep(Duration::from_millis(100)).await; // the client sends slowly
    }
}
