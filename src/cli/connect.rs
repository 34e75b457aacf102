//! A connection to a server on TCP.

use std::{
    io::{Error, ErrorKind, Result},
    net::TcpStream,
    time::Duration,
};

use crate::config::Listen;

/// To the first of its addresses that takes a connection. Connecting, reading and writing may each take
/// `timeout`.
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
