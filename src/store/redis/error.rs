//! What an error of Redis or of its client means here.

use redis::{ErrorKind, RedisError, ServerErrorKind};

use crate::store::StoreError;

/// The kinds that are handled differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// No answer in time; the command may still run.
    TimedOut,
    /// The connection is gone; what was under way may have run.
    Broken,
    /// This server is no master, or not for these keys: look for another connection.
    WrongServer,
    /// Refused before anything was changed; may go well later.
    Refused,
    /// Refused for want of memory.
    Full,
    /// Unknown hash: send the script's text.
    NoScript,
    /// Nothing that should ever be answered to our commands.
    Bug,
}

/// Classifies by the error's code, never by its text.
pub(super) fn fault(error: &RedisError) -> Fault {
    if error.is_timeout() {
        return Fault::TimedOut;
    }
    if error.is_io_error() || error.is_connection_dropped() || error.is_unrecoverable_error() {
        return Fault::Broken;
    }
    match error.kind() {
        ErrorKind::Server(kind) => match kind {
            ServerErrorKind::NoScript => Fault::NoScript,
            ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown | ServerErrorKind::Moved => {
                Fault::WrongServer
            }
            ServerErrorKind::BusyLoading
            | ServerErrorKind::Ask
            | ServerErrorKind::TryAgain
            | ServerErrorKind::ClusterDown
            | ServerErrorKind::NoPerm => Fault::Refused,
            _ => Fault::Bug,
        },
        ErrorKind::AuthenticationFailed => Fault::Refused,
        _ => match error.code() {
            Some("OOM") => Fault::Full,
            Some("MISCONF" | "NOREPLICAS" | "BUSY" | "NOAUTH" | "WRONGPASS") => Fault::Refused,
            _ => Fault::Bug,
        },
    }
}

/// The error as callers of the store see it.
pub(super) fn store_error(fault: Fault, error: &RedisError) -> StoreError {
    match fault {
        Fault::TimedOut | Fault::Broken => StoreError::unknown(error),
        Fault::WrongServer | Fault::Refused | Fault::NoScript => StoreError::away(error),
        Fault::Full => StoreError::Full { cause: error.to_string().into() },
        Fault::Bug => StoreError::unreadable(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_apart_by_their_code() {
        let cases = [
            ("OOM", Fault::Full),
            ("MISCONF", Fault::Refused),
            ("NOREPLICAS", Fault::Refused),
            ("BUSY", Fault::Refused),
            ("WRONGTYPE", Fault::Bug),
        ];
        for (code, expected) in cases {
            let error = redis::make_extension_error(code.to_owned(), None);
            assert_eq!(fault(&error), expected, "{code}");
        }
    }
}
