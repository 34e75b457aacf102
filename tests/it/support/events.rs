//! Waits until a server has begun to handle a request. The answer to a request does not prove that
//! the server has begun to handle an earlier one.

use std::{
    fmt::Debug,
    net::{SocketAddr, TcpStream},
    ops::RangeBounds,
};

/// Waits until the metrics of the server at `base` show a number of running pops within `count`:
/// pops that search for jobs or wait for them.
pub async fn until_pops_wait(base: &str, count: impl RangeBounds<usize> + Debug) {
    let pops = async || {
        let answer = crate::support::http::get(format!("{base}/metrics")).await.expect("an answer");
        waiting_pops(&answer.text().await.expect("text"))
    };
    let is_so = async || count.contains(&pops().await);
    eventually!(is_so().await, "{} pops are running; expected {count:?}", pops().await);
}

/// Reads the number of pops that search for jobs or wait for them from the text of `/metrics`.
pub fn waiting_pops(metrics: &str) -> usize {
    let gauge = metrics.lines().find_map(|line| line.strip_prefix("delay_queue_waiting_pops "));
    gauge
        .and_then(|value| value.parse().ok())
        .unwrap_or_else(|| panic!("the metrics have no gauge of waiting pops: {metrics}"))
}

/// Waits until the process at the other end has read all bytes sent to it, according to the kernel.
pub fn until_read(stream: &TcpStream) {
    let ends = ends(stream);
    let is_read = || peer_socket(&ends).is_none_or(|fields| fields[4].ends_with(":00000000"));
    eventually_blocking!(is_read(), "the server at {} does not read", ends[1]);
}

/// Closes a connection, and waits until its end has arrived at the other socket. On a busy machine,
/// the kernel may deliver it after requests that are sent later on other connections.
pub async fn close(stream: tokio::net::TcpStream) {
    let stream = stream.into_std().expect("a socket of the runtime");
    let ends = ends(&stream);
    drop(stream);
    let is_closed = || peer_socket(&ends).is_none_or(|fields| fields[3] != ESTABLISHED);
    eventually!(is_closed(), "the server at {} is not told of the end", ends[1]);
}

/// State of an open connection in `/proc/net/tcp`.
const ESTABLISHED: &str = "01";

/// Returns the own address and that of the peer, in the format of `/proc/net/tcp`.
fn ends(stream: &TcpStream) -> [String; 2] {
    [stream.local_addr(), stream.peer_addr()].map(|at| hex(at.expect("the socket is open")))
}

/// Returns what the kernel knows of the socket at the other end: number, own address, address of
/// its peer, state, lengths of the queues, and more.
fn peer_socket([own, peer]: &[String; 2]) -> Option<Vec<String>> {
    let sockets = std::fs::read_to_string("/proc/net/tcp").expect("Linux has /proc/net/tcp");
    let mut sockets = sockets.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let socket = sockets.find(|fields| fields.get(1..3) == Some(&[peer.as_str(), own.as_str()]))?;
    Some(socket.into_iter().map(str::to_owned).collect())
}

/// Returns an address in the format of `/proc/net/tcp`.
fn hex(address: SocketAddr) -> String {
    let SocketAddr::V4(address) = address else { panic!("{address} is no IPv4 address") };
    format!("{:08X}:{:04X}", u32::from_ne_bytes(address.ip().octets()), address.port())
}
