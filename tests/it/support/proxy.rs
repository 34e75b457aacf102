//! A TCP proxy in front of a port of loopback that loses bytes on request.

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

/// Treatment of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Bytes pass.
    Pass,
    /// Bytes on the way back wait for another mode.
    Hold,
    /// Bytes on the way back are lost: the call is done, and its client never learns of it.
    Mute,
    /// Bytes are lost in both directions, and the connections stay open. As with `Mute`, a
    /// connection that has lost bytes loses all later ones in any mode: a stream has no gaps.
    Swallow,
    /// All connections are reset, and new ones too.
    Cut,
    /// Half of the next answer passes on each open connection; then the connection ends.
    Truncate,
    /// A call with this text disconnects its client at once, and reaches the port after `by`.
    Late { text: &'static str, by: Duration },
}

/// Counts of the proxy's faults.
#[derive(Debug, Default)]
pub struct Done {
    /// Bytes lost on the way to the port, and on the way back.
    swallowed: [AtomicUsize; 2],
    cut: AtomicUsize,
    truncated: AtomicUsize,
    held: AtomicUsize,
    late: AtomicUsize,
}

pub struct Proxy {
    pub port: u16,
    mode: watch::Sender<Mode>,
    done: Arc<Done>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// Starts a proxy to the port `to`.
    pub async fn start(to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let (mode, modes) = watch::channel(Mode::Pass);
        let done: Arc<Done> = Arc::default();
        let task = tokio::spawn(accept(listener, to, modes, Arc::clone(&done)));
        Self { port, mode, done, task }
    }

    /// Sets the treatment of bytes from now on.
    pub fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }

    /// Returns the number of bytes lost on the way to the port, and on the way back.
    pub fn swallowed(&self) -> [usize; 2] {
        [0, 1].map(|way| self.done.swallowed[way].load(Ordering::Relaxed))
    }

    /// Returns the number of connections that were reset.
    pub fn cut(&self) -> usize {
        self.done.cut.load(Ordering::Relaxed)
    }

    /// Returns the number of times that a connection had to wait.
    pub fn held(&self) -> usize {
        self.done.held.load(Ordering::Relaxed)
    }

    /// Returns the number of calls that reached the port after their client was disconnected.
    pub fn late(&self) -> usize {
        self.done.late.load(Ordering::Relaxed)
    }

    /// Returns the number of answers of which only half passed.
    pub fn truncated(&self) -> usize {
        self.done.truncated.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, to: u16, modes: watch::Receiver<Mode>, done: Arc<Done>) {
    let mut connections = JoinSet::new();
    loop {
        let (client, _) = listener.accept().await.expect("the listener lives");
        // If no server listens, the client's connection ends at once.
        let Ok(server) = TcpStream::connect(("127.0.0.1", to)).await else { continue };
        connections.spawn(serve([client, server], modes.clone(), Arc::clone(&done)));
        while connections.try_join_next().is_some() {}
    }
}

/// Serves one connection to its end.
async fn serve(mut ends: [TcpStream; 2], mut modes: watch::Receiver<Mode>, done: Arc<Done>) {
    for end in &ends {
        end.set_nodelay(true).expect("a socket");
    }
    // A connection made during `Truncate` is spared at first: otherwise no client would connect.
    let mut may_be_truncated = false;
    let mut lost = [false; 2];
    let mut buffers = [[0; 16 * 1024]; 2];
    loop {
        let ([client, server], [there, back]) = (&mut ends, &mut buffers);
        let (holds, mut held) = (*modes.borrow() == Mode::Hold, modes.clone());
        let (way, read) = tokio::select! {
            _ = modes.wait_for(|mode| *mode == Mode::Cut) => {
                done.cut.fetch_add(1, Ordering::Relaxed);
                for end in &ends {
                    end.set_zero_linger().expect("a socket");
                }
                return;
            }
            read = client.read(there) => (0, read),
            read = server.read(back), if !holds => (1, read),
            _ = held.wait_for(|mode| *mode != Mode::Hold), if holds => {
                done.held.fetch_add(1, Ordering::Relaxed);
                continue;
            }
        };
        let mode = *modes.borrow();
        lost[way] |= mode == Mode::Swallow || (mode == Mode::Mute && way == 1);
        may_be_truncated |= mode != Mode::Truncate;
        let Ok(length @ 1..) = read else {
            // The end of a connection does not pass a black hole either.
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
            // An answer shows that the call was carried out.
            let answer = server.read(&mut buffers[1]).await.expect("an answer");
            done.late.fetch_add(usize::from(answer > 0), Ordering::Relaxed);
            return;
        }
        let (other, bytes) = (&mut ends[1 - way], &buffers[way][..length]);
        if lost[way] {
            done.swallowed[way].fetch_add(length, Ordering::Relaxed);
            continue;
        }
        let is_truncated = mode == Mode::Truncate && may_be_truncated && way == 1 && length > 1;
        if is_truncated {
            done.truncated.fetch_add(1, Ordering::Relaxed);
        }
        let bytes = if is_truncated { &bytes[..length / 2] } else { bytes };
        if other.write_all(bytes).await.is_err() || is_truncated {
            return;
        }
    }
}
