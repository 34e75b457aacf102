//! Hostile clients: floods, ambiguous requests, and thousands of slow requests. Meanwhile the
//! server must answer other clients and use bounded memory. `http2.rs` tests HTTP/2.

use rustix::process::{Resource, getrlimit, setrlimit};

use crate::start::connections::{ask, begin, read_answer, request};
use crate::start::prelude::*;

const HEALTH: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

fn is_served(address: &str) -> bool {
    ask(address, HEALTH).is_some_and(|answer| answer.status == 200)
}

/// Reads until the server closes the connection.
fn rest(mut stream: TcpStream) -> String {
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all);
    text(&all)
}

#[test]
fn endless_heads_use_bounded_memory_and_are_cut_off() {
    const COUNT: usize = 5_000;
    let mut files = getrlimit(Resource::Nofile);
    files.current = files.maximum;
    setrlimit(Resource::Nofile, files).expect("raised");
    let limits = "[limits]\nconnections_per_address = 6000\nheader_timeout = \"5s\"\n";
    let (_place, server) = logged(limits);
    let (address, before) = (server.address(), resident_of(server.id()));
    // The heads are slightly shorter than the limit.
    let head = format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\nA: {}", "x".repeat(32_000));
    let mut most = 0;
    let open: Vec<TcpStream> = (0..COUNT)
        .filter_map(|number| {
            let mut stream = TcpStream::connect(&address).ok()?;
            let _ = stream.write_all(head.as_bytes());
            if number % 500 == 0 {
                assert!(is_served(&address), "others are not served beside {number} connections");
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
    server.stopped();
}

#[test]
fn an_ambiguous_request_is_the_last_of_its_connection() {
    let (_place, server) = logged("");
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
        let head = format!("POST /topics/t/pop HTTP/1.1\r\nHost: localhost\r\n{heads}\r\n\r\n");
        let all = head + body + smuggled;
        let answers = rest(begin(&server.address(), all.as_bytes()));
        assert_eq!(answers.matches("x-request-id: ").count(), 1, "{heads:?}: {answers}");
        assert!(answers.to_lowercase().contains("connection: close"), "{heads:?}: {answers}");
        assert!(!answers.contains("smuggled"), "{heads:?}: {answers}");
    }
    assert!(is_served(&server.address()));
}

#[test]
fn a_transfer_encoding_other_than_chunked_is_not_implemented() {
    let (_place, server) = logged("");
    for (coding, status) in [("gzip, chunked", 501), ("Chunked", 200), ("chunked, chunked", 501)] {
        let head = "POST /topics/t/pop HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding";
        let request = format!("{head}: {coding}\r\n\r\n0\r\n\r\n");
        let answer = rest(begin(&server.address(), request.as_bytes()));
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{coding}: {answer}");
        let code = "unsupported_transfer_encoding";
        assert_eq!(answer.contains(code), status == 501, "{coding}: {answer}");
    }
}

#[test]
fn an_endless_chunked_body_is_refused_in_bounded_memory() {
    let (_place, server) = logged("[limits]\nbody_timeout = \"5s\"\n");
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
            let address = server.address();
            thread::spawn(move || {
                let mut stream = begin(&address, head.as_bytes());
                stream.set_write_timeout(Some(Duration::from_secs(20))).expect("set");
                let begun = Instant::now();
                while stream.write_all(chunk.as_bytes()).is_ok() {
                    assert!(begun.elapsed() < patience(), "the server still reads the body");
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
    assert!(is_served(&server.address()));
}

/// Puts jobs one after another on one connection for three seconds.
fn put_jobs(address: &str) {
    let (begun, mut stream) = (Instant::now(), begin(address, b""));
    let put = request("POST /jobs", r#"{"topic":"t","delay":"1h"}"#);
    while begun.elapsed() < Duration::from_secs(3) {
        stream.write_all(&put).expect("sent");
        let answer = read_answer(&mut stream).expect("an answer");
        assert_eq!(answer.status, 201, "{}", answer.json());
    }
}

#[test]
fn others_are_served_while_slowhttptest_attacks() {
    let times = "header_timeout = \"3s\"\nbody_timeout = \"3s\"\nwrite_timeout = \"3s\"\n";
    let (_place, server) = logged(&format!("[limits]\nidle_timeout = \"3s\"\n{times}"));
    let address = server.address();
    // The answer with this job fills the buffers of slow readers.
    let body = "x".repeat(250_000);
    let large = json!({"topic": "large", "id": "large", "delay": "1h", "body": body});
    let put = request("POST /jobs", &large.to_string());
    assert_eq!(ask(&address, &put).expect("an answer").status, 201);
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
            let open = || sockets(server.id());
            eventually_blocking!(is_so(open()), "{mode}: {what}: {} sockets are open", open());
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
        put_jobs(&address);
        open(&mut |open| open < 50, "the server does not cut the attackers off");
        assert!(attack.wait().expect("the attack ends").code().is_some());
    }
    server.stopped();
}
