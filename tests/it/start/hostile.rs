//! Hostile clients: floods, ambiguous requests, and thousands of slow requests. Meanwhile the
//! server must answer other clients and use bounded memory. `http2.rs` tests HTTP/2.

use rustix::process::{Resource, getrlimit, setrlimit};

use crate::start::connections::ask;
use crate::start::prelude::*;

const HEALTH: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

fn is_served(address: &str) -> bool {
    ask(address, HEALTH).is_some_and(|answer| answer.status == 200)
}

/// Reads until the server closes the connection.
fn rest(mut stream: TcpStream) -> String {
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
    let mut all = Vec::new();
    let mut part = [0; 4096];
    while let Ok(read @ 1..) = stream.read(&mut part) {
        all.extend_from_slice(&part[..read]);
    }
    text(&all)
}

#[test]
fn endless_heads_use_bounded_memory_and_are_cut_off() {
    const COUNT: usize = 5_000;
    let mut files = getrlimit(Resource::Nofile);
    files.current = files.maximum;
    setrlimit(Resource::Nofile, files).expect("raised");
    let place = WorkDir::new();
    let limits = "[limits]\nconnections_per_address = 6000\nheader_timeout = \"5s\"\n";
    let server = Logged::start(&place, limits);
    let (address, before) = (address(&server), resident_of(server.id()));
    // The heads are slightly shorter than the limit.
    let head = format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\nA: {}", "x".repeat(32_000));
    let mut most = 0;
    let open: Vec<TcpStream> = (0..COUNT)
        .filter_map(|number| {
            let mut stream = TcpStream::connect(&address).ok()?;
            let _ = stream.write_all(head.as_bytes());
            if number % 500 == 0 {
                assert!(
                    is_served(&address),
                    "the server does not answer others with {number} slow connections"
                );
                most = most.max(resident_of(server.id()));
            }
            Some(stream)
        })
        .collect();
    assert!(open.len() > COUNT * 9 / 10, "only {} clients are connected", open.len());
    most = most.max(resident_of(server.id()));
    assert!(most < before + 400, "memory grew from {before} MiB to {most} MiB");
    let dropped = open.into_iter().filter(|stream| {
        let stream = stream.try_clone().expect("a descriptor");
        rest(stream).starts_with("HTTP/1.1 408")
    });
    assert!(dropped.count() > COUNT * 9 / 10);
    assert!(is_served(&address));
    server.signal("-TERM");
    assert_eq!(server.ended().0, Some(0));
}

#[test]
fn an_ambiguous_request_is_the_last_of_its_connection() {
    let place = WorkDir::new();
    let server = Logged::start(&place, "");
    let smuggled = "GET /topics/smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let length = smuggled.len() + 5;
    let chunked = "Transfer-Encoding: chunked";
    for (heads, body) in [
        (format!("Content-Length: {length}\r\n{chunked}"), "0\r\n\r\n"),
        (format!("{chunked}\r\nContent-Length: {length}"), "0\r\n\r\n"),
        (format!("Content-Length: {length}\r\nContent-Length: 5"), "12345"),
        (format!("Content-Length: 5, {length}"), "12345"),
        ("Content-Length: +5".to_owned(), "12345"),
        ("Content-Length: 5 5".to_owned(), "12345"),
        ("Transfer-Encoding: chunked, identity".to_owned(), "0\r\n\r\n"),
        ("Transfer-Encoding: xchunked".to_owned(), "0\r\n\r\n"),
        ("Transfer-Encoding : chunked".to_owned(), "0\r\n\r\n"),
        ("Transfer-Encoding: identity\r\n Transfer-Encoding: chunked".to_owned(), "0\r\n\r\n"),
        (chunked.to_owned(), "FFFFFFFFFFFFFFFFF\r\n"),
        (chunked.to_owned(), "-1\r\n"),
        (chunked.to_owned(), "0\r\n\r\n"),
    ] {
        let mut stream = TcpStream::connect(address(&server)).expect("connected");
        let begin =
            format!("POST /topics/t/pop HTTP/1.1\r\nHost: localhost\r\n{heads}\r\n\r\n{body}");
        stream.write_all(format!("{begin}{smuggled}").as_bytes()).expect("sent");
        let answers = rest(stream);
        assert_eq!(answers.matches("x-request-id: ").count(), 1, "{heads:?}: {answers}");
        assert!(answers.to_lowercase().contains("connection: close"), "{heads:?}: {answers}");
        assert!(!answers.contains("smuggled"), "{heads:?}: {answers}");
    }
    assert!(is_served(&address(&server)));
}

