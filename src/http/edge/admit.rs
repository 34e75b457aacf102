//! Lets requests in: each gets its [`Identity`], or is refused before any route sees it.

use std::{sync::Arc, time::Instant};

use axum::{extract::Request, http::header::AUTHORIZATION};

use super::{forwarded::TrustedProxies, origin::Origins};
use crate::{
    access::{Access, Denied},
    http::{
        client::{identity::Identity, need::Need, peer::Peer},
        limits::{limit_by::network, per_minute::PerMinute},
        problem::{Challenge, Code, Problem},
    },
    store::StoreError,
};

/// What requests are checked by.
pub struct Admission {
    /// The tokens.
    pub access: Arc<Access>,
    /// Where no token is needed: which web pages may call.
    pub origins: Origins,
    /// Proxies whose headers name the client.
    pub proxies: TrustedProxies,
    /// How often each address had a wrong token.
    pub wrong_tokens: PerMinute,
}

impl Admission {
    /// By these tokens and rules.
    pub fn new(access: Arc<Access>, origins: Origins, proxies: TrustedProxies) -> Self {
        Self { access, origins, proxies, wrong_tokens: PerMinute::default() }
    }
}

impl Admission {
    /// Returns the caller of a request, if it may call a route with this need.
    ///
    /// # Errors
    /// 401, 403, 429 or 503: why it may not.
    pub fn identify(&self, request: &Request, need: Need) -> Result<Identity, Problem> {
        let peer = request.extensions().get::<Peer>().cloned();
        if need == Need::Nothing {
            return Ok(Identity::of_any(peer));
        }
        let is_closed = self.access.is_closed();
        self.origins.check_host(request, is_closed)?;
        if !is_closed {
            self.origins.check(request)?;
            return Ok(Identity::new(None, peer, need, Arc::clone(&self.access)));
        }
        let authorization = request.headers().get(AUTHORIZATION).map(|value| value.as_bytes());
        match self.access.authenticate(authorization) {
            Ok(token) => Ok(Identity::new(token, peer, need, Arc::clone(&self.access))),
            Err(denied) => Err(self.refusal(denied, peer.as_ref())),
        }
    }

    fn refusal(&self, denied: Denied, peer: Option<&Peer>) -> Problem {
        let address = peer.and_then(Peer::address).map(|address| network(address.ip()));
        let too_many = address
            .filter(|_| denied == Denied::Wrong)
            .is_some_and(|address| self.wrong_tokens.count(address, Instant::now()).is_too_many());
        if !too_many {
            return denied.into();
        }
        let detail = "too many wrong tokens came from this address in the last minute";
        Problem::new(Code::TooManyRequests, detail)
    }
}

impl From<Denied> for Problem {
    fn from(denied: Denied) -> Self {
        let unauthenticated = |detail, challenge| {
            let problem = Self::new(Code::Unauthenticated, detail);
            Self { challenge: Some(challenge), ..problem }
        };
        match denied {
            Denied::Missing => unauthenticated(
                "this server needs a token: `Authorization: Bearer dq_…`",
                Challenge::Token,
            ),
            Denied::Wrong => unauthenticated(
                "`Authorization` has no token that is in force: it was mistyped, revoked, or has \
                 expired",
                Challenge::OtherToken,
            ),
            Denied::Unknown => StoreError::away("no tokens were read from the store").into(),
        }
    }
}
