//! The `WWW-Authenticate` header of refusals.

use std::fmt;

use crate::access::Scope;

/// The credential that a refused caller must send, as `WWW-Authenticate` names it.
#[derive(Debug, Clone, Copy)]
pub enum Challenge {
    /// A token.
    Token,
    /// A token other than the given one.
    OtherToken,
    /// A token with this scope.
    Scope(Scope),
}

impl fmt::Display for Challenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bearer realm=\"delay-queue\"")?;
        match self {
            Self::Token => Ok(()),
            Self::OtherToken => f.write_str(", error=\"invalid_token\""),
            Self::Scope(scope) => write!(f, ", error=\"insufficient_scope\", scope=\"{scope}\""),
        }
    }
}
