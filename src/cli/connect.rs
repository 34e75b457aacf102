//! TCP connections to a server.

use std::{
    io::{Error, ErrorKind, Result},
    net::TcpStream,
    time::Duration,
};

use crate::config::Listen;

/// Connects to the first address that accepts, with a `timeout` for each read and write too.
pub fn connect(listen: &Listen, timeout: Duration) -> Result<TcpStream> {
    let mut failed = Error::from(ErrorKind::AddrNotAvailable);
    for address in listen.addresses()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => {
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))?;
                return Ok(stream);
            }
            Err(cause) => failed = cause,
        }
    }
    Err(failed)
}
