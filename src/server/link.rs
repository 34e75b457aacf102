//! What a connection is doing, known to all its parts: the stream that hyper reads and writes, the
//! service that answers its requests, the loop that may have to close it.

use std::{
    io::{ErrorKind, Read},
    mem::MaybeUninit,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use socket2::{SockRef, Socket};
use tokio::{net::TcpStream, sync::Notify, time::Instant};

/// One connection.
pub struct Link {
    pub stream: Arc<TcpStream>,
    state: Mutex<State>,
    /// It was chosen to be closed, as descriptors are short.
    unwanted: AtomicBool,
    chosen: Notify,
}

struct State {
    phase: Phase,
    /// Since when it has been in this phase, or since the last bytes came for `Waiting`.
    since: Instant,
    /// What hyper would have answered to a head that it cannot read.
    refused: Option<u16>,
}

/// Where a connection stands between two requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
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

impl Link {
    pub fn new(stream: TcpStream) -> Self {
        let state = State { phase: Phase::Waiting, since: Instant::now(), refused: None };
        Self {
            stream: Arc::new(stream),
            state: Mutex::new(state),
            unwanted: AtomicBool::new(false),
            chosen: Notify::new(),
        }
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
        matches!(state.phase, Phase::Waiting | Phase::Reading).then_some(state.since)
    }

    /// Bytes have come.
    pub fn has_read(&self) {
        let mut state = self.lock();
        if matches!(state.phase, Phase::Waiting | Phase::Reading) {
            (state.phase, state.since) = (Phase::Reading, Instant::now());
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
            Phase::Waiting | Phase::Reading => {
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

    /// Asks for the connection to be closed, if no request comes first.
    pub fn discard(&self) {
        self.unwanted.store(true, Ordering::Relaxed);
        self.chosen.notify_one();
    }

    /// Completes when the connection was chosen to be closed, and nothing has come meanwhile.
    pub async fn discarded(&self) {
        loop {
            self.chosen.notified().await;
            if self.unwanted.swap(false, Ordering::Relaxed) && self.is_quiet() {
                return;
            }
        }
    }

    /// Nothing of a request has come, not even into the socket.
    pub fn is_quiet(&self) -> bool {
        let empty = || match SockRef::from(&*self.stream).peek(&mut [MaybeUninit::uninit()]) {
            Ok(read) => read == 0,
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock),
        };
        self.phase() == Phase::Waiting && empty()
    }

    /// Throws away what lies in the socket; whether more may come.
    pub fn throw_away(&self, most: &mut usize) -> bool {
        let socket = SockRef::from(&*self.stream);
        let mut socket: &Socket = &socket;
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
