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

/// How old what is known of the store's tokens may be. A token that was revoked on another server
/// is refused within this time, also if this server cannot reach the store to hear of it.
const TRUSTED_FOR: Duration = Duration::from_secs(5);
/// The name of the bootstrap token, which is in no store.
pub const BOOTSTRAP: &str = "bootstrap";

/// From where a server can be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exposure {
    /// From this machine alone.
    Local,
    /// From others too.
    Network,
}

impl Exposure {
    /// Of a server that listens on this address.
    pub fn of(address: IpAddr) -> Self {
        if address.is_loopback() { Self::Local } else { Self::Network }
    }
}

/// Why a request is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denied {
    /// It has no token.
    Missing,
    /// It has no token that is in force.
    Wrong,
    /// Whether its token is in force is not known: the store has not answered for too long.
    Unknown,
}

/// The tokens in force, and whether one is needed.
pub struct Access {
    /// Replaced as a whole: readers take no lock.
    known: ArcSwap<Known>,
    bootstrap: Option<Arc<Token>>,
    /// Once this server has asked for tokens it goes on doing so: a store that was emptied, or
    /// whose last token is revoked, opens no door.
    is_closed: AtomicBool,
    started: Instant,
    /// Held from reading to replacing: an older reading must not come after a newer one.
    refreshing: tokio::sync::Mutex<()>,
    /// When `known` was last compared with the store, in milliseconds after `started`.
    compared_at: AtomicU64,
}

#[derive(Default)]
struct Known {
    /// None before the first reading.
    version: Option<u64>,
    by_hash: HashMap<TokenHash, Arc<Token>>,
    /// The store has tokens that this version cannot read.
    has_unreadable: bool,
}

impl Access {
    /// For a server whose settings have this bootstrap token. `closed` if tokens are needed even
    /// while there are none.
    pub fn new(bootstrap: Option<&SecretToken>, closed: bool) -> Self {
        let token = |secret: &SecretToken| {
            let name = BOOTSTRAP.parse().expect("it is a name");
            let made = UnixMillis::new(0);
            Arc::new(Token::new(name, secret.hash(), Scopes::admin(), made, None))
        };
        let bootstrap = bootstrap.map(token);
        Self {
            known: ArcSwap::default(),
            is_closed: AtomicBool::new(closed || bootstrap.is_some()),
            bootstrap,
            refreshing: tokio::sync::Mutex::default(),
            started: Instant::now(),
            compared_at: AtomicU64::new(0),
        }
    }

    /// Whether requests need a token.
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// The token of a request, given its `Authorization`; none where requests need no token.
    ///
    /// # Errors
    /// The request is not let in.
    pub fn authenticate(&self, authorization: Option<&[u8]>) -> Result<Option<Arc<Token>>, Denied> {
        if !self.is_closed() {
            return Ok(None);
        }
        let secret = bearer(authorization.ok_or(Denied::Missing)?).ok_or(Denied::Wrong)?;
        let now = Clock::Own.now().floor;
        let token = self.in_force(secret.hash(), now)?;
        token.used(now);
        Ok(Some(token))
    }

    /// Checks that a request that was let in with `token` may still act: it may have waited since.
    ///
    /// # Errors
    /// The token was revoked or has expired; or the request has none, and now needs one.
    pub fn check(&self, token: Option<&Token>) -> Result<(), Denied> {
        match token {
            Some(token) => self.in_force(token.hash, Clock::Own.now().floor).map(drop),
            None if self.is_closed() => Err(Denied::Missing),
            None => Ok(()),
        }
    }

    fn in_force(&self, hash: TokenHash, now: UnixMillis) -> Result<Arc<Token>, Denied> {
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

    /// Waits until no one else reads the tokens from the store, and keeps others from it.
    pub async fn alone(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.refreshing.lock().await
    }

    /// Takes the store's tokens as they are now; `asked` is when they were asked for. With those that
    /// cannot be read, requests need a token as with any other.
    pub fn replace(
        &self,
        version: u64,
        tokens: impl IntoIterator<Item = Token>,
        has_unreadable: bool,
        asked: Instant,
    ) {
        let old = self.known.load();
        // One that was known keeps its last use.
        let kept = |token: Token| match old.by_hash.get(&token.hash) {
            Some(same) if same.name == token.name => Arc::clone(same),
            _ => Arc::new(token),
        };
        let by_hash: HashMap<_, _> =
            tokens.into_iter().map(kept).map(|token| (token.hash, token)).collect();
        if !by_hash.is_empty() || has_unreadable {
            self.is_closed.store(true, Ordering::Relaxed);
        }
        self.known.store(Arc::new(Known { version: Some(version), by_hash, has_unreadable }));
        self.compared(asked);
    }

    /// The store's version of what is known.
    pub fn version(&self) -> Option<u64> {
        self.known.load().version
    }

    /// Whether there is any token that is in force, or may be.
    pub fn has_tokens(&self) -> bool {
        let known = self.known.load();
        self.bootstrap.is_some() || !known.by_hash.is_empty() || known.has_unreadable
    }

    /// Tells `tokens`, as the store has them, of the uses that this server knows.
    pub fn add_uses(&self, tokens: &[Token]) {
        let known = self.known.load();
        for token in tokens {
            let used_at = known.by_hash.get(&token.hash).and_then(|same| same.last_used_at());
            used_at.into_iter().for_each(|at| token.used(at));
        }
    }

    /// Tokens with uses that the store should hear of.
    pub fn unnoted_uses(&self) -> Vec<(Arc<Token>, UnixMillis)> {
        let known = self.known.load();
        let unnoted = |token: &Arc<Token>| Some((Arc::clone(token), token.unnoted_use()?));
        known.by_hash.values().filter_map(unnoted).collect()
    }

    /// What is known is what the store had at this time.
    pub fn compared(&self, asked: Instant) {
        let millis = asked.saturating_duration_since(self.started).as_millis();
        self.compared_at.store(u64::try_from(millis).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn age(&self) -> Duration {
        let compared = Duration::from_millis(self.compared_at.load(Ordering::Relaxed));
        self.started.elapsed().saturating_sub(compared)
    }
}

/// The token of an `Authorization` of the kind `Bearer`.
fn bearer(authorization: &[u8]) -> Option<SecretToken> {
    let (scheme, rest) = std::str::from_utf8(authorization).ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| rest.trim().parse().ok())?
}

#[cfg(test)]
mod tests;
