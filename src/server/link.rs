//! What a connection is doing, known to all its parts: the stream that hyper reads and writes, the
//! service that answers its requests, the loop that may have to close it.

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

/// One connection.
pub struct Link {
    pub socket: Arc<Socket>,
    state: Mutex<State>,
    ending: Notify,
}

struct State {
    phase: Phase,
    /// Since when it has been in this phase, or since the last bytes came for `Reading`.
    since: Instant,
    /// When the first bytes of the request came, for `Reading`.
    began: Instant,
    /// What hyper would have answered to a head that it cannot read.
    refused: Option<u16>,
    /// The requests of HTTP/2 in flight: none while they are handled, and then until when their
    /// answers must have been taken.
    streams: Slab<Option<Instant>>,
    /// How many of them were answered, and how many the client called off.
    answered: usize,
    called_off: usize,
    /// Why it is to be closed.
    end: Option<End>,
}

/// Where a connection stands. HTTP/2 has several requests in flight at once: with any it is
/// `Handling`, and `Waiting` without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// TLS has not begun.
    Greeting,
    /// For a request, of which nothing has come.
    Waiting,
    /// A part of a head has come.
    Reading,
    /// A request is being handled, and nothing of its answer is written.
    Handling,
    /// An answer is being written.
    Writing,
    /// All of an answer is in hyper's buffer.
    Flushing,
}

/// Why a connection is closed although the server goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Another one needs its room.
    NoRoom,
    /// It was idle for too long.
    Idle,
    /// TLS or the head of a request did not come in time.
    TooSlow,
    /// The client does not take its answers.
    Unread,
    /// The client calls its requests off as soon as it has made them.
    CalledOff,
}

/// How long a client may take.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// For TLS, and for the head of a request from its first byte on.
    pub header: Duration,
    /// Until its next request begins.
    pub idle: Duration,
    /// While it takes nothing of an answer.
    pub write: Duration,
}

