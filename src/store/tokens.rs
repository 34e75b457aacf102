//! Access tokens in a store, which does not interpret them.

use async_trait::async_trait;

use super::StoreResult;
use crate::job::UnixMillis;

/// The part of a store that keeps access tokens.
#[async_trait]
pub trait TokenStore: Send + Sync {
    /// Reads the access tokens; none if their version is still `known`.
    async fn tokens(&self, known: Option<u64>) -> StoreResult<Option<StoredTokens>>;

    /// Creates or revokes an access token. An applied change raises the version, even if the caller
    /// has disconnected or gets no answer.
    async fn change_token(&self, change: TokenChange) -> StoreResult<TokenChanged>;

    /// Records when access tokens were last used, by their names, at most
    /// [`MAX_BATCH`](super::MAX_BATCH) per call. Ignores names without a token. Does not change the
    /// version.
    async fn note_token_uses(&self, uses: Vec<(String, UnixMillis)>) -> StoreResult<()>;
}

/// An access token in a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredToken {
    /// Unique name.
    pub name: String,
    /// Scopes, times and the hash of the secret, as JSON.
    pub text: String,
    /// Last recorded use; `None` if there is none.
    pub used_at: Option<UnixMillis>,
}

/// All access tokens of a store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoredTokens {
    /// Version, raised with each token that is created or revoked.
    pub version: u64,
    /// The tokens, in no order.
    pub tokens: Vec<StoredToken>,
}

/// A change of a store's access tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenChange {
    /// Adds a token, unless there is one of this name. The first token of a store must have the
    /// scope `admin`.
    Create {
        /// Name of the token.
        name: String,
        /// Scopes, times and the hash of the secret, as JSON.
        text: String,
        /// Whether it has the scope `admin`.
        is_admin: bool,
    },
    /// Removes a token.
    Revoke {
        /// Name of the token.
        name: String,
    },
}

/// Outcome of a change; the last two changed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenChanged {
    /// The change was applied.
    Done,
    /// The change was applied, and its token is now the only one of the store.
    First,
    /// A token of this name exists already (create), or none does (revoke).
    NameConflict,
    /// The store has no token, and this one does not have the scope `admin`.
    NeedsAdmin,
}
