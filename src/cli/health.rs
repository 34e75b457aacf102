//! `delay-queue health`: one question to a running server, for health checks in containers that
//! have no shell and no curl.

use std::{
    error::Error,
    io::{self, Read, Write},
    net::TcpStream,
    time::Duration,
};

use crate::config::{Listen, Settings};

/// How long connecting, asking and answering may each take.
const TIMEOUT: Duration = Duration::from_secs(3);

pub fn run(settings: &Settings) -> Result<(), Box<dyn Error>> {
    let listen = settings.server.listen.reachable();
    let asked = ask(&listen).map_err(|cause| format!("failed to ask {listen}: {cause}"))?;
    if asked.starts_with("HTTP/1.1 200 ") {
        return Ok(());
    }
    let line = asked.lines().next().unwrap_or_default();
    Err(format!("the server at {listen} answered {line:?}").into())
}

fn ask(listen: &Listen) -> io::Result<String> {
    let mut stream = connect(listen)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// To the first of its addresses that takes a connection.
fn connect(listen: &Listen) -> io::Result<TcpStream> {
    let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in listen.addresses()? {
        match TcpStream::connect_timeout(&address, TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(cause) => failed = cause,
        }
    }
    Err(failed)
}
