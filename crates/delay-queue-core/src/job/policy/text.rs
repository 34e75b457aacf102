//! The text of a policy in stores: `t=30000;b=list:0,120000`.
//!
//! Persisted: must stay readable. Each field that differs from [`Policy::STANDARD`] is
//! `<name>=<value>`, fields are separated by `;`, and no value has a blank, a line feed or a `;`.
//! Therefore the text of the standard policy is empty, and a script changes a field without knowing
//! the others. Durations are in milliseconds. A finished retention may be in a larger unit, because
//! the records of finished jobs should be short (`UNITS`).

use std::{fmt, str::FromStr};

use super::Policy;
use crate::job::{backoff::Backoff, duration::Millis, time::UnixMillis};

// The names of the fields. Scripts read the retentions, the priority and the expiry
// (`shared/policy.lua`), and pops the TTR (`pop/read.lua`).
const TTR: &str = "t";
const MAX_ATTEMPTS: &str = "m";
const BACKOFF: &str = "b";
const DEAD_RETENTION: &str = "d";
const FINISHED_RETENTION: &str = "f";
const PRIORITY: &str = "r";
const EXPIRES_AFTER: &str = "x";
const EXPIRES_AT: &str = "e";
const DEAD_TO: &str = "g";
const DEAD_FROM: &str = "o";
const SCHEDULED_AT: &str = "s";
const TRACEPARENT: &str = "p";
const HEADERS: &str = "h";

/// The error of a text that cannot be parsed as a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be the text of a policy")]
pub struct PolicyError;

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ttr, max_attempts, backoff, dead_retention, finished_retention, .. } = self;
        let Self { priority, expires_after, expires_at, traceparent, headers, .. } = self;
        let Self { dead_to, dead_from, scheduled_at, .. } = self;
        let standard = Self::STANDARD;
        let mut text = Text { f, separator: "" };
        text.field(TTR, Some(ttr.get()).filter(|_| *ttr != standard.ttr))?;
        let max = Some(max_attempts).filter(|max| **max != standard.max_attempts);
        text.field(MAX_ATTEMPTS, max)?;
        let retention =
            Some(dead_retention.get()).filter(|_| *dead_retention != standard.dead_retention);
        text.field(DEAD_RETENTION, retention)?;
        let kept = Some(finished_retention).filter(|kept| !kept.is_zero());
        text.field(FINISHED_RETENTION, kept.map(|kept| retention_text(*kept)))?;
        text.field(PRIORITY, Some(priority).filter(|priority| !priority.is_standard()))?;
        text.field(EXPIRES_AFTER, expires_after.map(Millis::get))?;
        text.field(EXPIRES_AT, expires_at.map(UnixMillis::get))?;
        text.field(DEAD_TO, dead_to.as_ref())?;
        text.field(DEAD_FROM, dead_from.as_ref())?;
        text.field(SCHEDULED_AT, scheduled_at.map(UnixMillis::get))?;
        text.field(TRACEPARENT, traceparent.as_ref())?;
        text.field(HEADERS, Some(headers).filter(|headers| !headers.is_empty()))?;
        text.field(BACKOFF, backoff.as_ref())
    }
}

/// Units of a finished retention, the largest first. Mirrored in `shared/policy.lua`.
const UNITS: [(char, u64); 4] = [('d', 86_400_000), ('h', 3_600_000), ('m', 60_000), ('s', 1_000)];

/// Formats how long a finished job is kept, in the largest unit of which it is a multiple.
fn retention_text(retention: Millis) -> String {
    let millis = retention.get();
    let unit = UNITS.iter().find(|(_, unit)| millis > 0 && millis.is_multiple_of(*unit));
    unit.map_or_else(|| millis.to_string(), |(letter, unit)| format!("{}{letter}", millis / unit))
}

/// Parses the text of a finished retention, in any of the units.
fn parse_retention(text: &str) -> Option<Millis> {
    let unit = UNITS.iter().find(|(letter, _)| text.ends_with(*letter));
    let (digits, unit) = unit
        .map_or((text, 1), |(letter, unit)| (text.strip_suffix(*letter).unwrap_or(text), *unit));
    digits.parse::<u64>().ok()?.checked_mul(unit).map(Millis::new)
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

impl FromStr for Policy {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
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
            FINISHED_RETENTION => self.finished_retention = parse_retention(value)?,
            PRIORITY => self.priority = value.parse().ok()?,
            EXPIRES_AFTER => self.expires_after = Some(Millis::new(value.parse().ok()?)),
            EXPIRES_AT => self.expires_at = Some(UnixMillis::new(value.parse().ok()?)),
            DEAD_TO => self.dead_to = Some(value.parse().ok()?),
            DEAD_FROM => self.dead_from = Some(value.parse().ok()?),
            SCHEDULED_AT => self.scheduled_at = Some(UnixMillis::new(value.parse().ok()?)),
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
