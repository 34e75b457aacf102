//! Standard output of commands.

use std::{
    fmt::Display,
    io::{self, ErrorKind, Write},
};

/// Prints a line. A reader that has closed the pipe (`| head`) has seen enough: that is no error.
///
/// # Errors
/// Standard output cannot be written to, as on a full disk.
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
