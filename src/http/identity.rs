//! Who makes a request, and what that caller may do.

use std::{
    net::SocketAddr,
    sync::{Arc, OnceLock},
};

use axum::{extract::FromRequestParts, http::request::Parts};

use super::{App, admit::Challenge, code::Code, peer::Peer, problem::Problem};
use crate::{
    access::{Scope, Token, TokenName},
    job::{Topic, Topics},
};

/// The caller of a request; `admit` adds it to each one that it lets in.
#[derive(Clone, Default)]
pub struct Identity {
    /// None where requests need no token: then everything is allowed.
    token: Option<Arc<Token>>,
    peer: Option<Peer>,
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
    pub fn new(token: Option<Arc<Token>>, peer: Option<Peer>) -> Self {
        Self { token, peer }
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
    pub fn address(&self) -> Option<SocketAddr> {
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

    /// Whether any of its scopes has this topic.
    pub fn reaches(&self, topic: &Topic) -> bool {
        self.token.as_ref().is_none_or(|token| token.scopes.reach(topic))
    }
}

fn forbidden(scope: Scope, detail: &str) -> Problem {
    let problem = Problem::new(Code::Forbidden, detail);
    Problem { challenge: Some(Challenge::Scope(scope)), ..problem }
}

impl FromRequestParts<App> for Identity {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Problem> {
        // Without `admit` before it, no route answers.
        parts.extensions.get().cloned().ok_or_else(Problem::internal)
    }
}
