//! Access tokens in a store, which keeps them without knowing what they say.

use async_trait::async_trait;

use super::StoreResult;
use crate::job::UnixMillis;

/// The part of a store that keeps access tokens.
#[async_trait]
pub trait TokenStore: Send + Sync {
    /// Reads the access tokens, unless they are still those of version `known`.
    async fn tokens(&self, known: Option<u64>) -> StoreResult<Option<StoredTokens>>;

    /// Makes or revokes an access token. Once it is done its version is another one, also if the caller
    /// has gone, or hears that the outcome is unknown.
    async fn change_token(&self, change: TokenChange) -> StoreResult<TokenChanged>;

    /// Notes when access tokens were used last, by their names: at most [`MAX_BATCH`](super::MAX_BATCH) in one call. A name
    /// without a token is passed over. No new version.
    async fn note_token_uses(&self, uses: Vec<(String, UnixMillis)>) -> StoreResult<()>;
}

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
