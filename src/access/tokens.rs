//! Making, listing and revoking tokens.

use std::sync::Arc;

use thiserror::Error;

use super::{
    Access, BOOTSTRAP, Scope, Scopes, ScopesError, SecretToken, Token, TokenName, UnreadableToken,
    follow,
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
    /// It would lock every client out, and none could make another one.
    #[error(
        "the first token must have the scope admin (\"admin\":[\"*\"]): from the first one on every \
         request needs a token, and only one with admin can create more"
    )]
    FirstNeedsAdmin,
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

    /// Makes a token. Its text is nowhere else than in the answer. The first one of a store must have the
    /// scope `admin`. Answers also what its maker must know.
    ///
    /// # Errors
    /// See [`TokenError`]. After an unknown outcome of the store, revoke the name and try again.
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
        let change = TokenChange::Create { name: name.to_string(), text: token.text(), is_admin };
        match self.change(change).await? {
            TokenChanged::Done => Ok((secret, token, SHOWN_ONCE)),
            TokenChanged::First => Ok((secret, token, FIRST_TOKEN)),
            TokenChanged::Name => Err(TokenError::Exists(name)),
            TokenChanged::NeedsAdmin => Err(TokenError::FirstNeedsAdmin),
        }
    }

    /// All tokens by name, and those that cannot be read.
    ///
    /// # Errors
    /// The store's.
    pub async fn list(&self) -> Result<(Vec<Token>, Vec<UnreadableToken>), StoreError> {
        let stored = self.store.tokens(None).await?.unwrap_or_default();
        let (mut tokens, mut unreadable) = follow::parsed(stored.tokens);
        if let Some(access) = &self.access {
            access.add_uses(&tokens);
        }
        tokens.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        unreadable.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Ok((tokens, unreadable))
    }

    /// Takes a token away: this server refuses it at once, the others within a second. Warns if none of
    /// those that are left has the scope `admin`; a token that leaked must go all the same.
    ///
    /// # Errors
    /// See [`TokenError`].
    pub async fn revoke(&self, name: TokenName) -> Result<(), TokenError> {
        match self.change(TokenChange::Revoke { name: name.to_string() }).await? {
            TokenChanged::Name => return Err(TokenError::NotFound(name)),
            TokenChanged::Done | TokenChanged::First | TokenChanged::NeedsAdmin => {}
        }
        let (left, _) = self.list().await.unwrap_or_default();
        let now = Clock::Own.now().floor;
        let is_admin =
            |token: &Token| token.scopes.of(Scope::Admin).is_some() && !token.has_expired(now);
        if !left.is_empty() && !left.iter().any(is_admin) {
            tracing::warn!(
                revoked = %name,
                "no token with the scope admin is left: make one with `delay-queue token create` on the \
                 store itself, or with server.bootstrap_token_file"
            );
        }
        Ok(())
    }

    async fn change(&self, change: TokenChange) -> Result<TokenChanged, StoreError> {
        let changed = self.store.change_token(change).await?;
        if let Some(access) = &self.access
            && let Err(error) = follow::refresh(access, &*self.store).await
        {
            tracing::warn!(%error, "failed to read the tokens after a change; trying again");
        }
        Ok(changed)
    }
}
