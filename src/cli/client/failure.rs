//! Failures of client commands, each with its exit code.

use std::{
    fmt,
    io::{self, Write},
    process::ExitCode,
};

use serde::Deserialize;

use crate::job::JobId;

/// The exit codes, for `--help`.
pub const EXIT_CODES: &str = "Exit codes: 0 done, 1 refused by the server, 2 wrong use, 3 nothing to pop, \
4 server unreachable, 5 not allowed (token)";

/// Advice after a change whose result is unknown.
pub const MAY_BE_APPLIED: &str = "it may have been applied: check before you send it again";

/// A problem in an answer, RFC 9457.
#[derive(Debug, Default, Deserialize)]
pub struct Problem {
    #[serde(default)]
    pub status: u16,
    #[serde(default)]
    pub code: String,
    #[serde(default)]
    pub detail: String,
    pub field: Option<Box<str>>,
    /// State of the job that has the id, with `job_exists`.
    pub state: Option<Box<str>>,
    /// Topic of that job.
    pub topic: Option<Box<str>>,
    /// `no` if nothing was changed, `unknown` if the request may have been applied.
    pub applied: Option<Box<str>>,
}

/// Failure of a command.
#[derive(Debug)]
pub enum Failure {
    /// The server refused the request.
    Refused(Problem),
    /// An argument, a file or the input is wrong.
    Usage(String),
    /// No job was ready.
    NothingToPop,
    /// The server gave no usable answer.
    Unreachable(String),
    /// The output cannot be written, for example because the disk is full.
    Output(String),
    /// The token is missing, wrong, or lacks a scope.
    NotAllowed(Problem),
    /// Some lines were refused, as already reported.
    Reported(String),
}

impl Problem {
    /// Names the id of a refused put that another job has.
    pub fn of_put(mut self, id: Option<&JobId>) -> Self {
        if let ("job_exists", Some(id)) = (&*self.code, id) {
            let state = self.state.as_ref().map(|state| format!(": {state}")).unwrap_or_default();
            let topic = self.topic.as_ref().map(|topic| format!(", in topic {topic:?}"));
            let topic = topic.unwrap_or_default();
            self.detail = format!("job {id:?} exists already{state}{topic}");
        }
        self
    }
}

impl Failure {
    /// Names the id of a refused put that another job has.
    pub fn of_put(self, id: Option<&JobId>) -> Self {
        match self {
            Self::Refused(problem) => Self::Refused(problem.of_put(id)),
            other => other,
        }
    }

    /// Returns whether the same request may succeed later.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Unreachable(_) => true,
            Self::Refused(problem) => matches!(problem.status, 429 | 500..),
            _ => false,
        }
    }

    /// Prints the failure on standard error. Returns its exit code.
    pub fn report(&self) -> ExitCode {
        if !matches!(self, Self::NothingToPop) {
            complain(self);
        }
        ExitCode::from(match self {
            Self::Refused(_) | Self::Reported(_) | Self::Output(_) => 1,
            Self::Usage(_) => 2,
            Self::NothingToPop => 3,
            Self::Unreachable(_) => 4,
            Self::NotAllowed(_) => 5,
        })
    }
}

/// Prints a line on standard error. A closed standard error does not end the command.
pub fn complain(text: impl fmt::Display) {
    let _ = writeln!(io::stderr(), "delay-queue: {text}");
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server answered {} {}: {}", self.status, self.code, self.detail)?;
        match self.applied.as_deref() {
            Some("unknown") => write!(f, "; {MAY_BE_APPLIED}"),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(problem) => problem.fmt(f),
            Self::NotAllowed(problem) => {
                write!(f, "{problem}; use a token that may, with --token or DELAY_QUEUE_TOKEN")
            }
            Self::NothingToPop => f.write_str("no job is ready"),
            Self::Usage(text)
            | Self::Unreachable(text)
            | Self::Reported(text)
            | Self::Output(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Failure {}

impl From<io::Error> for Failure {
    fn from(cause: io::Error) -> Self {
        Self::Usage(cause.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_says_whether_the_request_may_have_been_applied() {
        for (applied, advises) in [("unknown", true), ("no", false)] {
            let problem = format!(
                r#"{{"status":503,"code":"store_unavailable","detail":"no answer","applied":"{applied}"}}"#
            );
            let text = serde_json::from_str::<Problem>(&problem).expect("a problem").to_string();
            assert!(text.starts_with("the server answered 503 store_unavailable: no answer"));
            assert_eq!(text.contains("may have been applied"), advises, "{text}");
        }
    }
}
