//! `delay-queue health`: one question to a running server, for health checks in containers that
//! have no shell and no curl.

use std::{
    error::Error,
    io::{Read, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream},
    time::Duration,
};

use crate::config::Settings;

/// How long connecting, asking and answering may each take.
const TIMEOUT: Duration = Duration::from_secs(3);

pub(super) fn run(settings: &Settings) -> Result<(), Box<dyn Error>> {
    let address = reachable(settings.server.listen);
    let asked = ask(address).map_err(|cause| format!("failed to ask {address}: {cause}"))?;
    if asked.starts_with("HTTP/1.1 200 ") {
        return Ok(());
    }
    let line = asked.lines().next().unwrap_or_default();
    Err(format!("the server at {address} answered {line:?}").into())
}

/// A server on all addresses is asked on loopback.
pub(super) fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

fn ask(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
