//! The text of a policy in stores: `t=30000;b=list:0,120000`.
//!
//! Persisted: must stay readable. Each field that differs from [`Policy::STANDARD`] is
//! `<name>=<value>`, fields are separated by `;`, and no value has a blank, a line feed or a `;`.
//! Therefore the text of the standard policy is empty, and a script changes a field without knowing
//! the others. Durations are in milliseconds.

use std::{fmt, str::FromStr};

use super::{Policy, PolicyFields, schema_4::PolicyOfSchema4};
use crate::job::{backoff::Backoff, duration::Millis};

// The names of the fields. Scripts read the first five (`shared/policy.lua`).
const TTR: &str = "t";
const MAX_ATTEMPTS: &str = "m";
const BACKOFF: &str = "b";
const DEAD_RETENTION: &str = "d";
const FINISHED_RETENTION: &str = "f";
const TRACEPARENT: &str = "p";
const HEADERS: &str = "h";

/// The error of a text that cannot be parsed as a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be the text of a policy")]
pub struct PolicyError;

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ttr, max_attempts, backoff, dead_retention, finished_retention, .. } = self;
        let Self { traceparent, headers, .. } = self;
        let standard = Self::STANDARD;
        let mut text = Text { f, separator: "" };
        text.field(TTR, Some(ttr.get()).filter(|_| *ttr != standard.ttr))?;
        let max = Some(max_attempts).filter(|max| **max != standard.max_attempts);
        text.field(MAX_ATTEMPTS, max)?;
        let retention =
            Some(dead_retention.get()).filter(|_| *dead_retention != standard.dead_retention);
        text.field(DEAD_RETENTION, retention)?;
        let kept = Some(finished_retention.get()).filter(|kept| *kept > 0);
        text.field(FINISHED_RETENTION, kept)?;
        text.field(TRACEPARENT, traceparent.as_ref())?;
        text.field(HEADERS, Some(headers).filter(|headers| !headers.is_empty()))?;
        text.field(BACKOFF, backoff.as_ref())
    }
}

struct Text<'a, 'f> {
    f: &'a mut fmt::Formatter<'f>,
    separator: &'static str,
}

impl Text<'_, '_> {
    fn field(&mut self, name: &str, value: Option<impl fmt::Display>) -> fmt::Result {
        let Some(value) = value else { return Ok(()) };
        write!(self.f, "{}{name}={value}", self.separator)?;
        self.separator = ";";
        Ok(())
    }
}

impl PolicyFields {
    /// Returns the given fields as text for a script, where an empty value removes a field.
    pub fn text(&self) -> String {
        let Self { ttr, max_attempts, backoff, dead_retention, finished_retention, .. } = self;
        let Self { traceparent, headers, .. } = self;
        let backoff =
            backoff.as_ref().map(|new| new.as_ref().map_or_else(String::new, Backoff::to_string));
        let given = [
            ttr.map(|ttr| format!("{TTR}={}", ttr.get())),
            max_attempts.map(|max| format!("{MAX_ATTEMPTS}={max}")),
            dead_retention.map(|retention| format!("{DEAD_RETENTION}={}", retention.get())),
            finished_retention.map(|retention| format!("{FINISHED_RETENTION}={}", retention.get())),
            traceparent.map(|parent| format!("{TRACEPARENT}={parent}")),
            headers.as_ref().map(|headers| format!("{HEADERS}={headers}")),
            backoff.map(|text| format!("{BACKOFF}={text}")),
        ];
        given.into_iter().flatten().collect::<Vec<_>>().join(";")
    }
}

impl FromStr for Policy {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        if let Some(parts) = PolicyOfSchema4::split(text) {
            return parts.policy().ok_or(PolicyError);
        }
        let mut policy = Self::STANDARD;
        let fields = text.split(';').filter(|_| !text.is_empty());
        fields.map(|field| policy.parse_field(field)).collect::<Option<()>>().ok_or(PolicyError)?;
        Ok(policy)
    }
}

impl Policy {
    fn parse_field(&mut self, field: &str) -> Option<()> {
        let (name, value) = field.split_once('=')?;
        match name {
            TTR => self.ttr = Millis::new(value.parse().ok()?),
            MAX_ATTEMPTS => self.max_attempts = value.parse().ok()?,
            DEAD_RETENTION => self.dead_retention = Millis::new(value.parse().ok()?),
            FINISHED_RETENTION => self.finished_retention = Millis::new(value.parse().ok()?),
            TRACEPARENT => self.traceparent = Some(value.parse().ok()?),
            HEADERS => self.headers = value.parse().ok()?,
            BACKOFF => self.backoff = Some(value.parse::<Backoff>().ok()?),
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests;
