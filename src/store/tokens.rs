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
    /// Adds one, unless there is one of this name.
    Create {
        /// Its name.
        name: String,
        /// What it may do.
        text: String,
    },
    /// Takes one away.
    Revoke {
        /// Its name.
        name: String,
    },
}
