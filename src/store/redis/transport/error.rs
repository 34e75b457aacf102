//! What an error of Redis or of its client means here: was the call applied, and what helps.

use redis::{ErrorKind, RedisError, ServerErrorKind, Value};

use crate::{
    store::{Applied, StoreError},
    tls_error,
};

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
    /// An operator: the server takes no writes, for a reason that time alone does not mend.
    Mend,
    /// Room: refused for want of memory.
    FreeRoom,
    /// Another connection: it is inspected first, which names the missing right.
    AskRights,
    /// Nothing: this should never be answered to our commands.
    None,
}

/// Why a command has no answer.
#[derive(Debug, Clone)]
pub struct Failure {
    pub remedy: Remedy,
    pub error: StoreError,
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        failure.error
    }
}

/// How Redis 7.0 and 7.1 begin to say that a script lacks a right.
const FORBIDDEN_IN_SCRIPT: &str = "The user executing the script";

/// Classifies by the error's code, and by its text only where there is no code.
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
    if is_forbidden(error) {
        // A script meets it before it has changed anything (scripts/shared/prelude.lua).
        return fault(No, Remedy::AskRights);
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
            | ServerErrorKind::ClusterDown => fault(No, Remedy::BackOff),
            _ => fault(Unknown, Remedy::None),
        },
        _ => match error.code() {
            Some("OOM") => fault(No, Remedy::FreeRoom),
            Some("MISCONF" | "NOREPLICAS") => fault(No, Remedy::Mend),
            Some("BUSY" | "NOAUTH" | "WRONGPASS") => fault(No, Remedy::BackOff),
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

/// Whether a script was refused, as a whole or in one of its buckets, for want of a right.
pub fn lacks_right(answer: &Result<Value, Failure>) -> bool {
    let is_refusal = |value: &Value| match value {
        Value::ServerError(error) => is_forbidden(&error.clone().into()),
        _ => false,
    };
    match answer {
        Ok(Value::Array(buckets)) => buckets.iter().any(is_refusal),
        Ok(_) => false,
        Err(failure) => failure.remedy == Remedy::AskRights,
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
        ErrorKind::Io => tls_error::find(cause).is_none(),
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

/// Whether the ACL says no.
pub fn is_forbidden(cause: &RedisError) -> bool {
    // Redis 7.0 and 7.1 have no code for a right that a script lacks.
    let in_script = cause.detail().is_some_and(|said| said.starts_with(FORBIDDEN_IN_SCRIPT));
    cause.kind() == ErrorKind::Server(ServerErrorKind::NoPerm) || in_script
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
            ("MISCONF", Applied::No, Remedy::Mend),
            ("NOREPLICAS", Applied::No, Remedy::Mend),
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
