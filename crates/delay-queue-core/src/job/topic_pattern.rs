//! Sets of topics, as access tokens list them.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use smol_str::SmolStr;
use thiserror::Error;

use super::{list::List, name::MAX_LEN, topic::Topic};

/// Maximum number of patterns of one set.
pub const MAX_PATTERNS: usize = 100;

/// A pattern: `billing` (this topic), `billing.*` (all that begin with `billing.`), or `*` (all).
///
/// A star may only be the last character. It matches any number of characters, including none. The
/// text before it may contain only the characters that a topic may contain.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TopicPattern(SmolStr);

/// Error for text that is not a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "must be a topic (\"mail\"), a prefix followed by a star (\"billing.*\"), or \"*\"; got {0:?}"
)]
pub struct PatternError(String);

impl TopicPattern {
    /// Returns whether the pattern matches a topic.
    pub fn allows(&self, topic: &Topic) -> bool {
        match self.prefix() {
            Some(prefix) => topic.as_str().starts_with(prefix),
            None => topic.as_str() == self.0,
        }
    }

    /// Returns the prefix of all matching topics, or `None` for a single topic.
    pub fn prefix(&self) -> Option<&str> {
        self.0.strip_suffix('*')
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for TopicPattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let fits = match text.strip_suffix('*') {
            Some(prefix) => prefix.len() < MAX_LEN && prefix.bytes().all(is_of_topic),
            None => text.parse::<Topic>().is_ok(),
        };
        if fits {
            Ok(Self(text.into()))
        } else {
            Err(PatternError(text.chars().take(200).collect()))
        }
    }
}

fn is_of_topic(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._-".contains(&byte)
}

impl fmt::Display for TopicPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for TopicPattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for TopicPattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        SmolStr::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// The topics that a caller may access, as a set of patterns. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Topics(Option<Arc<[TopicPattern]>>);

impl Topics {
    /// Every topic: `*`.
    pub const ALL: Self = Self(None);

    /// Creates the set of topics that match any of these patterns. Without patterns, the set is
    /// empty.
    pub fn new(mut patterns: Vec<TopicPattern>) -> Self {
        patterns.sort_unstable();
        patterns.dedup();
        let is_star = |pattern: &TopicPattern| pattern.as_str() == "*";
        if patterns.iter().any(is_star) { Self::ALL } else { Self(Some(patterns.into())) }
    }

    /// Returns the set that has the topics of both sets.
    pub fn union(self, other: Self) -> Self {
        match (self.patterns(), other.patterns()) {
            (Some(one), Some(other)) => Self::new([one, other].concat()),
            _ => Self::ALL,
        }
    }

    /// Returns whether the set has a topic.
    pub fn allows(&self, topic: &Topic) -> bool {
        match &self.0 {
            None => true,
            Some(patterns) => patterns.iter().any(|pattern| pattern.allows(topic)),
        }
    }

    /// Returns the patterns in order, or `None` if the set has every topic.
    pub fn patterns(&self) -> Option<&[TopicPattern]> {
        self.0.as_deref()
    }

    /// Returns whether the set has no topic at all.
    pub fn is_empty(&self) -> bool {
        self.0.as_ref().is_some_and(|patterns| patterns.is_empty())
    }
}

impl Serialize for Topics {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            None => ["*"].serialize(serializer),
            Some(patterns) => patterns.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Topics {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let List(patterns) = List::<TopicPattern, MAX_PATTERNS>::deserialize(deserializer)?;
        Ok(Self::new(patterns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(text: &str) -> Topic {
        text.parse().expect("a topic")
    }

    #[test]
    fn a_pattern_is_a_topic_a_prefix_with_a_star_or_a_star() {
        for (pattern, yes, no) in [
            ("mail", &["mail"][..], &["mai", "mail2", "Mail", "mail.x"][..]),
            ("billing.*", &["billing.a", "billing.", "billing.a.b"], &["billing", "billingx", "x"]),
            ("bill*", &["bill", "billing", "bill.x"], &["bil", "Bill"]),
            ("*", &["a", "billing.x"], &[]),
        ] {
            let topics = Topics::new(vec![pattern.parse().expect(pattern)]);
            assert!(yes.iter().all(|text| topics.allows(&topic(text))), "{pattern}");
            assert!(!no.iter().any(|text| topics.allows(&topic(text))), "{pattern}");
        }
        assert!(!Topics::new(Vec::new()).allows(&topic("a")));
    }

    #[test]
    fn invalid_patterns_are_refused() {
        let long = format!("{}*", "x".repeat(128));
        for text in
            ["", "**", "*x", "a*b", "a*b*", "a b", "a,b", "a:*", "é*", ".", "..", "a/*", "?", &long]
        {
            let refused = text.parse::<TopicPattern>().expect_err(text).to_string();
            assert!(refused.contains("billing.*"), "{refused}");
        }
    }

    #[test]
    fn a_set_survives_its_text() {
        for text in [r#"["*"]"#, r#"["a","billing.*"]"#] {
            let topics: Topics = serde_json::from_str(text).expect(text);
            assert_eq!(serde_json::to_string(&topics).expect("written"), text);
        }
        assert_eq!(serde_json::from_str::<Topics>(r#"["a","*"]"#).expect("a set"), Topics::ALL);
        for text in ["[]", r#"["a b"]"#, r#""*""#, "7"] {
            serde_json::from_str::<Topics>(text).expect_err(text);
        }
    }
}
