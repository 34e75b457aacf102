//! Waits until a server has begun to handle a request. The answer to a request does not prove that
//! the server has begun to handle an earlier one.

use std::{
    fmt::Debug,
    net::{SocketAddr, TcpStream},
    ops::RangeBounds,
    time::{Duration, Instant},
};

use crate::support::patience::patience;

/// Waits until the metrics of the server at `base` show a number of running pops within `count`:
/// pops that search for jobs or wait for them.
pub async fn until_pops_wait(base: &str, count: impl RangeBounds<usize> + Debug) {
    let end = Instant::now() + patience();
    loop {
        let answer = reqwest::get(format!("{base}/metrics")).await.expect("an answer");
        let pops = waiting_pops(&answer.text().await.expect("text"));
        if count.contains(&pops) {
            return;
        }
        assert!(Instant::now() < end, "{pops} pops are running; expected {count:?}");
        tokio::time::sleep(Duration::from_millis(10)).await; // no event reports waiting pops
    }
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
    let end = Instant::now() + patience();
    let [own, peer] =
        [stream.local_addr(), stream.peer_addr()].map(|at| hex(at.expect("the socket is open")));
    // local_address, rem_address, st, tx_queue:rx_queue
    let unread = || {
        let sockets = std::fs::read_to_string("/proc/net/tcp").expect("Linux has /proc/net/tcp");
        let of_peer = sockets.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let mut of_peer = of_peer.filter(|fields| fields.get(1..3) == Some(&[&*peer, &*own]));
        of_peer.next().is_some_and(|fields| !fields[4].ends_with(":00000000"))
    };
    while unread() {
        assert!(Instant::now() < end, "the server at {peer} does not read");
        std::thread::sleep(Duration::from_millis(5)); // no event reports reads by the peer
    }
}

/// Returns an address in the format of `/proc/net/tcp`.
fn hex(address: SocketAddr) -> String {
    let SocketAddr::V4(address) = address else { panic!("{address} is no IPv4 address") };
    format!("{:08X}:{:04X}", u32::from_ne_bytes(address.ip().octets()), address.port())
}
