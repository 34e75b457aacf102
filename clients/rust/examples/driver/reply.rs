//! Lines to the suite.

use std::io::{Write, stdout};

use delay_queue_client::{Applied, Error, webhook::SignatureError};
use serde_json::{Value, json};

pub enum Failure {
    Call(Error),
    Signature(SignatureError),
    /// The command itself is wrong.
    Usage(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Call(error)
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Failure::Usage(error.to_string())
    }
}

impl Failure {
    pub fn json(&self) -> Value {
        match self {
            Failure::Call(error) => of(error),
            Failure::Signature(error) => json!({"kind": "signature", "message": error.to_string()}),
            Failure::Usage(message) => json!({"kind": "usage", "message": message}),
        }
    }
}

/// Returns an error as the suite reads it.
pub fn of(error: &Error) -> Value {
    let kind = match error {
        Error::Refused(_) => "refused",
        Error::Unavailable { .. } => "unavailable",
        Error::Protocol { .. } => "protocol",
        _ => "usage",
    };
    let applied = if error.applied() == Applied::No { "no" } else { "unknown" };
    let mut json = json!({"kind": kind, "message": error.to_string(), "applied": applied});
    if let Some(refused) = error.refused() {
        json["status"] = json!(refused.status);
        json["code"] = json!(refused.code);
        json["field"] = json!(refused.field);
    }
    json
}

pub fn print(line: &Value) {
    let mut stdout = stdout().lock();
    // The suite has gone: its end of standard input ends this process.
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}
