//! A TCP proxy in front of a port of loopback. Tests set how it treats bytes and connections.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::{JoinHandle, JoinSet},
};

/// How the proxy treats bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Bytes pass in both directions.
    Pass,
    /// Answers wait until the mode changes.
    Hold,
    /// Answers are lost: the call is carried out, but its client gets no answer.
    Mute,
    /// Bytes are lost in both directions, and the connections stay open. As with `Mute`, a
    /// connection that has lost bytes also loses all later bytes, whatever the mode, since a stream
    /// has no gaps.
    Swallow,
    /// All connections are reset, including new ones.
    Cut,
    /// On each open connection, half of the next answer passes; then the connection ends.
    Truncate,
    /// When a call contains `text`, its client is disconnected at once, and the call reaches the
    /// port after the delay `by`.
    Late { text: &'static str, by: Duration },
}

/// Counts of the faults that the proxy has caused.
#[derive(Debug, Default)]
pub struct FaultCounts {
    /// Number of lost bytes of calls, and of answers.
    swallowed: [AtomicUsize; 2],
    cut: AtomicUsize,
    truncated: AtomicUsize,
    held: AtomicUsize,
    late: AtomicUsize,
}

pub struct Proxy {
    pub port: u16,
    mode: watch::Sender<Mode>,
    counts: Arc<FaultCounts>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// Starts a proxy to the port `to`.
    pub async fn start(to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("the listener is bound").port();
        let (mode, modes) = watch::channel(Mode::Pass);
        let counts: Arc<FaultCounts> = Arc::default();
        let task = tokio::spawn(accept(listener, to, modes, Arc::clone(&counts)));
        Self { port, mode, counts, task }
    }

    pub fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }

    /// Returns the number of lost bytes of calls, and of answers.
    pub fn swallowed(&self) -> [usize; 2] {
        [0, 1].map(|way| self.counts.swallowed[way].load(Ordering::Relaxed))
    }

    /// Returns the number of reset connections.
    pub fn cut(&self) -> usize {
        self.counts.cut.load(Ordering::Relaxed)
    }

    /// Returns how often a connection had to wait because of `Hold`.
    pub fn held(&self) -> usize {
        self.counts.held.load(Ordering::Relaxed)
    }

    /// Returns the number of calls that reached the port after their client was disconnected.
    pub fn late(&self) -> usize {
        self.counts.late.load(Ordering::Relaxed)
    }

    /// Returns the number of answers that were cut in half.
    pub fn truncated(&self) -> usize {
        self.counts.truncated.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(
    listener: TcpListener,
    to: u16,
    modes: watch::Receiver<Mode>,
    counts: Arc<FaultCounts>,
) {
    let mut connections = JoinSet::new();
    loop {
        let (client, _) = listener.accept().await.expect("the listener lives");
        // If no server listens, the client's connection ends at once.
        let Ok(server) = TcpStream::connect(("127.0.0.1", to)).await else { continue };
        connections.spawn(serve([client, server], modes.clone(), Arc::clone(&counts)));
        while connections.try_join_next().is_some() {}
    }
}

/// Serves one connection to its end.
async fn serve(
    mut ends: [TcpStream; 2],
    mut modes: watch::Receiver<Mode>,
    counts: Arc<FaultCounts>,
) {
    for end in &ends {
        end.set_nodelay(true).expect("a socket");
    }
    // A connection opened during `Truncate` is not truncated until the mode changes: otherwise no
    // client could connect.
    let mut may_be_truncated = false;
    let mut lost = [false; 2];
    let mut buffers = [[0; 16 * 1024]; 2];
    loop {
        let ([client, server], [there, back]) = (&mut ends, &mut buffers);
        let (holds, mut held) = (*modes.borrow() == Mode::Hold, modes.clone());
        let (way, read) = tokio::select! {
            _ = modes.wait_for(|mode| *mode == Mode::Cut) => {
                counts.cut.fetch_add(1, Ordering::Relaxed);
                for end in &ends {
                    end.set_zero_linger().expect("a socket");
                }
                return;
            }
            read = client.read(there) => (0, read),
            read = server.read(back), if !holds => (1, read),
            _ = held.wait_for(|mode| *mode != Mode::Hold), if holds => {
                counts.held.fetch_add(1, Ordering::Relaxed);
                continue;
            }
        };
        let mode = *modes.borrow();
        lost[way] |= mode == Mode::Swallow || (mode == Mode::Mute && way == 1);
        may_be_truncated |= mode != Mode::Truncate;
        let Ok(length @ 1..) = read else {
            // After lost bytes, the end of the connection is not passed on either.
            drop(modes.wait_for(|mode| [Mode::Pass, Mode::Cut].contains(mode)).await);
            return;
        };
        if let Mode::Late { text, by } = mode
            && way == 0
            && buffers[0][..length].windows(text.len()).any(|part| part == text.as_bytes())
        {
            let [client, mut server] = ends;
            client.set_zero_linger().expect("a socket");
            drop(client);
            tokio::time::sleep(by).await;
            server.write_all(&buffers[0][..length]).await.expect("the port is open");
            // The answer proves that the call was carried out.
            let answer = server.read(&mut buffers[1]).await.expect("an answer");
            counts.late.fetch_add(usize::from(answer > 0), Ordering::Relaxed);
            return;
        }
        let (other, bytes) = (&mut ends[1 - way], &buffers[way][..length]);
        if lost[way] {
            counts.swallowed[way].fetch_add(length, Ordering::Relaxed);
            continue;
        }
        let is_truncated = mode == Mode::Truncate && may_be_truncated && way == 1 && length > 1;
        if is_truncated {
            counts.truncated.fetch_add(1, Ordering::Relaxed);
        }
        let bytes = if is_truncated { &bytes[..length / 2] } else { bytes };
        if other.write_all(bytes).await.is_err() || is_truncated {
            return;
        }
    }
}
