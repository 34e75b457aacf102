//! Access tokens in a store, which keeps them without knowing what they say.

use crate::job::UnixMillis;

/// A token as a store has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredToken {
    /// Its name; there is one of each.
    pub name: String,
    /// What it may do, and the hash of its text.
    pub text: String,
    /// Its last use that was noted.
    pub used_at: Option<UnixMillis>,
}

/// All tokens of a store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoredTokens {
    /// Grows with each token that is made or revoked.
    pub version: u64,
    /// In no order.
    pub tokens: Vec<StoredToken>,
}

/// A change of a store's tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenChange {
    /// Adds one, unless there is one of this name. The first token of a store must be one of an administrator.
    Create {
        /// Its name.
        name: String,
        /// What it may do.
        text: String,
        /// Whether it has the scope `admin`.
        is_admin: bool,
    },
    /// Takes one away.
    Revoke {
        /// Its name.
        name: String,
    },
}

/// The outcome of a change; the last two changed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenChanged {
    /// It was done.
    Done,
    /// It was done, and this is now the only token of the store.
    First,
    /// There is a token of this name already (create), or none (revoke).
    Name,
    /// There is no token, and this one does not have the scope `admin`.
    NeedsAdmin,
}
