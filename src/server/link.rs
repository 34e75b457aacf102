//! State of a connection, shared by the stream that hyper reads and writes, the service that
//! answers requests, and the loop that may have to close the connection.

use std::{
    io::{ErrorKind, Read},
    mem::MaybeUninit,
    sync::{Arc, Mutex},
    time::Duration,
};

use slab::Slab;
use socket2::SockRef;
use tokio::{sync::Notify, time::Instant};

use super::socket::Socket;

/// A connection with its state.
pub struct Link {
    pub socket: Arc<Socket>,
    state: Mutex<State>,
    ending: Notify,
}

struct State {
    phase: Phase,
    /// When this phase began; for `Reading`, when the last bytes arrived.
    since: Instant,
    /// For `Reading`, when the first bytes of the request arrived.
    began: Instant,
    /// The status that hyper wanted to send for an unreadable head.
    refused: Option<u16>,
    /// The requests of HTTP/2 in flight: `None` until answered, then the time by which the client
    /// must have read the answer.
    streams: Slab<Option<Instant>>,
    /// Number of HTTP/2 requests that the server answered.
    answered: usize,
    /// Number of HTTP/2 requests that the client cancelled before the answer.
    cancelled: usize,
    end: Option<CloseReason>,
}

/// Phase of a connection. With HTTP/2 it is `Handling` while any request is in flight, else
/// `Waiting`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// TLS is not established yet.
    Handshake,
    /// No byte of the next request has arrived.
    Waiting,
    /// A part of a request head has arrived.
    Reading,
    /// A request is being handled, and no byte of its answer is written.
    Handling,
    /// An answer is being written.
    Writing,
    /// Hyper has buffered the whole answer.
    Flushing,
}

/// Why a connection is closed although the server is not shutting down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseReason {
    /// The server had no room for another connection.
    NoRoom,
    /// It was idle for too long.
    Idle,
    /// The TLS handshake or the head of a request took too long.
    TooSlow,
    /// The client does not read its answers.
    Unread,
    /// The client cancels too many of its requests.
    TooManyCancelled,
}

/// Timeouts of clients.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// For the TLS handshake, and for the head of a request from its first byte.
    pub header: Duration,
    /// Until the next request begins.
    pub idle: Duration,
    /// While the client reads nothing of an answer.
    pub write: Duration,
}

/// Maximum number of HTTP/2 requests that a client may cancel in excess of the answered ones.
const MAX_EXCESS_CANCELLED: usize = 200;
/// Number of bytes of an answer that an HTTP/2 client must read in each span of `Times::write`.
const BYTES_PER_SPAN: u64 = 1 << 20;

impl Link {
    pub fn new(socket: Socket, phase: Phase) -> Self {
        let now = Instant::now();
        let state = State {
            phase,
            since: now,
            began: now,
            refused: None,
            streams: Slab::new(),
            answered: 0,
            cancelled: 0,
            end: None,
        };
        Self { socket: Arc::new(socket), state: Mutex::new(state), ending: Notify::new() }
    }

    pub fn phase(&self) -> Phase {
        self.lock().phase
    }

    /// Returns the status that hyper wanted to send for an unreadable head.
    pub fn refused(&self) -> Option<u16> {
        self.lock().refused
    }

    /// Returns the time since which no request has been in flight; `None` while one is.
    pub fn idle_since(&self) -> Option<Instant> {
        let state = self.lock();
        matches!(state.phase, Phase::Handshake | Phase::Waiting | Phase::Reading)
            .then_some(state.since)
    }

    pub fn handshake_done(&self) {
        let mut state = self.lock();
        (state.phase, state.since) = (Phase::Waiting, Instant::now());
    }

    pub fn bytes_arrived(&self) {
        let mut state = self.lock();
        if matches!(state.phase, Phase::Waiting | Phase::Reading) {
            state.since = Instant::now();
            if state.phase == Phase::Waiting {
                (state.phase, state.began) = (Phase::Reading, state.since);
            }
        }
    }

    pub fn begin_request(&self) {
        self.lock().phase = Phase::Handling;
    }

    /// Returns whether hyper's bytes may be sent. Without a request in flight they are hyper's own
    /// answer to an unreadable head, which has no body and must not be sent.
    pub fn may_write(&self, bytes: &[u8]) -> bool {
        let mut state = self.lock();
        match state.phase {
            Phase::Handshake | Phase::Waiting | Phase::Reading => {
                let status = bytes.get(9..12).and_then(|status| std::str::from_utf8(status).ok());
                state.refused = state.refused.or(status.and_then(|status| status.parse().ok()));
                false
            }
            Phase::Handling => {
                // "100 Continue" requests the rest of the body; the answer follows later.
                if !bytes.starts_with(b"HTTP/1.1 100") {
                    state.phase = Phase::Writing;
                }
                true
            }
            Phase::Writing | Phase::Flushing => true,
        }
    }

