//! Meaning of errors of Redis and its client: whether the call was applied, and the remedy.

use redis::{ErrorKind, RedisError, ServerErrorKind, Value};

use crate::{
    store::{Applied, StoreError},
    tls_error,
};

/// Meaning of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    pub applied: Applied,
    pub remedy: Remedy,
}

/// Remedy for a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// The server does not know the script's hash: repeat the call at once with the text.
    SendText,
    /// Another node has these keys now: repeat the call there at once.
    Follow,
    /// The server is unavailable or no longer the master: find the master.
    FindMaster,
    /// The failure is temporary: the same call may succeed later.
    BackOff,
    /// The server refuses writes until an operator removes the cause.
    Mend,
    /// The server refuses the call for lack of memory.
    FreeRoom,
    /// The user lacks a right: make a new connection; its inspection names the right.
    AskRights,
    /// No remedy: Redis should never answer the store's commands with this error.
    None,
}

/// Failure of a command.
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

/// Beginning of the message of Redis 7.0 and 7.1 about a right that a script lacks.
const FORBIDDEN_IN_SCRIPT: &str = "The user executing the script";

/// Code of the error of a script that has changed jobs before it failed; the error follows.
const PARTLY: &str = "PARTLY";

/// Classifies an error by its code; by its text only if it has no code.
pub fn fault(error: &RedisError) -> Fault {
    use Applied::{No, Unknown};
    let fault = |applied, remedy| Fault { applied, remedy };
    if error.is_timeout() {
        // The server may still execute the command.
        return fault(Unknown, Remedy::BackOff);
    }
    if error.is_io_error() || error.is_connection_dropped() || error.is_unrecoverable_error() {
        return fault(Unknown, Remedy::FindMaster);
    }
    if is_forbidden(error) {
        // A script that has changed something says PARTLY instead (scripts/shared/each_bucket.lua).
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
            Some(PARTLY) => {
                let is_forbidden = error.detail().is_some_and(|said| said.starts_with("NOPERM "));
                fault(Unknown, if is_forbidden { Remedy::AskRights } else { Remedy::None })
            }
            // The role of a server changed while a call was blocked.
            Some("UNBLOCKED") => fault(Unknown, Remedy::FindMaster),
            _ => fault(Unknown, Remedy::None),
        },
    }
}

/// Converts the error for callers of the store.
pub fn store_error(fault: Fault, error: &RedisError) -> StoreError {
    match fault {
        Fault { remedy: Remedy::FreeRoom, .. } => {
            StoreError::Full { cause: error.to_string().into() }
        }
        Fault { remedy: Remedy::None, .. } => StoreError::unreadable(error),
        Fault { applied: Applied::Unknown, .. } => StoreError::unknown(error),
        Fault { applied: Applied::No, .. } => StoreError::unavailable(error),
    }
}

/// Returns whether a missing right was the reason why a script was refused, as a whole or in one of
/// its buckets.
pub fn lacks_right(answer: &Result<Value, Failure>) -> bool {
    let is_refusal = |value: &Value| match value {
        Value::ServerError(error) => fault(&error.clone().into()).remedy == Remedy::AskRights,
        _ => false,
    };
    match answer {
        Ok(Value::Array(buckets)) => buckets.iter().any(is_refusal),
        Ok(_) => false,
        Err(failure) => failure.remedy == Remedy::AskRights,
    }
}

/// Returns a script's answer for one bucket, or its error.
pub fn of_bucket(answer: Value) -> Result<Value, StoreError> {
    match answer {
        Value::ServerError(error) => {
            let error = error.into();
            Err(store_error(fault(&error), &error))
        }
        answer => Ok(answer),
    }
}

/// Returns whether an error means that a server is unavailable or not ready, which may be
/// temporary.
pub fn may_pass(cause: &RedisError) -> bool {
    match cause.kind() {
        // This includes names that cannot be resolved yet, but not untrusted certificates.
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

/// Returns whether the ACL forbids the call.
pub fn is_forbidden(cause: &RedisError) -> bool {
    // Redis 7.0 and 7.1 have no code for a right that a script lacks.
    let in_script = cause.detail().is_some_and(|said| said.starts_with(FORBIDDEN_IN_SCRIPT));
    cause.kind() == ErrorKind::Server(ServerErrorKind::NoPerm) || in_script
}

/// Returns whether the server does not know the user.
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
            ("PARTLY", Applied::Unknown, Remedy::None),
        ];
        for (code, applied, remedy) in cases {
            let error = redis::make_extension_error(code.to_owned(), None);
            assert_eq!(fault(&error), Fault { applied, remedy }, "{code}");
        }
    }

    #[test]
    fn a_right_missing_after_the_first_writes_leaves_it_unknown() {
        let said = "NOPERM The user executing the script can't run this command or subcommand";
        let error = redis::make_extension_error(PARTLY.to_owned(), Some(said.to_owned()));
        let expected = Fault { applied: Applied::Unknown, remedy: Remedy::AskRights };
        assert_eq!(fault(&error), expected);
        let error = store_error(expected, &error);
        assert!(matches!(error, StoreError::Unavailable { applied: Applied::Unknown, .. }));
    }
}
