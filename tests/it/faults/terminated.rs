//! SIGTERM under load. Each request of which all bytes were sent must get the same whole answer
//! as without the signal. There are two exceptions:
//!
//! - The first request of a connection that was opened after the signal and is reset before a byte
//!   of an answer: the kernel accepted the connection while the port was being closed, but the
//!   server did not.
//! - A request on a kept connection that was sent after the server had closed the connection.

use std::{io::ErrorKind, thread};

use crate::faults::prelude::*;

const ROUNDS: u64 = 20;
const CLIENTS: u64 = 24;
const SEED: u64 = 20;

/// Counts of the completely sent requests.
#[derive(Debug, Default)]
struct Outcomes {
    answered: AtomicUsize,
    /// Answers that closed the connection.
    last: AtomicUsize,
    unanswered: AtomicUsize,
}

struct Answer {
    status: u16,
    closes: bool,
    body: Value,
}

/// A client that calls a server until the server has stopped.
struct Client {
    address: String,
    /// Set just before the signal is sent.
    stopping: Arc<AtomicBool>,
    random: StdRng,
    connection: Option<TcpStream>,
    outcomes: Arc<Outcomes>,
    /// Id and reservation of the last popped job.
    held: Option<(String, String)>,
}

impl Client {
    /// Makes one call. Returns whether the server still listens.
    fn call(&mut self) -> bool {
        let stopping = self.stopping.load(Ordering::SeqCst);
        let (kept, mut connection) = match self.connection.take() {
            Some(kept) => (true, kept),
            None => match TcpStream::connect(&self.address) {
                Ok(new) => (false, new),
                Err(_) => return false,
            },
        };
        if kept && is_closed(&connection) {
            return true;
        }
        connection.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
        let request = self.request();
        if connection.write_all(request.as_bytes()).is_err() {
            // The request was not sent completely.
            return true;
        }
        match read_answer(&mut connection) {
            Ok(answer) => {
                assert!(matches!(answer.status, 200..300 | 404 | 409), "{}", answer.status);
                self.outcomes.answered.fetch_add(1, Ordering::SeqCst);
                self.outcomes.last.fetch_add(answer.closes.into(), Ordering::SeqCst);
                let job = &answer.body["jobs"][0];
                let text = |field: &str| job[field].as_str().map(str::to_owned);
                self.held = text("id").zip(text("reservation")).or(self.held.take());
                self.connection = Some(connection).filter(|_| !answer.closes);
            }
            Err(error) => {
                // The port was closed while the connection was in its queue, so no process accepted
                // it.
                let refused = !kept && stopping && error == ErrorKind::ConnectionReset;
                self.outcomes.unanswered.fetch_add((!refused).into(), Ordering::SeqCst);
            }
        }
        true
    }

    fn request(&mut self) -> String {
        let kind = self.random.random_range(0..10);
        let (method, path, body) = match (kind, self.held.take()) {
            (0..2, Some((id, reservation))) => {
                let body = format!(r#"{{"reservation":"{reservation}"}}"#);
                ("POST", format!("/jobs/{id}/finish"), body)
            }
            (2, Some((id, _))) => ("GET", format!("/jobs/{id}"), String::new()),
            (_, held) => {
                self.held = held;
                match kind {
                    0..4 => ("POST", "/topics/t/pop".to_owned(), r#"{"count":5}"#.to_owned()),
                    // The pop is either waiting when the signal arrives, or was answered before.
                    4..6 => ("GET", "/topics/none/pop?wait=10s".to_owned(), String::new()),
                    6 => {
                        let jobs = [r#"{"topic":"t"}"#; 20].join(",");
                        ("POST", "/batch/jobs".to_owned(), format!(r#"{{"jobs":[{jobs}]}}"#))
                    }
                    _ => ("POST", "/jobs".to_owned(), r#"{"topic":"t"}"#.to_owned()),
                }
            }
        };
        let close = if self.random.random_bool(0.2) { "Connection: close\r\n" } else { "" };
        let length = body.len();
        format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{close}Content-Length: {length}\r\n\r\n{body}"
        )
    }
}

/// Returns whether the other side has closed the connection.
fn is_closed(connection: &TcpStream) -> bool {
    connection.set_nonblocking(true).expect("a socket");
    let closed =
        !connection.peek(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
    connection.set_nonblocking(false).expect("a socket");
    closed
}

/// Reads an answer to its end.
///
/// # Errors
/// Returns the kind of error if there is no answer.
fn read_answer(connection: &mut TcpStream) -> Result<Answer, ErrorKind> {
    let (mut bytes, mut block) = (Vec::new(), [0; 16 * 1024]);
    loop {
        if let Some(answer) = whole(&bytes) {
            return Ok(answer);
        }
        match connection.read(&mut block) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof),
            Ok(length) => bytes.extend_from_slice(&block[..length]),
            // A partial answer counts as none, whatever the error is.
            Err(_) if !bytes.is_empty() => return Err(ErrorKind::UnexpectedEof),
            Err(error) => return Err(error.kind()),
        }
    }
}

fn whole(bytes: &[u8]) -> Option<Answer> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let head = head.to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.map_or(0, |length| length.parse().expect("a number"));
    let body = body.get(..length)?;
    Some(Answer {
        status: head.get(9..12)?.parse().ok()?,
        closes: head.contains("connection: close"),
        body: serde_json::from_str(body).unwrap_or_default(),
    })
}

async fn assert_no_request_unanswered(store: &str) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let mut random = StdRng::seed_from_u64(SEED);
    let outcomes = Arc::new(Outcomes::default());
    for round in 0..ROUNDS {
        let mut server = Process::start(dir.path(), &["--store", store]).await;
        let stopping: Arc<AtomicBool> = Arc::default();
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let mut client = Client {
                    address: server.address(),
                    stopping: Arc::clone(&stopping),
                    random: StdRng::seed_from_u64(SEED + round * CLIENTS + number),
                    connection: None,
                    outcomes: Arc::clone(&outcomes),
                    held: None,
                };
                thread::spawn(move || while client.call() {})
            })
            .collect();
        let span = random.random_range(200..600);
        tokio::time::sleep(Duration::from_millis(span)).await; // the load runs for a random time
        stopping.store(true, Ordering::SeqCst);
        server.signal("-TERM");
        assert_eq!(tokio::task::block_in_place(|| server.wait()), Some(0), "round {round}");
        clients.into_iter().for_each(|client| client.join().expect("the client ends"));
        assert_eq!(outcomes.unanswered.load(Ordering::SeqCst), 0, "round {round}: {outcomes:?}");
    }
    let count = |counter: &AtomicUsize| counter.load(Ordering::SeqCst);
    assert!(count(&outcomes.answered) > 1000 && count(&outcomes.last) > 100, "{outcomes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_stops_leave_no_request_unanswered_on_file() {
    assert_no_request_unanswered("file:./data").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_stops_leave_no_request_unanswered_on_redis() {
    let redis = Redis::start();
    assert_no_request_unanswered(&redis.url()).await;
}