#[test]
fn a_transfer_encoding_other_than_chunked_is_not_implemented() {
    let place = WorkDir::new();
    let server = Logged::start(&place, "");
    for (coding, status) in [("gzip, chunked", 501), ("Chunked", 200), ("chunked, chunked", 501)] {
        let mut stream = TcpStream::connect(address(&server)).expect("connected");
        let request = format!(
            "POST /topics/t/pop HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: {coding}\r\n\r\n\
             0\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).expect("sent");
        let answer = rest(stream);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{coding}: {answer}");
        let code = "unsupported_transfer_encoding";
        assert_eq!(answer.contains(code), status == 501, "{coding}: {answer}");
    }
}

#[test]
fn an_endless_chunked_body_is_refused_in_bounded_memory() {
    let place = WorkDir::new();
    let server = Logged::start(&place, "[limits]\nbody_timeout = \"5s\"\n");
    let before = resident_of(server.id());
    let head = "POST /jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
    let large = format!("10000\r\n{}\r\n", "x".repeat(0x1_0000));
    let tiny = "1\r\nx\r\n".repeat(10_000);
    let extended = format!("1;{}\r\nx\r\n", "e".repeat(60_000));
    let trailers = format!("0\r\nA: {}\r\n", "x".repeat(60_000));
    let clients: Vec<_> = [large, tiny, extended, trailers]
        .into_iter()
        .cycle()
        .take(12)
        .map(|chunk| {
            let address = address(&server);
            thread::spawn(move || {
                let mut stream = TcpStream::connect(address).expect("connected");
                stream.set_write_timeout(Some(Duration::from_secs(20))).expect("set");
                stream.write_all(head.as_bytes()).expect("sent");
                let begin = Instant::now();
                while stream.write_all(chunk.as_bytes()).is_ok() {
                    assert!(begin.elapsed() < patience(), "the server still reads the body");
                }
                let answers = rest(stream);
                let status = answers.get(9..12).unwrap_or("4");
                assert!(status.starts_with('4') || status == "503", "{answers}");
            })
        })
        .collect();
    let mut most = 0;
    while clients.iter().any(|client| !client.is_finished()) {
        most = most.max(resident_of(server.id()));
        thread::sleep(Duration::from_millis(20)); // no event reports the memory
    }
    clients.into_iter().for_each(|client| client.join().expect("joined"));
    assert!(most < before + 300, "memory grew from {before} MiB to {most} MiB");
    assert!(is_served(&address(&server)));
}

fn sockets(server: &Logged) -> usize {
    let files = fs::read_dir(format!("/proc/{}/fd", server.id())).expect("the server runs");
    let links = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
}

/// Puts jobs one after another on one connection for the time `span`. Returns the duration of each
/// put.
fn puts(address: &str, span: Duration) -> Vec<Duration> {
    let (begin, mut took) = (Instant::now(), Vec::new());
    let mut stream = TcpStream::connect(address).expect("connected");
    let body = r#"{"topic":"t","delay":"1h"}"#;
    let length = body.len();
    let put =
        format!("POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{body}");
    while begin.elapsed() < span {
        let asked = Instant::now();
        stream.write_all(put.as_bytes()).expect("sent");
        let answer = super::connections::read_answer(&mut stream).expect("an answer");
        assert_eq!(answer.status, 201, "{}", answer.json());
        took.push(asked.elapsed());
    }
    took.sort_unstable();
    took
}

#[test]
fn others_are_served_while_slowhttptest_attacks() {
    let place = WorkDir::new();
    let times = "header_timeout = \"3s\"\nbody_timeout = \"3s\"\nwrite_timeout = \"3s\"\n";
    let server = Logged::start(&place, &format!("[limits]\nidle_timeout = \"3s\"\n{times}"));
    let address = address(&server);
    // The answer with this job fills the buffers of slow readers.
    let large = serde_json::json!({"topic": "large", "id": "large", "delay": "1h", "body": "x".repeat(250_000)});
    let large = large.to_string();
    let put = format!(
        "POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{large}",
        large.len()
    );
    assert_eq!(ask(&address, put.as_bytes()).expect("an answer").status, 201);
    let p99 = |took: &[Duration]| took[took.len() * 99 / 100];
    let before = puts(&address, Duration::from_secs(3));
    println!("before: {} puts, p99 {:?}", before.len(), p99(&before));
    let url = |path: &str| format!("http://{address}{path}");
    for (mode, arguments, path) in [
        ("header", &["-H", "-i", "1"][..], "/healthz"),
        ("body", &["-B", "-i", "1", "-s", "8192"], "/jobs"),
        ("read", &["-X", "-w", "1", "-y", "8", "-n", "5", "-z", "4", "-k", "3"], "/jobs/large"),
    ] {
        let begin = || {
            let attack = Command::new("slowhttptest")
                .args(["-c", "500", "-r", "250", "-l", "12", "-p", "2", "-u", &url(path)])
                .args(arguments)
                .stdout(Stdio::null())
                .spawn();
            attack.expect("slowhttptest is missing: install it with ./tests/setup")
        };
        let mut attack = begin();
        let open = |is_so: &mut dyn FnMut(usize) -> bool, what: &str| {
            eventually_blocking!(
                is_so(sockets(&server)),
                "{mode}: {what}: {} sockets are open",
                sockets(&server)
            );
        };
        let mut is_at_work = |open: usize| {
            // On a busy machine, the attack may end before enough sockets are open. Then it is
            // repeated.
            if attack.try_wait().expect("the attack is a child of this test").is_some() {
                attack = begin();
            }
            open > 250
        };
        open(&mut is_at_work, "the attackers do not connect");
        let during = puts(&address, Duration::from_secs(3));
        println!("{mode}: {} puts, p99 {:?}", during.len(), p99(&during));
        open(&mut |open| open < 50, "the server does not cut the attackers off");
        assert!(attack.wait().expect("the attack ends").code().is_some());
    }
    server.signal("-TERM");
    assert_eq!(server.ended().0, Some(0));
}
