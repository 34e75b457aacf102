//! Scopes of tokens: kinds of calls, each limited to certain topics.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::job::{Topic, TopicPattern, Topics};

/// A kind of call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Put jobs.
    Put,
    /// Pop, finish, release, touch and bury jobs.
    Pop,
    /// Read jobs, topics and metrics.
    Read,
    /// Kick, delete and reschedule jobs; pause, resume, purge and set the defaults of topics.
    Manage,
    /// Create, list and revoke tokens.
    Admin,
}

impl Scope {
    /// Every scope.
    pub const ALL: [Self; 5] = [Self::Put, Self::Pop, Self::Read, Self::Manage, Self::Admin];

    /// Returns the name in requests and answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Pop => "pop",
            Self::Read => "read",
            Self::Manage => "manage",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The scopes of a token, each with its topics: `{"put": ["billing.*"], "pop": ["mail"]}`. A token
/// has at least one; `admin` is not limited to topics and must be `*`. Persisted: must stay
/// readable.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scopes {
    #[serde(skip_serializing_if = "Option::is_none")]
    put: Option<Topics>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pop: Option<Topics>,
    #[serde(skip_serializing_if = "Option::is_none")]
    read: Option<Topics>,
    #[serde(skip_serializing_if = "Option::is_none")]
    manage: Option<Topics>,
    #[serde(skip_serializing_if = "Option::is_none")]
    admin: Option<Topics>,
}

/// Why scopes are invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ScopesError {
    /// The token would have no scope, so it could do nothing.
    #[error("must have at least one of put, pop, read, manage, admin")]
    None,
    /// `admin` is limited to topics, but tokens do not belong to topics.
    #[error("must have admin on \"*\": tokens belong to no topic")]
    AdminOfTopics,
}

impl Scopes {
    /// Returns the scopes of the bootstrap token.
    pub fn admin() -> Self {
        Self { admin: Some(Topics::ALL), ..Self::default() }
    }

    /// Returns every scope on every topic.
    pub fn all() -> Self {
        let all = Some(Topics::ALL);
        Self {
            put: all.clone(),
            pop: all.clone(),
            read: all.clone(),
            manage: all.clone(),
            admin: all,
        }
    }

    /// Returns the topics of a scope, or `None` if it is missing.
    pub fn of(&self, scope: Scope) -> Option<&Topics> {
        match scope {
            Scope::Put => &self.put,
            Scope::Pop => &self.pop,
            Scope::Read => &self.read,
            Scope::Manage => &self.manage,
            Scope::Admin => &self.admin,
        }
        .as_ref()
    }

    /// Returns whether any scope except `admin` includes this topic.
    pub fn reach(&self, topic: &Topic) -> bool {
        let topics = Scope::ALL.into_iter().filter(|scope| *scope != Scope::Admin);
        topics.filter_map(|scope| self.of(scope)).any(|topics| topics.allows(topic))
    }

    /// Adds patterns to a scope.
    pub fn add(&mut self, scope: Scope, mut patterns: Vec<TopicPattern>) {
        let topics = match scope {
            Scope::Put => &mut self.put,
            Scope::Pop => &mut self.pop,
            Scope::Read => &mut self.read,
            Scope::Manage => &mut self.manage,
            Scope::Admin => &mut self.admin,
        };
        *topics = Some(match topics.take() {
            None => Topics::of(patterns),
            Some(old) => match old.patterns() {
                None => Topics::ALL,
                Some(old) => {
                    patterns.extend_from_slice(old);
                    Topics::of(patterns)
                }
            },
        });
    }

    /// Checks the rules that concern all scopes together.
    ///
    /// # Errors
    /// There are no scopes, or `admin` is limited to topics.
    pub fn check(&self) -> Result<(), ScopesError> {
        if Scope::ALL.into_iter().all(|scope| self.of(scope).is_none()) {
            return Err(ScopesError::None);
        }
        match &self.admin {
            Some(topics) if *topics != Topics::ALL => Err(ScopesError::AdminOfTopics),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
