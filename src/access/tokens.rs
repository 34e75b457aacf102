//! Making, listing and revoking tokens.

use std::sync::Arc;

use thiserror::Error;

use super::{Access, BOOTSTRAP, Scopes, ScopesError, SecretToken, Token, TokenName, follow};
use crate::{
    job::UnixMillis,
    store::{Clock, Store, StoreError, TokenChange},
};

/// The tokens of a store.
pub struct Tokens {
    store: Arc<dyn Store>,
    /// Takes changes up at once; the servers that look at the store follow.
    access: Option<Arc<Access>>,
}

/// Why nothing was done.
#[derive(Debug, Error)]
pub enum TokenError {
    /// There is one of this name.
    #[error("there is a token {0:?} already: choose another name, or revoke that one first")]
    Exists(TokenName),
    /// There is none of this name.
    #[error("there is no token {0:?}")]
    NotFound(TokenName),
    /// It could do nothing.
    #[error(transparent)]
    Scopes(#[from] ScopesError),
    /// It would never be in force.
    #[error("expires at {0}, which has passed")]
    Expired(UnixMillis),
    /// The operating system gives no random numbers.
    #[error("the operating system gave no random numbers")]
    NoRandomness,
    /// The store's.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Tokens {
    /// Those of this store; a server that makes changes here obeys them at once.
    pub fn new(store: Arc<dyn Store>, access: Option<Arc<Access>>) -> Self {
        Self { store, access }
    }

    /// Makes a token. Its text is nowhere else than in the answer.
    ///
    /// # Errors
    /// See [`TokenError`]. After an unknown outcome of the store, revoke the name and try again.
    pub async fn create(
        &self,
        name: TokenName,
        scopes: Scopes,
        expires_at: Option<UnixMillis>,
    ) -> Result<(SecretToken, Token), TokenError> {
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
        let change = TokenChange::Create { name: name.to_string(), text: token.text() };
        match self.change(change).await? {
            true => Ok((secret, token)),
            false => Err(TokenError::Exists(name)),
        }
    }

    /// All tokens, by name.
    ///
    /// # Errors
    /// The store's.
    pub async fn list(&self) -> Result<Vec<Token>, StoreError> {
        let stored = self.store.tokens(None).await?.unwrap_or_default();
        let mut tokens = follow::parsed(stored.tokens);
        if let Some(access) = &self.access {
            access.add_uses(&tokens);
        }
        tokens.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Ok(tokens)
    }

    /// Takes a token away: this server refuses it at once, the others within a second.
    ///
    /// # Errors
    /// See [`TokenError`].
    pub async fn revoke(&self, name: TokenName) -> Result<(), TokenError> {
        match self.change(TokenChange::Revoke { name: name.to_string() }).await? {
            true => Ok(()),
            false => Err(TokenError::NotFound(name)),
        }
    }

    async fn change(&self, change: TokenChange) -> Result<bool, StoreError> {
        let changed = self.store.change_token(change).await?;
        if let Some(access) = &self.access
            && let Err(error) = follow::refresh(access, &*self.store).await
        {
            tracing::warn!(%error, "failed to read the tokens after a change; trying again");
        }
        Ok(changed)
    }
}
