//! Abuse of HTTP/2. The tests write single frames.

use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};

use crate::start::prelude::*;

pub type Tls = StreamOwned<ClientConnection, TcpStream>;

/// Opens an HTTP/2 connection, and sends the preface and these settings.
pub fn http2(server: &Logged, authority: &Authority, settings: &[u8]) -> Tls {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(&authority.file).expect("a certificate"))
        .expect("added");
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let name = ServerName::try_from("127.0.0.1").expect("a name");
    let tls = ClientConnection::new(Arc::new(config), name).expect("a client");
    let stream = TcpStream::connect(server.address()).expect("connected");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
    stream.set_write_timeout(Some(Duration::from_secs(30))).expect("set");
    let mut stream = StreamOwned::new(tls, stream);
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").expect("sent");
    stream.write_all(&frame(4, 0, 0, settings)).expect("sent");
    stream
}

pub const END_HEADERS: u8 = 4;
pub const END_STREAM: u8 = 1;

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a frame").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Returns the head of a GET, encoded with the static table of HPACK.
pub fn get(path: &str) -> Vec<u8> {
    let text = |text: &str| [&[u8::try_from(text.len()).expect("short")], text.as_bytes()].concat();
    [&[0x82, 0x87][..], &[0x04], &text(path), &[0x01], &text("localhost")].concat()
}

/// Reads the kind, the stream and the payload of the next frame. `None` if the connection is
/// closed.
pub fn next_frame(stream: &mut Tls) -> Option<(u8, u32, Vec<u8>)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).ok()?;
    let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload).ok()?;
    let of = u32::from_be_bytes(head[5..].try_into().expect("four bytes"));
    Some((head[3], of, payload))
}

/// Reads until the server sends GOAWAY or closes the connection.
fn server_ends(stream: &mut Tls) -> bool {
    while next_frame(stream).is_some_and(|(kind, ..)| kind != 7) {}
    true
}

/// Writes up to `most` frames from `next`, until the server reads no more. Returns whether the
/// server ended the connection.
fn flood(stream: &mut Tls, most: usize, mut next: impl FnMut(usize) -> Vec<u8>) -> bool {
    for number in 0..most {
        if stream.write_all(&next(number)).is_err() {
            return true;
        }
    }
    server_ends(stream)
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_over_http_2_that_are_not_read_are_bounded() {
    const LIMIT: u64 = 64;
    let place = WorkDir::new();
    // Topics with long names make a long list, which needs no memory before it is requested.
    let jobs: Vec<_> = (0..1_000)
        .map(|n| json!({"topic": format!("{n:0>128}"), "delay": "1h"}))
        .chain((0..500).map(|_| json!({"topic": "t"})))
        .collect();
    let filler = Process::start(place.path(), &[]).await;
    for jobs in jobs.chunks(1_000) {
        filler.post_ok("/batch/jobs", json!({"jobs": jobs})).await;
    }
    drop(filler);
    let limits = "[limits]\nmemory_bytes = 67108864\nwrite_timeout = \"10m\"\n";
    let Https { authority, server, curl, .. } = &Https::start_in(&place, limits);
    // The client never opens the windows, so the server cannot write any byte of an answer.
    let look = |connection: &mut Tls, number: u32| {
        let head = get("/topics?limit=1000");
        drop(connection.write_all(&frame(1, END_HEADERS | END_STREAM, 2 * number + 1, &head)));
    };
    let mut unread: Vec<Tls> =
        (0..20).map(|_| http2(server, authority, &[0, 4, 0, 0, 0, 0])).collect();
    let (mut most, mut popped) = (0, 0);
    let other = ["--interface", "127.0.0.2"];
    for number in 0..100 {
        unread.iter_mut().for_each(|connection| look(connection, number));
        most = most.max(resident_of(server.id()));
        let (status, answer) = curl.get("/topics/t/pop?wait=5s", &other);
        assert_eq!(status, "2 200", "pop {number}: {answer}");
        popped += answer["jobs"].as_array().map_or(0, Vec::len);
    }
    assert_eq!(popped, 100, "pops of another caller did not get their jobs");
    assert!(most < LIMIT + 128, "{most} MiB are used, with a limit of {LIMIT} MiB for answers");
    // Pops of the same address are answered too, since the server cuts off the answers that were
    // unread for the longest time.
    let is_served = || curl.get("/topics/t/pop", &[]).0 == "2 200";
    eventually!(is_served(), "no pop of the caller that reads nothing is answered");
    drop(unread);
}

#[test]
fn abuses_of_http_2_end_their_connection() {
    let limits = "[limits]\nwrite_timeout = \"2s\"\nidle_timeout = \"5s\"\n";
    let https = Https::start(limits);
    let Https { authority, server, curl, .. } = &https;
    let before = resident_of(server.id());
    let connect = || http2(server, authority, &[]);
    let stream_of = |number: usize| u32::try_from(2 * number + 1).expect("a stream");
    let rapid_reset = |path: &'static str| {
        move |number: usize| {
            let stream = stream_of(number);
            let open = frame(1, END_HEADERS | END_STREAM, stream, &get(path));
            [open, frame(3, 0, stream, &8_u32.to_be_bytes())].concat()
        }
    };
    assert!(flood(&mut connect(), 200_000, rapid_reset("/topics/t/pop?wait=60s")), "rapid reset");
    assert!(flood(&mut connect(), 200_000, rapid_reset("/healthz")), "rapid reset");
    let mut slower = connect();
    let reset_later = |number: usize| {
        thread::sleep(Duration::from_millis(1)); // the server must begin each request
        rapid_reset("/topics/t/pop?wait=60s")(number)
    };
    assert!(flood(&mut slower, 20_000, reset_later), "requests that are reset later");

    let x = [&[0x40, 1, b'a', 0x7f, 0x81, 0x7e][..], &[b'x'; 16_000]].concat();
    for (most, headers) in [(10_000, &x[..]), (1_000_000, &[])] {
        let continued = |number: usize| match number {
            0 => frame(1, END_STREAM, 1, &get("/healthz")),
            _ => frame(9, 0, 1, headers),
        };
        assert!(flood(&mut connect(), most, continued), "CONTINUATION of {}", headers.len());
    }
    assert!(flood(&mut connect(), 1_000_000, |_| frame(6, 0, 0, &[0; 8])), "PING without reading");
    assert!(flood(&mut connect(), 1_000_000, |_| frame(4, 0, 0, &[])), "SETTINGS without reading");

    // With a window of 0, the server cannot write the answer.
    let mut unread = http2(server, authority, &[0, 4, 0, 0, 0, 0]);
    let look = frame(1, END_HEADERS | END_STREAM, 1, &get("/healthz"));
    unread.write_all(&look).expect("sent");
    assert!(server_ends(&mut unread), "an answer that the client does not read");
    let mut idle = connect();
    assert!(server_ends(&mut idle), "an idle connection");

    let now = resident_of(server.id());
    assert!(now < before + 200, "memory grew from {before} MiB to {now} MiB");
    assert_eq!(curl.get("/healthz", &["--http2"]).0, "2 200");
    https.server.stopped();
}
