//! Creating, listing and revoking tokens.

use std::sync::Arc;

use thiserror::Error;

use super::{
    Access, BOOTSTRAP, Scope, Scopes, ScopesError, SecretToken, Token, TokenName, UnreadableToken,
    sync,
};
use crate::{
    job::UnixMillis,
    store::{Clock, Store, StoreError, TokenChange, TokenChanged},
};

/// Notice for the creator of a store's first token.
const FIRST_TOKEN: &str = "this is the first token of the store: from now on its servers answer 401 to every \
     request without a token; create one for each client";
/// Notice for the creator of any other token.
pub const SHOWN_ONCE: &str = "keep the token: it is shown only now";

/// The tokens of a store.
pub struct Tokens {
    store: Arc<dyn Store>,
    /// Access control of this server, which learns of changes at once; `None` in commands. Other
    /// servers read changes from the store.
    access: Option<Arc<Access>>,
}

/// Why an operation on tokens failed.
#[derive(Debug, Error)]
pub enum TokenError {
    /// A token of this name exists.
    #[error("there is a token {0:?} already: choose another name, or revoke that one first")]
    Exists(TokenName),
    /// No token has this name.
    #[error("there is no token {0:?}: list the names with `delay-queue token list`")]
    NotFound(TokenName),
    /// The first token lacks `admin`, so no client could create another.
    #[error(
        "the first token must have the scope admin (\"admin\":[\"*\"]): once it exists, every \
         request needs a token, and only a token with admin can create more"
    )]
    FirstNeedsAdmin,
    /// The scopes are invalid.
    #[error(transparent)]
    Scopes(#[from] ScopesError),
    /// The time of expiry has already passed.
    #[error("must expire in the future, got {0}")]
    Expired(UnixMillis),
    /// The operating system gives no random numbers.
    #[error("the operating system gave no random numbers")]
    NoRandomness,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Tokens {
    /// Creates a manager of the tokens of `store`, which applies changes to `access` at once.
    pub fn new(store: Arc<dyn Store>, access: Option<Arc<Access>>) -> Self {
        Self { store, access }
    }

    /// Creates a token; returns its text, which exists nowhere else, and a notice for its creator.
    /// The first token of a store must have the scope `admin`.
    ///
    /// # Errors
    /// See [`TokenError`]. After an error with an unknown outcome, revoke the token of this name
    /// and create it again.
    pub async fn create(
        &self,
        name: TokenName,
        scopes: Scopes,
        expires_at: Option<UnixMillis>,
    ) -> Result<(SecretToken, Token, &'static str), TokenError> {
        scopes.check()?;
        let now = Clock::Own.now().floor;
        if let Some(past) = expires_at.filter(|end| *end <= now) {
            return Err(TokenError::Expired(past));
        }
        if name.as_str() == BOOTSTRAP {
            return Err(TokenError::Exists(name));
        }
        let secret = SecretToken::generate().map_err(|_| TokenError::NoRandomness)?;
        let token = Token::new(name.clone(), secret.hash(), scopes, now, expires_at);
        let is_admin = token.scopes.of(Scope::Admin).is_some();
        let change = TokenChange::Create { name: name.to_string(), text: token.record(), is_admin };
        match self.change(change).await? {
            TokenChanged::Done => Ok((secret, token, SHOWN_ONCE)),
            TokenChanged::First => Ok((secret, token, FIRST_TOKEN)),
            TokenChanged::NameConflict => Err(TokenError::Exists(name)),
            TokenChanged::NeedsAdmin => Err(TokenError::FirstNeedsAdmin),
        }
    }

    /// Returns all readable tokens by name, and the unreadable ones.
    ///
    /// # Errors
    /// Any error of the store.
    pub async fn list(&self) -> Result<(Vec<Token>, Vec<UnreadableToken>), StoreError> {
        let stored = self.store.tokens(None).await?.unwrap_or_default();
        let (mut tokens, mut unreadable) = sync::parse_stored(stored.tokens);
        if let Some(access) = &self.access {
            access.add_uses(&tokens);
        }
        tokens.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        unreadable.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Ok((tokens, unreadable))
    }

    /// Revokes a token: this server refuses it at once, the others within a second. Logs a warning
    /// if no remaining token has the scope `admin`, but revokes it even then: it may have leaked.
    ///
    /// # Errors
    /// See [`TokenError`].
    pub async fn revoke(&self, name: TokenName) -> Result<(), TokenError> {
        match self.change(TokenChange::Revoke { name: name.to_string() }).await? {
            TokenChanged::NameConflict => return Err(TokenError::NotFound(name)),
            TokenChanged::Done | TokenChanged::First | TokenChanged::NeedsAdmin => {}
        }
        let (remaining, _) = self.list().await.unwrap_or_default();
        let now = Clock::Own.now().floor;
        let is_admin =
            |token: &Token| token.scopes.of(Scope::Admin).is_some() && !token.has_expired(now);
        if !remaining.is_empty() && !remaining.iter().any(is_admin) {
            tracing::warn!(
                revoked = %name,
                "no token with the scope admin is left: run `delay-queue token create` without \
                 --url, or set server.bootstrap_token_file"
            );
        }
        Ok(())
    }

    async fn change(&self, change: TokenChange) -> Result<TokenChanged, StoreError> {
        let changed = self.store.change_token(change).await?;
        if let Some(access) = &self.access
            && let Err(error) = sync::refresh(access, &*self.store).await
        {
            tracing::warn!(%error, "failed to read the tokens after a change; trying again");
        }
        Ok(changed)
    }
}
