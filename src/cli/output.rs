//! Standard output of commands.

use std::{
    fmt::Display,
    io::{self, ErrorKind, Write},
};

/// Prints a line. Ignores the error if the reader of a pipe has closed it early (`| head`).
///
/// # Errors
/// Standard output cannot be written, for example because the disk is full.
pub fn line(text: impl Display) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(cause) if cause.kind() != ErrorKind::BrokenPipe => Err(io::Error::new(
            cause.kind(),
            format!("failed to write to standard output: {cause}"),
        )),
        _ => Ok(()),
    }
}
