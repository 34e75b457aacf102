//! Scopes of tokens: kinds of calls, each limited to certain topics.

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error as _, MapAccess, Visitor},
};
use thiserror::Error;

use crate::job::{Topic, TopicPattern, Topics};

/// A group of calls that a token can allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Put jobs.
    Put,
    /// Pop, finish, release, touch and bury jobs.
    Pop,
    /// Read the state of a job by its id; delete, change and kick jobs.
    Cancel,
    /// Read jobs, topics and metrics.
    Read,
    /// Kick, delete and reschedule jobs; pause, resume, purge and set the defaults of topics.
    Manage,
    /// Set, read, pause and test the push of topics. It makes the server send requests.
    Push,
    /// Create, list and revoke tokens.
    Admin,
}

impl Scope {
    /// Every scope.
    pub const ALL: [Self; 7] =
        [Self::Put, Self::Pop, Self::Cancel, Self::Read, Self::Manage, Self::Push, Self::Admin];
    /// Names of all scopes in the order of [`ALL`](Self::ALL).
    const NAMES: [&str; 7] = ["put", "pop", "cancel", "read", "manage", "push", "admin"];

    /// Returns the name in requests and answers.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// Returns the scope with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.name() == name)
    }
}

impl Serialize for Scope {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The scopes of a token, each with its topics: `{"put": ["billing.*"], "pop": ["mail"]}`. A token
/// has at least one; `admin` cannot be limited to topics: its only pattern must be `*`. Stores
/// persist this form, so later versions must still parse it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(transparent)]
pub struct Scopes(BTreeMap<Scope, Topics>);

/// Why scopes are invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ScopesError {
    /// The token would have no scope, so it could do nothing.
    #[error("must have at least one of {}", Scope::NAMES.join(", "))]
    None,
    /// `admin` is limited to topics, but it manages tokens, which do not belong to topics.
    #[error("must have admin on \"*\": tokens belong to no topic")]
    AdminOfTopics,
}

impl Scopes {
    /// Returns the scopes of the bootstrap token.
    pub fn admin() -> Self {
        Self([(Scope::Admin, Topics::ALL)].into())
    }

    /// Returns every scope on every topic.
    pub fn all() -> Self {
        Self(Scope::ALL.map(|scope| (scope, Topics::ALL)).into())
    }

    /// Returns the topics of a scope, or `None` if it is missing.
    pub fn of(&self, scope: Scope) -> Option<&Topics> {
        self.0.get(&scope)
    }

    /// Returns the topics of several scopes together, or `None` if all are missing.
    pub fn of_any(&self, scopes: &[Scope]) -> Option<Topics> {
        scopes.iter().filter_map(|scope| self.of(*scope)).cloned().reduce(Topics::union)
    }

    /// Returns whether any scope except `admin` includes this topic.
    pub fn includes_topic(&self, topic: &Topic) -> bool {
        self.0.iter().any(|(scope, topics)| *scope != Scope::Admin && topics.allows(topic))
    }

    /// Adds patterns to a scope.
    pub fn add(&mut self, scope: Scope, patterns: Vec<TopicPattern>) {
        let topics = Topics::new(patterns);
        let all = match self.0.remove(&scope) {
            None => topics,
            Some(old) => old.union(topics),
        };
        self.0.insert(scope, all);
    }

    /// Checks the rules that concern all scopes together.
    ///
    /// # Errors
    /// There are no scopes, or `admin` is limited to topics.
    pub fn check(&self) -> Result<(), ScopesError> {
        if self.0.is_empty() {
            return Err(ScopesError::None);
        }
        match self.of(Scope::Admin) {
            Some(topics) if *topics != Topics::ALL => Err(ScopesError::AdminOfTopics),
            _ => Ok(()),
        }
    }
}

impl<'de> Deserialize<'de> for Scopes {
    /// Reads an object. A scope may be null, which is the same as absent, and must not be repeated.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Scopes;

        impl<'de> Visitor<'de> for Scopes {
            type Value = BTreeMap<Scope, Option<Topics>>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of scopes")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut scopes = BTreeMap::new();
                while let Some(name) = map.next_key::<String>()? {
                    let scope = Scope::named(&name)
                        .ok_or_else(|| A::Error::unknown_field(&name, &Scope::NAMES))?;
                    if scopes.insert(scope, map.next_value()?).is_some() {
                        return Err(A::Error::duplicate_field(scope.name()));
                    }
                }
                Ok(scopes)
            }
        }

        let scopes = deserializer.deserialize_map(Scopes)?;
        Ok(Self(scopes.into_iter().filter_map(|(scope, topics)| Some((scope, topics?))).collect()))
    }
}

#[cfg(test)]
mod tests;
