//! Listeners for connections: a TCP port, or a Unix socket.

use std::{
    fmt, fs,
    io::{self, ErrorKind},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::{FileTypeExt, MetadataExt},
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{FlockOperation, Mode, OFlags},
    process::umask,
};
use socket2::{Domain, SockAddr, SockRef, Type};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use super::socket::Socket;
use crate::{
    access::Exposure,
    config::{Listen, SocketMode},
};

/// Maximum number of connections that the kernel queues until they are accepted; the kernel lowers
/// it to `net.core.somaxconn`.
const BACKLOG: i32 = 4_096;

/// A listening socket.
#[derive(Debug)]
pub enum Listener {
    /// A TCP port.
    Tcp(TcpListener),
    /// A socket in the file system.
    Unix(UnixSocket),
}

/// A Unix socket. Dropping it removes its file.
#[derive(Debug)]
pub struct UnixSocket {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the file.
    file: (u64, u64),
}

impl Listener {
    /// Listens on a TCP port or creates a Unix socket. Of a host with several addresses, uses the
    /// first that belongs to this machine.
    ///
    /// # Errors
    /// No address can be used. For a Unix socket: the path is a file that is not a socket, or the
    /// socket of a running server.
    pub async fn bind(listen: &Listen, mode: SocketMode) -> io::Result<Self> {
        if let Listen::Unix(path) = listen {
            return UnixSocket::bind(path, mode).map(Self::Unix);
        }
        let mut unavailable = io::Error::from(ErrorKind::AddrNotAvailable);
        for address in listen.addresses()? {
            match TcpListener::bind(address).await {
                Ok(listener) => {
                    SockRef::from(&listener).listen(BACKLOG)?;
                    return Ok(Self::Tcp(listener));
                }
                // A name may have an IPv6 address on a machine without IPv6.
                Err(cause) if cause.kind() == ErrorKind::AddrNotAvailable => unavailable = cause,
                Err(cause) => return Err(cause),
            }
        }
        Err(unavailable)
    }

    /// Accepts the next connection.
    pub async fn accept(&self) -> io::Result<Socket> {
        match self {
            Self::Tcp(listener) => Ok(Socket::Tcp(listener.accept().await?.0)),
            Self::Unix(socket) => Ok(Socket::Unix(socket.listener.accept().await?.0)),
        }
    }

    /// Accepts a connection that the kernel has queued, even if the runtime has not noticed it yet.
    /// Fails with `WouldBlock` if there is none.
    pub fn accept_now(&self) -> io::Result<Socket> {
        let (socket, _) = SockRef::from(self).accept()?;
        socket.set_nonblocking(true)?;
        let socket = OwnedFd::from(socket);
        Ok(match self {
            Self::Tcp(_) => Socket::Tcp(TcpStream::from_std(socket.into())?),
            Self::Unix(_) => Socket::Unix(UnixStream::from_std(socket.into())?),
        })
    }

    /// Returns which machines can reach the listener. Treats an unknown address as open to the
    /// network.
    pub fn exposure(&self) -> Exposure {
        match self {
            Self::Tcp(listener) => listener
                .local_addr()
                .map_or(Exposure::Network, |address| Exposure::from_address(address.ip())),
            Self::Unix(_) => Exposure::Local,
        }
    }

    /// Returns whether connections come over TCP, where TLS applies.
    pub fn is_tcp(&self) -> bool {
        matches!(self, Self::Tcp(_))
    }
}

/// The listeners of a server.
#[derive(Debug)]
pub struct Listeners {
    /// For all clients.
    pub public: Listener,
    /// For operators, if they have their own (`server.admin_listen`).
    pub admin: Option<Listener>,
}

impl From<TcpListener> for Listeners {
    fn from(listener: TcpListener) -> Self {
        Self { public: Listener::Tcp(listener), admin: None }
    }
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        Self::Tcp(listener)
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(socket) => socket.listener.as_fd(),
        }
    }
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(listener) => match listener.local_addr() {
                Ok(address) => address.fmt(f),
                Err(_) => f.write_str("?"),
            },
            Self::Unix(socket) => write!(f, "unix:{}", socket.path.display()),
        }
    }
}

impl UnixSocket {
    fn bind(path: &Path, mode: SocketMode) -> io::Result<Self> {
        let _guard = lock_folder(path)?;
        match fs::symlink_metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
            Ok(file) if !file.file_type().is_socket() => {
                return Err(io::Error::other(
                    "there is a file that is not a socket: remove it, or choose another path",
                ));
            }
            Ok(_) if has_server(path)? => {
                return Err(io::Error::other(
                    "another server is listening on this socket: stop it, or choose another path",
                ));
            }
            // A former server has ended without removing its socket.
            Ok(_) => fs::remove_file(path)?,
        }
        // Sets the umask before it creates the file, because a client could connect between the
        // creation and a chmod.
        let before = umask(Mode::from_bits_truncate(!mode.bits() & 0o777));
        let bound = UnixListener::bind(path);
        umask(before);
        let (listener, file) = (bound?, fs::symlink_metadata(path)?);
        SockRef::from(&listener).listen(BACKLOG)?;
        Ok(Self { listener, path: path.to_owned(), file: (file.dev(), file.ino()) })
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        let Ok(_guard) = lock_folder(&self.path) else { return };
        // Another server may have created its own socket there.
        let now = fs::symlink_metadata(&self.path).map(|file| (file.dev(), file.ino()));
        if now.is_ok_and(|now| now == self.file)
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(%error, path = %self.path.display(), "failed to remove the socket");
        }
    }
}

/// Locks the folder of a socket, so that no other server checks or changes the path until the lock
/// is dropped.
fn lock_folder(path: &Path) -> io::Result<OwnedFd> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::open(folder, flags, Mode::empty())?;
    rustix::fs::flock(&folder, FlockOperation::LockExclusive)?;
    Ok(folder)
}

/// Returns whether a server listens on the socket.
fn has_server(path: &Path) -> io::Result<bool> {
    let socket = socket2::Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    match socket.connect(&SockAddr::unix(path)?) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(true), // its backlog is full
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(false),
        Err(error) => Err(error),
    }
}
