//! What an error of Redis or of its client means here: was the call applied, and what helps.

use std::{error::Error, io, sync::Arc};

use redis::{ErrorKind, RedisError, ServerErrorKind, Value};

use crate::store::{Applied, StoreError};

/// What an error says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    pub applied: Applied,
    pub remedy: Remedy,
}

/// What helps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// Unknown hash: the same call with the script's text, at once.
    SendText,
    /// Another node has these keys now: the same call there, at once.
    Follow,
    /// This server has gone, or is no master any more: find out who is.
    FindMaster,
    /// Time: the same call may go well later.
    BackOff,
    /// Room: refused for want of memory.
    FreeRoom,
    /// Nothing: this should never be answered to our commands.
    None,
}

/// Classifies by the error's code, never by its text.
pub fn fault(error: &RedisError) -> Fault {
    use Applied::{No, Unknown};
    let fault = |applied, remedy| Fault { applied, remedy };
    if error.is_timeout() {
        // The command may still run.
        return fault(Unknown, Remedy::BackOff);
    }
    if error.is_io_error() || error.is_connection_dropped() || error.is_unrecoverable_error() {
        return fault(Unknown, Remedy::FindMaster);
    }
    match error.kind() {
        ErrorKind::Server(kind) => match kind {
            ServerErrorKind::NoScript => fault(No, Remedy::SendText),
            ServerErrorKind::Moved => fault(No, Remedy::Follow),
            ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown => {
                fault(No, Remedy::FindMaster)
            }
            ServerErrorKind::BusyLoading
            | ServerErrorKind::Ask
            | ServerErrorKind::TryAgain
            | ServerErrorKind::ClusterDown
            | ServerErrorKind::NoPerm => fault(No, Remedy::BackOff),
            _ => fault(Unknown, Remedy::None),
        },
        _ => match error.code() {
            Some("OOM") => fault(No, Remedy::FreeRoom),
            Some("MISCONF" | "NOREPLICAS" | "BUSY" | "NOAUTH" | "WRONGPASS") => {
                fault(No, Remedy::BackOff)
            }
            // The role of a server changed while a call was blocked.
            Some("UNBLOCKED") => fault(Unknown, Remedy::FindMaster),
            _ => fault(Unknown, Remedy::None),
        },
    }
}

/// The error as callers of the store see it.
pub fn store_error(fault: Fault, error: &RedisError) -> StoreError {
    match fault {
        Fault { remedy: Remedy::FreeRoom, .. } => {
            StoreError::Full { cause: error.to_string().into() }
        }
        Fault { remedy: Remedy::None, .. } => StoreError::unreadable(error),
        Fault { applied: Applied::Unknown, .. } => StoreError::unknown(error),
        Fault { applied: Applied::No, .. } => StoreError::away(error),
    }
}

/// What a script answers for one bucket.
pub fn of_bucket(answer: Value) -> Result<Value, StoreError> {
    match answer {
        Value::ServerError(error) => {
            let error = error.into();
            Err(store_error(fault(&error), &error))
        }
        answer => Ok(answer),
    }
}

/// Whether an error is one of a server that is not there, or not ready: it may be in a moment.
pub fn may_pass(cause: &RedisError) -> bool {
    match cause.kind() {
        // A name that is not known yet is such an error too; a certificate that is not trusted is not.
        ErrorKind::Io => !is_of_tls(cause),
        ErrorKind::Server(kind) => matches!(
            kind,
            ServerErrorKind::BusyLoading
                | ServerErrorKind::ClusterDown
                | ServerErrorKind::MasterDown
                | ServerErrorKind::ReadOnly
                | ServerErrorKind::TryAgain
        ),
        _ => false,
    }
}

/// Whether the two ends do not agree on TLS.
fn is_of_tls(cause: &RedisError) -> bool {
    let io =
        cause.source().and_then(|source| source.downcast_ref::<Arc<dyn Error + Send + Sync>>());
    let io = io.and_then(|error| error.downcast_ref::<io::Error>());
    io.and_then(io::Error::get_ref).is_some_and(|error| error.is::<rustls::Error>())
}

/// Whether the ACL says no.
pub fn is_forbidden(cause: &RedisError) -> bool {
    cause.kind() == ErrorKind::Server(ServerErrorKind::NoPerm)
}

/// Whether the server does not know who connects.
pub fn is_unknown(cause: &RedisError) -> bool {
    cause.kind() == ErrorKind::AuthenticationFailed || cause.code() == Some("NOAUTH")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_apart_by_their_code() {
        let cases = [
            ("OOM", Applied::No, Remedy::FreeRoom),
            ("MISCONF", Applied::No, Remedy::BackOff),
            ("NOREPLICAS", Applied::No, Remedy::BackOff),
            ("BUSY", Applied::No, Remedy::BackOff),
            ("UNBLOCKED", Applied::Unknown, Remedy::FindMaster),
            ("WRONGTYPE", Applied::Unknown, Remedy::None),
        ];
        for (code, applied, remedy) in cases {
            let error = redis::make_extension_error(code.to_owned(), None);
            assert_eq!(fault(&error), Fault { applied, remedy }, "{code}");
        }
    }
}
