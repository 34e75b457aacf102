//! TCP connections to a server.

use std::{
    io::{Error, ErrorKind, Result},
    net::TcpStream,
    time::Duration,
};

use crate::config::Listen;

/// Connects to the first address that accepts. The `timeout` applies to each attempt to connect,
/// and later to each read and write.
pub fn connect(listen: &Listen, timeout: Duration) -> Result<TcpStream> {
    let mut last_error = Error::from(ErrorKind::AddrNotAvailable);
    for address in listen.addresses()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => {
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))?;
                return Ok(stream);
            }
            Err(cause) => last_error = cause,
        }
    }
    Err(last_error)
}
