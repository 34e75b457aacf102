//! The tokens in force at this server.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;

use super::{Scopes, SecretToken, Token, TokenHash};
use crate::{job::UnixMillis, store::Clock};

/// Maximum age of the known tokens. A token that was revoked on another server is refused within
/// this time, even if this server cannot reach the store.
const TRUSTED_FOR: Duration = Duration::from_secs(5);
/// The name of the bootstrap token, which no store has.
pub const BOOTSTRAP: &str = "bootstrap";

/// The machines that can reach a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exposure {
    /// Only this machine can reach it.
    Local,
    /// Other machines can reach it too.
    Network,
}

impl Exposure {
    /// Returns the exposure of a server that listens on this address.
    pub fn from_address(address: IpAddr) -> Self {
        if address.is_loopback() { Self::Local } else { Self::Network }
    }
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denied {
    /// The request has no token.
    Missing,
    /// The token of the request is malformed, unknown, revoked or expired.
    Wrong,
    /// The server cannot tell whether the token is in force: the store has not answered for longer
    /// than [`TRUSTED_FOR`].
    Unknown,
}

/// The tokens in force, and whether requests need one.
pub struct Access {
    /// Replaced as a whole, so that readers take no lock.
    known: ArcSwap<Known>,
    bootstrap: Option<Arc<Token>>,
    /// Whether requests need a token. Never reset to `false`: emptying the store, or revoking its
    /// last token, must not open the server to everyone.
    requires_token: AtomicBool,
    started: Instant,
    /// Locked while the store's tokens are read and `known` is replaced, so that an older reading
    /// cannot replace a newer one.
    refreshing: tokio::sync::Mutex<()>,
    /// When the store last confirmed or replaced `known`, in milliseconds after `started`.
    confirmed_at: AtomicU64,
}

#[derive(Default)]
struct Known {
    /// The version of the store's tokens; `None` before the first reading.
    version: Option<u64>,
    by_hash: HashMap<TokenHash, Arc<Token>>,
    /// Whether the store has tokens that this version cannot read.
    has_unreadable: bool,
}

impl Access {
    /// Creates the access control of a server. If `closed`, requests need a token even while no
    /// token exists.
    pub fn new(bootstrap: Option<&SecretToken>, closed: bool) -> Self {
        let token = |secret: &SecretToken| {
            let name = BOOTSTRAP.parse().expect("a valid name");
            let created_at = UnixMillis::new(0);
            Arc::new(Token::new(name, secret.hash(), Scopes::admin(), created_at, None))
        };
        let bootstrap = bootstrap.map(token);
        Self {
            known: ArcSwap::default(),
            requires_token: AtomicBool::new(closed || bootstrap.is_some()),
            bootstrap,
            refreshing: tokio::sync::Mutex::default(),
            started: Instant::now(),
            confirmed_at: AtomicU64::new(0),
        }
    }

    /// Returns whether requests need a token.
    pub fn requires_token(&self) -> bool {
        self.requires_token.load(Ordering::Relaxed)
    }

    /// Authenticates a request by its `Authorization` header. Returns the token, or `None` if
    /// requests need no token.
    ///
    /// # Errors
    /// The header has no token in force, or the store has not answered for too long.
    pub fn authenticate(&self, authorization: Option<&[u8]>) -> Result<Option<Arc<Token>>, Denied> {
        if !self.requires_token() {
            return Ok(None);
        }
        let secret = bearer(authorization.ok_or(Denied::Missing)?).ok_or(Denied::Wrong)?;
        let now = Clock::Own.now().floor;
        let token = self.valid_token(secret.hash(), now)?;
        token.record_use(now);
        Ok(Some(token))
    }

    /// Checks again that the `token` of an authenticated request is in force. Call it after a
    /// request has waited.
    ///
    /// # Errors
    /// The token was revoked or has expired, or the request has none and now needs one.
    pub fn check(&self, token: Option<&Token>) -> Result<(), Denied> {
        match token {
            Some(token) => self.valid_token(token.hash, Clock::Own.now().floor).map(drop),
            None if self.requires_token() => Err(Denied::Missing),
            None => Ok(()),
        }
    }

    fn valid_token(&self, hash: TokenHash, now: UnixMillis) -> Result<Arc<Token>, Denied> {
        if let Some(bootstrap) = self.bootstrap.as_ref().filter(|own| own.hash == hash) {
            return Ok(Arc::clone(bootstrap));
        }
        if self.age() > TRUSTED_FOR {
            return Err(Denied::Unknown);
        }
        let known = self.known.load();
        let token = known.by_hash.get(&hash).filter(|token| !token.has_expired(now));
        token.cloned().ok_or(Denied::Wrong)
    }

    /// Locks the known tokens against other refreshes while the guard lives.
    pub async fn lock_refresh(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.refreshing.lock().await
    }

    /// Replaces the known tokens with the store's, which were requested at `requested_at`. If the
    /// store has any tokens, even if only unreadable ones, requests need a token from now on.
    pub fn replace(
        &self,
        version: u64,
        tokens: impl IntoIterator<Item = Token>,
        has_unreadable: bool,
        requested_at: Instant,
    ) {
        let old = self.known.load();
        // A token that is already known keeps its last use.
        let reuse_known = |token: Token| match old.by_hash.get(&token.hash) {
            Some(same) if same.name == token.name => Arc::clone(same),
            _ => Arc::new(token),
        };
        let by_hash: HashMap<_, _> =
            tokens.into_iter().map(reuse_known).map(|token| (token.hash, token)).collect();
        if !by_hash.is_empty() || has_unreadable {
            self.requires_token.store(true, Ordering::Relaxed);
        }
        self.known.store(Arc::new(Known { version: Some(version), by_hash, has_unreadable }));
        self.confirm_current(requested_at);
    }

    /// Returns the store's version of the known tokens.
    pub fn version(&self) -> Option<u64> {
        self.known.load().version
    }

    /// Returns whether any token exists. Unreadable ones count, since they may be in force.
    pub fn has_tokens(&self) -> bool {
        let known = self.known.load();
        self.bootstrap.is_some() || !known.by_hash.is_empty() || known.has_unreadable
    }

    /// Updates the last uses of `tokens`, which were read from the store, with the uses that this
    /// server has seen since.
    pub fn add_uses(&self, tokens: &[Token]) {
        let known = self.known.load();
        for token in tokens {
            let used_at = known.by_hash.get(&token.hash).and_then(|same| same.last_used_at());
            used_at.into_iter().for_each(|at| token.record_use(at));
        }
    }

    /// Returns the tokens whose last use the store should record, each with this use.
    pub fn unrecorded_uses(&self) -> Vec<(Arc<Token>, UnixMillis)> {
        let known = self.known.load();
        let unrecorded = |token: &Arc<Token>| Some((Arc::clone(token), token.unrecorded_use()?));
        known.by_hash.values().filter_map(unrecorded).collect()
    }

    /// Records that the known tokens matched the store's at `requested_at`.
    pub fn confirm_current(&self, requested_at: Instant) {
        let millis = requested_at.saturating_duration_since(self.started).as_millis();
        self.confirmed_at.store(u64::try_from(millis).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn age(&self) -> Duration {
        let confirm_current = Duration::from_millis(self.confirmed_at.load(Ordering::Relaxed));
        self.started.elapsed().saturating_sub(confirm_current)
    }
}

/// Parses the token of an `Authorization` header with the scheme `Bearer`.
fn bearer(authorization: &[u8]) -> Option<SecretToken> {
    let (scheme, rest) = std::str::from_utf8(authorization).ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| rest.trim().parse().ok())?
}

#[cfg(test)]
mod tests;
