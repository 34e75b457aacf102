//! Admission of requests: each gets an [`Identity`], or is refused before its handler runs.

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

/// Rules by which a listener admits requests.
pub struct Admission {
    /// Access tokens in force.
    pub access: Arc<Access>,
    /// Names of this server; while no token is required, also the web pages that may call it.
    pub origins: Origins,
    /// Reverse proxies whose headers name the client (`server.trusted_proxies`).
    pub proxies: TrustedProxies,
    /// Requests with a wrong token, counted per address.
    pub wrong_tokens: PerMinute,
}

impl Admission {
    /// Creates the rules of one server, with no wrong token counted yet.
    pub fn new(access: Arc<Access>, origins: Origins, proxies: TrustedProxies) -> Self {
        Self { access, origins, proxies, wrong_tokens: PerMinute::default() }
    }
}

impl Admission {
    /// Returns the caller of a request. Handlers check its scopes later, when they know the topics.
    ///
    /// # Errors
    /// 401 `unauthenticated`, 403 `forbidden_origin`, 415 `unsupported_media_type`, 429
    /// `too_many_requests` after too many wrong tokens, 503 `store_unavailable` if no tokens could
    /// be read.
    pub fn identify(&self, request: &Request, peer: Peer, need: Need) -> Result<Identity, Problem> {
        if need == Need::Nothing {
            return Ok(Identity::of_any(peer));
        }
        let requires_token = self.access.requires_token();
        self.origins.check_host(request, requires_token)?;
        if !requires_token {
            self.origins.check(request)?;
            return Ok(Identity::new(None, peer, need, Arc::clone(&self.access)));
        }
        let authorization = request.headers().get(AUTHORIZATION).map(|value| value.as_bytes());
        match self.access.authenticate(authorization) {
            Ok(token) => Ok(Identity::new(token, peer, need, Arc::clone(&self.access))),
            Err(denied) => Err(self.refusal(denied, &peer)),
        }
    }

    fn refusal(&self, denied: Denied, peer: &Peer) -> Problem {
        let address = peer.address().map(|address| network(address.ip()));
        let too_many = address
            .filter(|_| denied == Denied::Wrong)
            .is_some_and(|address| self.wrong_tokens.count(address, Instant::now()).is_too_many());
        if !too_many {
            return denied.into();
        }
        let detail = "this address has sent too many wrong tokens in the last minute";
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
                "`Authorization` has no valid token: the token was mistyped or revoked, or has \
                 expired",
                Challenge::OtherToken,
            ),
            Denied::Unknown => StoreError::unavailable("no tokens were read from the store").into(),
        }
    }
}
