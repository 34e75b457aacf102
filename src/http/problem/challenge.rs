//! What a refused caller needs: `WWW-Authenticate`.

use std::fmt;

use crate::access::Scope;

/// What a refused caller is asked for: `WWW-Authenticate`.
#[derive(Debug, Clone, Copy)]
pub enum Challenge {
    /// A token.
    Token,
    /// Another token than the one that it has.
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
