//! Who makes a request, and what that caller may do.

use std::sync::Arc;

use axum::{extract::FromRequestParts, http::request::Parts};

use super::{
    need::Need,
    peer::{ClientAddress, Peer},
};
use crate::{
    access::{Access, Scope, Token, TokenName},
    http::problem::{Challenge, Code, Problem, exists},
    job::{Topic, Topics},
};

/// The caller of a request that was let in.
#[derive(Clone, Default)]
pub struct Identity {
    /// None where requests need no token: then everything is allowed.
    token: Option<Arc<Token>>,
    peer: Option<Peer>,
    /// The scope that the route was declared with, if it needs one.
    scope: Option<Scope>,
    /// Which tokens are in force; none on a route for every caller.
    access: Option<Arc<Access>>,
}

impl Identity {
    /// The holder of this token, at the other end of this connection, on a route with this need.
    pub fn new(
        token: Option<Arc<Token>>,
        peer: Option<Peer>,
        need: Need,
        access: Arc<Access>,
    ) -> Self {
        let scope = match need {
            Need::Scope(scope) => Some(scope),
            Need::Nothing | Need::AnyToken => None,
        };
        Self { token, peer, scope, access: Some(access) }
    }

    /// A caller of a route for every caller.
    pub fn of_any(peer: Option<Peer>) -> Self {
        Self { token: None, peer, scope: None, access: None }
    }

    /// Its connection.
    pub fn peer(&self) -> Option<&Peer> {
        self.peer.as_ref()
    }

    /// Checks that the caller may still act: a request is let in by its head, and acts when its body is
    /// there, or when the jobs are that it waits for.
    ///
    /// # Errors
    /// 401 `unauthenticated`: its token was revoked or has expired, or the server asks for tokens now.
    pub fn check(&self) -> Result<(), Problem> {
        let access = self.access.as_ref();
        access.map_or(Ok(()), |access| access.check(self.token()).map_err(Into::into))
    }

    /// The name of its token.
    pub fn name(&self) -> Option<&TokenName> {
        self.token.as_ref().map(|token| &token.name)
    }

    /// The token that it has, if requests need one.
    pub fn token(&self) -> Option<&Token> {
        self.token.as_deref()
    }

    /// Where it is.
    pub fn address(&self) -> Option<ClientAddress> {
        self.peer.as_ref().and_then(Peer::address)
    }

    /// The scope that the route was declared with. A route without one must not ask for it.
    fn scope(&self) -> Result<Scope, Problem> {
        self.scope.ok_or_else(Problem::internal)
    }

    /// The topics that it may reach by the scope of the route.
    ///
    /// # Errors
    /// 403 `forbidden`: its token lacks the scope.
    pub fn topics(&self) -> Result<Topics, Problem> {
        self.topics_of(self.scope()?)
    }

    /// The topics that it may reach by this scope, which need not be the route's.
    ///
    /// # Errors
    /// 403 `forbidden`: its token lacks the scope.
    pub fn topics_of(&self, scope: Scope) -> Result<Topics, Problem> {
        match &self.token {
            None => Ok(Topics::ALL),
            Some(token) => token.scopes.of(scope).cloned().ok_or_else(|| {
                forbidden(scope, &format!("the token {:?} lacks the scope `{scope}`", token.name))
            }),
        }
    }

    /// Checks that it may use the route on a topic that it names itself.
    ///
    /// # Errors
    /// 403 `forbidden`: its token lacks the scope for this topic.
    pub fn may(&self, topic: &Topic) -> Result<(), Problem> {
        let scope = self.scope()?;
        let Some(token) = self.token.as_ref().filter(|_| !self.has(scope, topic)) else {
            return Ok(());
        };
        let name = &token.name;
        let detail =
            format!("the token {name:?} lacks the scope `{scope}` for the topic {topic:?}");
        Err(forbidden(scope, &detail))
    }

    /// Checks that it may use the route on all topics.
    ///
    /// # Errors
    /// 403 `forbidden`: its token lacks the scope for some.
    pub fn may_everywhere(&self) -> Result<(), Problem> {
        let scope = self.scope()?;
        if self.topics_of(scope)? == Topics::ALL {
            return Ok(());
        }
        Err(forbidden(scope, &format!("this needs the scope `{scope}` for all topics (\"*\")")))
    }

    /// Whether it has this scope for this topic.
    fn has(&self, scope: Scope, topic: &Topic) -> bool {
        let Some(token) = &self.token else { return true };
        token.scopes.of(scope).is_some_and(|topics| topics.allows(topic))
    }

    /// Whether any of its scopes has this topic.
    pub fn reaches(&self, topic: &Topic) -> bool {
        self.token.as_ref().is_none_or(|token| token.scopes.reach(topic))
    }
}

impl Problem {
    /// As a caller may see it that put a job of the topic `own`: of a job that it may not reach only
    /// that it exists, and no name of a topic that it may not read.
    pub fn seen_by(mut self, identity: &Identity, own: &Topic) -> Self {
        let Some((_, Some(topic))) = self.living.as_deref() else { return self };
        if topic == own || identity.has(Scope::Read, topic) {
            return self;
        }
        let reaches = identity.reaches(topic);
        self.living = self.living.filter(|_| reaches).map(|living| Box::new((living.0, None)));
        Self { detail: exists(None), ..self }
    }
}

fn forbidden(scope: Scope, detail: &str) -> Problem {
    let problem = Problem::new(Code::Forbidden, detail);
    Problem { challenge: Some(Challenge::Scope(scope)), ..problem }
}

impl<S: Sync> FromRequestParts<S> for Identity {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        // Without `admit` before it, no route answers.
        parts.extensions.get().cloned().ok_or_else(Problem::internal)
    }
}