    /// Records that hyper has taken the whole answer.
    fn end_answer(&self) {
        self.lock().phase = Phase::Flushing;
    }

    /// Records that hyper has flushed its writes.
    pub fn flushed(&self) {
        let mut state = self.lock();
        if state.phase == Phase::Flushing {
            (state.phase, state.since) = (Phase::Waiting, Instant::now());
        }
    }

    /// Checks the timeouts; if one has passed, [`ending`](Self::ending) completes with the reason.
    pub fn check(&self, times: Times) {
        let mut state = self.lock();
        let end = match state.phase {
            Phase::Handshake if state.since.elapsed() >= times.header => CloseReason::TooSlow,
            Phase::Reading if state.began.elapsed() >= times.header => CloseReason::TooSlow,
            Phase::Waiting if state.since.elapsed() >= times.idle => CloseReason::Idle,
            Phase::Handling => {
                let now = Instant::now();
                let is_over = |(_, end): (usize, &Option<Instant>)| end.is_some_and(|e| e <= now);
                match state.streams.iter().any(is_over) {
                    true => CloseReason::Unread,
                    false => return,
                }
            }
            _ => return,
        };
        state.end = Some(end);
        self.ending.notify_one();
    }

    /// Requests that the connection is closed to make room, unless a request arrives first.
    pub fn discard(&self) {
        self.lock().end = Some(CloseReason::NoRoom);
        self.ending.notify_one();
    }

    /// Completes when the connection must be closed and the reason still holds.
    pub async fn ending(&self) -> CloseReason {
        loop {
            self.ending.notified().await;
            let Some(end) = self.lock().end.take() else { continue };
            let holds = match end {
                CloseReason::NoRoom | CloseReason::Idle => self.is_quiet(),
                CloseReason::TooSlow => matches!(self.phase(), Phase::Handshake | Phase::Reading),
                CloseReason::Unread | CloseReason::TooManyCancelled => true,
            };
            if holds {
                return end;
            }
        }
    }

    /// Returns whether no byte of a request has arrived, not even in the socket.
    pub fn is_quiet(&self) -> bool {
        let empty = || match SockRef::from(&*self.socket).peek(&mut [MaybeUninit::uninit()]) {
            Ok(read) => read == 0,
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock),
        };
        self.phase() == Phase::Waiting && empty()
    }

    /// Discards the bytes in the socket and subtracts their number from `budget`. Returns `false`
    /// if the client has closed its side or the budget is spent, otherwise `true`.
    pub fn discard_input(&self, budget: &mut usize) -> bool {
        let socket = SockRef::from(&*self.socket);
        let mut socket: &socket2::Socket = &socket;
        let mut scratch = [0; 8192];
        loop {
            match socket.read(&mut scratch) {
                Ok(0) => return false,
                Ok(read) if read >= *budget => return false,
                Ok(read) => *budget -= read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while holding this lock")
    }
}

/// Guard in the body of an answer; when it is dropped, hyper has taken the whole answer.
pub struct Answering(pub Arc<Link>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.end_answer();
    }
}

/// One HTTP/2 request, until its client has read the answer or has cancelled the request.
pub struct InFlight {
    link: Arc<Link>,
    key: usize,
}

impl InFlight {
    pub fn new(link: &Arc<Link>) -> Self {
        let mut state = link.lock();
        state.phase = Phase::Handling;
        Self { link: Arc::clone(link), key: state.streams.insert(None) }
    }

    /// Records an answer of `bytes` bytes. The client must read it within `span`, plus one `span`
    /// for each full MiB.
    pub fn answered(&self, bytes: u64, span: Duration) {
        let spans = u32::try_from(bytes / BYTES_PER_SPAN).unwrap_or(u32::MAX).saturating_add(1);
        let mut state = self.link.lock();
        state.answered += 1;
        // `checked_add` returns `None`, which means no limit, if the end is too far to represent.
        state.streams[self.key] = Instant::now().checked_add(span.saturating_mul(spans));
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut state = self.link.lock();
        if state.streams.remove(self.key).is_none() {
            state.cancelled += 1;
            if state.cancelled > state.answered.saturating_add(MAX_EXCESS_CANCELLED) {
                state.end = Some(CloseReason::TooManyCancelled);
                self.link.ending.notify_one();
            }
        }
        if state.streams.is_empty() {
            (state.phase, state.since) = (Phase::Waiting, Instant::now());
        }
    }
}