/// How many requests a client may call off beyond those that it lets be answered.
const CALLED_OFF: usize = 200;
/// What a client of HTTP/2 has to take of an answer in each span of `Times::write`.
const BYTES_A_SPAN: u64 = 1 << 20;

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
            called_off: 0,
            end: None,
        };
        Self { socket: Arc::new(socket), state: Mutex::new(state), ending: Notify::new() }
    }

    pub fn phase(&self) -> Phase {
        self.lock().phase
    }

    /// How hyper would have answered what it could not read.
    pub fn refused(&self) -> Option<u16> {
        self.lock().refused
    }

    /// Since when the connection has had no request in flight, if that is so.
    pub fn idle_since(&self) -> Option<Instant> {
        let state = self.lock();
        matches!(state.phase, Phase::Greeting | Phase::Waiting | Phase::Reading)
            .then_some(state.since)
    }

    /// TLS has begun.
    pub fn greeted(&self) {
        let mut state = self.lock();
        (state.phase, state.since) = (Phase::Waiting, Instant::now());
    }

    /// Bytes have come.
    pub fn has_read(&self) {
        let mut state = self.lock();
        if matches!(state.phase, Phase::Waiting | Phase::Reading) {
            state.since = Instant::now();
            if state.phase == Phase::Waiting {
                (state.phase, state.began) = (Phase::Reading, state.since);
            }
        }
    }

    /// A request goes to its handler.
    pub fn begin_request(&self) {
        self.lock().phase = Phase::Handling;
    }

    /// Hyper writes. Without a request in flight that is its own refusal of what it cannot read,
    /// which has no body and is not to go out.
    pub fn may_write(&self, bytes: &[u8]) -> bool {
        let mut state = self.lock();
        match state.phase {
            Phase::Greeting | Phase::Waiting | Phase::Reading => {
                let status = bytes.get(9..12).and_then(|status| std::str::from_utf8(status).ok());
                state.refused = state.refused.or(status.and_then(|status| status.parse().ok()));
                false
            }
            Phase::Handling => {
                // "100 Continue" asks for the rest of the request; the answer is still to come.
                if !bytes.starts_with(b"HTTP/1.1 100") {
                    state.phase = Phase::Writing;
                }
                true
            }
            Phase::Writing | Phase::Flushing => true,
        }
    }

    /// Hyper has taken all of an answer.
    fn end_answer(&self) {
        self.lock().phase = Phase::Flushing;
    }

    /// Hyper has written everything that it had.
    pub fn flushed(&self) {
        let mut state = self.lock();
        if state.phase == Phase::Flushing {
            (state.phase, state.since) = (Phase::Waiting, Instant::now());
        }
    }

    /// Why the connection has to be closed by now, if it has: [`ending`](Self::ending) tells it.
    pub fn check(&self, times: Times) {
        let mut state = self.lock();
        let end = match state.phase {
            Phase::Greeting if state.since.elapsed() >= times.header => End::TooSlow,
            Phase::Reading if state.began.elapsed() >= times.header => End::TooSlow,
            Phase::Waiting if state.since.elapsed() >= times.idle => End::Idle,
            Phase::Handling => {
                let now = Instant::now();
                let is_over = |(_, end): (usize, &Option<Instant>)| end.is_some_and(|e| e <= now);
                match state.streams.iter().any(is_over) {
                    true => End::Unread,
                    false => return,
                }
            }
            _ => return,
        };
        state.end = Some(end);
        self.ending.notify_one();
    }

    /// Asks for the connection to be closed for another one, if no request comes first.
    pub fn discard(&self) {
        self.lock().end = Some(End::NoRoom);
        self.ending.notify_one();
    }

    /// Completes when the connection is to be closed, and the reason still holds.
    pub async fn ending(&self) -> End {
        loop {
            self.ending.notified().await;
            let Some(end) = self.lock().end.take() else { continue };
            let holds = match end {
                End::NoRoom | End::Idle => self.is_quiet(),
                End::TooSlow => matches!(self.phase(), Phase::Greeting | Phase::Reading),
                End::Unread | End::CalledOff => true,
            };
            if holds {
                return end;
            }
        }
    }

    /// Nothing of a request has come, not even into the socket.
    pub fn is_quiet(&self) -> bool {
        let empty = || match SockRef::from(&*self.socket).peek(&mut [MaybeUninit::uninit()]) {
            Ok(read) => read == 0,
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock),
        };
        self.phase() == Phase::Waiting && empty()
    }

    /// Throws away what lies in the socket; whether more may come.
    pub fn throw_away(&self, most: &mut usize) -> bool {
        let socket = SockRef::from(&*self.socket);
        let mut socket: &socket2::Socket = &socket;
        let mut scratch = [0; 8192];
        loop {
            match socket.read(&mut scratch) {
                Ok(0) => return false,
                Ok(read) if read >= *most => return false,
                Ok(read) => *most -= read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while holding this lock")
    }
}

/// Tells the connection, when it is dropped with the body it belongs to, that hyper has all of an
/// answer.
pub struct Answering(pub Arc<Link>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.end_answer();
    }
}

/// One request of HTTP/2, until its client has taken the answer or has called it off.
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

    /// There is an answer of so many bytes, and the client has this long to take it.
    pub fn answered(&self, bytes: u64, span: Duration) {
        let spans = u32::try_from(bytes / BYTES_A_SPAN).unwrap_or(u32::MAX).saturating_add(1);
        let mut state = self.link.lock();
        state.answered += 1;
        // What is too far to say is never.
        state.streams[self.key] = Instant::now().checked_add(span.saturating_mul(spans));
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut state = self.link.lock();
        if state.streams.remove(self.key).is_none() {
            state.called_off += 1;
            if state.called_off > state.answered.saturating_add(CALLED_OFF) {
                state.end = Some(End::CalledOff);
                self.link.ending.notify_one();
            }
        }
        if state.streams.is_empty() {
            (state.phase, state.since) = (Phase::Waiting, Instant::now());
        }
    }
}
