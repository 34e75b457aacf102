//! Who makes a request, and what that caller may do.

use std::sync::{Arc, OnceLock};

use axum::{extract::FromRequestParts, http::request::Parts};

use super::peer::{ClientAddress, Peer};
use crate::{
    access::{Access, Scope, Token, TokenName},
    http::problem::{Challenge, Code, Problem, exists},
    job::{Topic, Topics},
};

/// The caller of a request; `admit` adds it to each one that it lets in.
#[derive(Clone, Default)]
pub struct Identity {
    /// None where requests need no token: then everything is allowed.
    token: Option<Arc<Token>>,
    peer: Option<Peer>,
    /// Which tokens are in force; none on a route for every caller.
    access: Option<Arc<Access>>,
}

/// The caller of a request, for the layers that see the request before `admit` knows who that is.
#[derive(Clone, Default)]
pub struct Caller(Arc<OnceLock<Identity>>);

impl Caller {
    /// This is who it is.
    pub fn is(&self, identity: Identity) {
        // A request is let in once.
        let _ = self.0.set(identity);
    }

    /// The name of its token, once that is known.
    pub fn name(&self) -> Option<&TokenName> {
        self.0.get().and_then(Identity::name)
    }
}

impl Identity {
    /// The holder of this token, at the other end of this connection.
    pub fn new(token: Option<Arc<Token>>, peer: Option<Peer>, access: Arc<Access>) -> Self {
        Self { token, peer, access: Some(access) }
    }

    /// A caller of a route for every caller.
    pub fn of_any(peer: Option<Peer>) -> Self {
        Self { token: None, peer, access: None }
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

    /// The topics that it may reach by this scope.
    ///
    /// # Errors
    /// 403 `forbidden`: its token lacks the scope.
    pub fn topics(&self, scope: Scope) -> Result<Topics, Problem> {
        match &self.token {
            None => Ok(Topics::ALL),
            Some(token) => token.scopes.of(scope).cloned().ok_or_else(|| {
                forbidden(scope, &format!("the token {:?} lacks the scope `{scope}`", token.name))
            }),
        }
    }

    /// Checks that it may do this with a topic that it names itself.
    ///
    /// # Errors
    /// 403 `forbidden`: its token lacks the scope for this topic.
    pub fn may(&self, scope: Scope, topic: &Topic) -> Result<(), Problem> {
        let Some(token) = &self.token else { return Ok(()) };
        match token.scopes.of(scope) {
            Some(topics) if topics.allows(topic) => Ok(()),
            _ => {
                let name = &token.name;
                let detail =
                    format!("the token {name:?} lacks the scope `{scope}` for the topic {topic:?}");
                Err(forbidden(scope, &detail))
            }
        }
    }

    /// Checks that it may do this with all topics.
    ///
    /// # Errors
    /// 403 `forbidden`: its token lacks the scope for some.
    pub fn may_everywhere(&self, scope: Scope) -> Result<(), Problem> {
        if self.topics(scope)? == Topics::ALL {
            return Ok(());
        }
        Err(forbidden(scope, &format!("this needs the scope `{scope}` for all topics (\"*\")")))
    }

    /// Refuses who has not the scope `admin`.
    pub fn may_administer(&self) -> Result<(), Problem> {
        self.topics(Scope::Admin).map(drop)
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
        if topic == own || identity.may(Scope::Read, topic).is_ok() {
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
