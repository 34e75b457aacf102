//! Pops over HTTP/2 whose client resets the stream or disconnects before the server has written a
//! byte of the answer. Another consumer must get their jobs at once, with the first attempt.

use crate::start::http2::{END_HEADERS, END_STREAM, Tls, frame, get, http2, next_frame};
use crate::start::prelude::*;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const PING: u8 = 6;

/// Returns the frame payload that sets the initial window of each stream.
fn window(bytes: u32) -> Vec<u8> {
    [&[0, 4][..], &bytes.to_be_bytes()].concat()
}

/// An HTTPS server, with calls of its clients.
struct Stage(Https);

impl Stage {
    fn new() -> Self {
        Self(Https::start(""))
    }

    fn client(&self, settings: &[u8]) -> Tls {
        http2(&self.0.server, &self.0.authority, settings)
    }

    /// Puts a job with one attempt and a TTR of an hour.
    fn put(&self, topic: &str, body: &str) {
        let job = json!({"topic": topic, "ttr": "1h", "max_attempts": 1, "body": body});
        let file = self.0.place.file("put.json", &job.to_string());
        let (status, answer) = self.0.curl.get("/jobs", &["-d", &format!("@{file}")]);
        assert_eq!(status, "2 201", "{answer}");
    }

    /// Asserts that another consumer gets the job at once with the first attempt, not only after
    /// the TTR of an hour.
    #[track_caller]
    fn assert_returned(&self, topic: &str) {
        let (status, popped) = self.0.curl.get(&format!("/topics/{topic}/pop?wait=5s"), &[]);
        let attempt = &popped["jobs"][0]["attempt"];
        assert_eq!((status.as_str(), attempt), ("2 200", &json!(1)), "{popped}");
    }
}

fn open(client: &mut Tls, stream: u32, path: &str) {
    client.write_all(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &get(path))).expect("sent");
}

fn reset(client: &mut Tls, stream: u32) {
    const CANCEL: u32 = 8;
    client.write_all(&frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes())).expect("sent");
}

/// Reads until a frame of this kind arrives for the stream. Returns its payload.
#[track_caller]
fn read_to(client: &mut Tls, kind: u8, stream: u32) -> Vec<u8> {
    loop {
        let (read, of, payload) = next_frame(client).expect("a frame");
        if (read, of) == (kind, stream) {
            return payload;
        }
    }
}

#[test]
fn a_stream_that_is_reset_while_its_pop_waits_gets_no_job() {
    let stage = Stage::new();
    let mut client = stage.client(&[]);
    open(&mut client, 1, "/topics/t/pop?wait=60s");
    let waiting = || waiting_pops(&text(&stage.0.curl.run("/metrics", &[]).stdout));
    eventually_blocking!(waiting() > 0, "the pop does not wait");
    reset(&mut client, 1);
    // The server reads frames in order, so its answer to this one proves that it has read the
    // reset.
    client.write_all(&frame(PING, 0, 0, &[7; 8])).expect("sent");
    read_to(&mut client, PING, 0);
    stage.put("t", "");
    stage.assert_returned("t");
    assert_eq!(waiting(), 0);
}

#[test]
fn a_job_without_window_is_returned_when_its_stream_is_reset() {
    let stage = Stage::new();
    let mut client = stage.client(&window(0));
    for stream in [1, 3, 5] {
        stage.put("t", "");
        open(&mut client, stream, "/topics/t/pop?wait=60s");
        read_to(&mut client, HEADERS, stream);
        reset(&mut client, stream);
        stage.assert_returned("t");
    }
}

#[test]
fn a_job_without_window_is_returned_when_its_client_leaves() {
    let stage = Stage::new();
    for lingers in [true, false] {
        stage.put("t", "");
        let mut client = stage.client(&window(0));
        open(&mut client, 1, "/topics/t/pop?wait=60s");
        read_to(&mut client, HEADERS, 1);
        if !lingers {
            // With unread bytes, the system resets the connection.
            let socket = socket2::SockRef::from(&client.sock);
            socket.set_linger(Some(Duration::ZERO)).expect("set");
        }
        drop(client);
        stage.assert_returned("t");
    }
}

#[test]
fn an_answer_behind_a_full_window_is_returned_when_reset() {
    const CONNECTION_WINDOW: usize = 65_535;
    let stage = Stage::new();
    let mut client = stage.client(&window(1 << 20));
    stage.put("large", &"x".repeat(2 * CONNECTION_WINDOW));
    open(&mut client, 1, "/topics/large/pop");
    let mut read = 0;
    while read < CONNECTION_WINDOW {
        read += read_to(&mut client, DATA, 1).len();
    }
    stage.put("t", "");
    open(&mut client, 3, "/topics/t/pop");
    read_to(&mut client, HEADERS, 3);
    reset(&mut client, 3);
    stage.assert_returned("t");
    // The client has received bytes of the other answer, so it may have this job.
    reset(&mut client, 1);
    thread::sleep(Duration::from_millis(200)); // no event reports that the job stays reserved
    let (_, popped) = stage.0.curl.get("/topics/large/pop", &[]);
    assert_eq!(popped["jobs"], json!([]));
}
