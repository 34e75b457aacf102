//! The caller of a request, and the topics that its token allows.

use std::sync::Arc;

use super::{
    need::Need,
    peer::{ClientAddress, Peer},
};
use crate::{
    access::{Access, Scope, Token, TokenName},
    http::problem::{Challenge, Code, Problem, exists},
    job::{Topic, Topics},
};

/// The caller of an admitted request.
#[derive(Clone)]
pub struct Identity(Arc<Facts>);

struct Facts {
    /// `None` where requests need no token: then everything is allowed.
    token: Option<Arc<Token>>,
    peer: Peer,
    /// The scopes of the route: the caller needs one of them. Empty if the route needs no scope.
    scopes: &'static [Scope],
    /// Tokens in force; `None` on a route for every caller.
    access: Option<Arc<Access>>,
}

impl Identity {
    /// Creates the caller with this token and connection, on a route with this need.
    pub fn new(token: Option<Arc<Token>>, peer: Peer, need: Need, access: Arc<Access>) -> Self {
        let scopes = match need {
            Need::AnyOf(scopes) => scopes,
            Need::Nothing | Need::AnyToken => &[],
        };
        Self(Arc::new(Facts { token, peer, scopes, access: Some(access) }))
    }

    /// Creates the caller of a route that needs nothing.
    pub fn of_any(peer: Peer) -> Self {
        Self(Arc::new(Facts { token: None, peer, scopes: &[], access: None }))
    }

    pub fn peer(&self) -> &Peer {
        &self.0.peer
    }

    /// Checks again that the caller is allowed in. A request was admitted when its head arrived;
    /// its token may have been revoked while its body arrived or while it waited for jobs.
    ///
    /// # Errors
    /// 401 `unauthenticated`: the token was revoked or has expired, or the server now needs tokens.
    pub fn check(&self) -> Result<(), Problem> {
        let access = self.0.access.as_ref();
        access.map_or(Ok(()), |access| access.check(self.token()).map_err(Into::into))
    }

    pub fn name(&self) -> Option<&TokenName> {
        self.0.token.as_ref().map(|token| &token.name)
    }

    pub fn token(&self) -> Option<&Token> {
        self.0.token.as_deref()
    }

    pub fn address(&self) -> Option<ClientAddress> {
        self.0.peer.address()
    }

    /// Returns the topics for which the caller has a scope of the route.
    ///
    /// # Errors
    /// 403 `forbidden`: the token lacks the scope.
    pub fn topics(&self) -> Result<Topics, Problem> {
        let Some(token) = &self.0.token else { return Ok(Topics::ALL) };
        token.scopes.of_any(self.0.scopes).ok_or_else(|| {
            self.forbidden(&format!("the token {:?} lacks the scope {}", token.name, self.names()))
        })
    }

    /// Returns the topics whose jobs the caller may see with their contents.
    pub fn readable(&self) -> Topics {
        let Some(token) = &self.0.token else { return Topics::ALL };
        token.scopes.of(Scope::Read).cloned().unwrap_or_else(|| Topics::new(Vec::new()))
    }

    /// Checks that the caller has a scope of the route for this topic.
    ///
    /// # Errors
    /// 403 `forbidden`: the token lacks the scope for this topic.
    pub fn may(&self, topic: &Topic) -> Result<(), Problem> {
        let Some(token) = &self.0.token else { return Ok(()) };
        if token.scopes.of_any(self.0.scopes).is_some_and(|topics| topics.allows(topic)) {
            return Ok(());
        }
        let (name, scopes) = (&token.name, self.names());
        let detail = format!("the token {name:?} lacks the scope {scopes} for the topic {topic:?}");
        Err(self.forbidden(&detail))
    }

    /// Checks that the caller may put jobs into a topic, which this field of its request names.
    ///
    /// # Errors
    /// 403 `forbidden`: the token lacks the scope `put` for this topic.
    pub fn may_put(&self, topic: &Topic, field: &str) -> Result<(), Problem> {
        let Some(token) = &self.0.token else { return Ok(()) };
        if token.scopes.of(Scope::Put).is_some_and(|topics| topics.allows(topic)) {
            return Ok(());
        }
        let name = &token.name;
        let detail = format!(
            "`{field}` needs the scope `put` for the topic {topic:?}, which the token {name:?} lacks"
        );
        let challenge = Some(Challenge::Scope(Scope::Put));
        let problem = Problem::new(Code::Forbidden, detail);
        Err(Problem { field: Some(field.to_owned()), challenge, ..problem })
    }

    /// Checks that the caller has a scope of the route for all topics.
    ///
    /// # Errors
    /// 403 `forbidden`: the token lacks the scope for some topics.
    pub fn may_everywhere(&self) -> Result<(), Problem> {
        if self.topics()? == Topics::ALL {
            return Ok(());
        }
        Err(self.forbidden(&format!(
            "this request needs the scope {} for all topics (\"*\")",
            self.names()
        )))
    }

    /// Checks that the caller may put jobs into all topics.
    ///
    /// # Errors
    /// 403 `forbidden`: the token lacks the scope `put` for some topics.
    pub fn may_put_everywhere(&self) -> Result<(), Problem> {
        let Some(token) = &self.0.token else { return Ok(()) };
        if token.scopes.of(Scope::Put) == Some(&Topics::ALL) {
            return Ok(());
        }
        let detail = "this request needs the scope `put` for all topics (\"*\")";
        let problem = Problem::new(Code::Forbidden, detail);
        Err(Problem { challenge: Some(Challenge::Scope(Scope::Put)), ..problem })
    }

    /// Returns the names of the route's scopes: "`manage` or `cancel`".
    fn names(&self) -> String {
        self.0.scopes.iter().map(|scope| format!("`{scope}`")).collect::<Vec<_>>().join(" or ")
    }

    fn forbidden(&self, detail: &str) -> Problem {
        let problem = Problem::new(Code::Forbidden, detail);
        Problem { challenge: self.0.scopes.first().copied().map(Challenge::Scope), ..problem }
    }

    /// Returns whether the caller has any scope for this topic.
    pub fn reaches(&self, topic: &Topic) -> bool {
        self.0.token.as_ref().is_none_or(|token| token.scopes.includes_topic(topic))
    }
}

impl Problem {
    /// Removes details of the existing job that the caller may not see. `own` is the topic of the
    /// caller's put. Without `read` for the existing job's topic, the caller sees only that the job
    /// exists and its state; without any scope for that topic, only that it exists.
    pub fn seen_by(mut self, identity: &Identity, own: &Topic) -> Self {
        let Some((_, Some(topic))) = self.living.as_deref() else { return self };
        if topic == own || identity.readable().allows(topic) {
            return self;
        }
        let reaches = identity.reaches(topic);
        self.living = self.living.filter(|_| reaches).map(|living| Box::new((living.0, None)));
        Self { detail: exists(None), ..self }
    }
}
