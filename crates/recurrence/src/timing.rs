//! The fields of a timing, and the instants that follow from them.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;

use crate::{
    invalid::{Invalid, quoted},
    rule::Rule,
};

/// Fields of a timing as a client sends them. Times are in Unix milliseconds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Fields {
    /// Cron line of five fields, or six with seconds first, or an alias such as `@daily`; with
    /// `CRON_TZ=Europe/Berlin` in front if the line has a time zone of its own.
    pub cron: Option<String>,
    /// Time zone of the cron line, UTC by default.
    pub timezone: Option<String>,
    /// Interval from one second to ten years, in whole milliseconds.
    pub every: Option<Duration>,
    /// One instant of `every`, the Unix epoch by default.
    pub anchor: Option<u64>,
    /// First allowed instant, none by default.
    pub start: Option<u64>,
    /// End of the allowed instants, excluded; none by default.
    pub end: Option<u64>,
}

/// Valid timing. Clones share their data.
#[derive(Debug, Clone)]
pub struct Timing(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    rule: Rule,
    start: u64,
    end: Option<u64>,
}

impl Timing {
    /// Parses the fields of a new timing.
    ///
    /// `now`, in Unix milliseconds, only decides whether a cron line has an instant within ten
    /// years of `now` and `start`. An instant after `end` counts, too.
    ///
    /// # Errors
    /// The fields make no timing: `Invalid` names the field to change.
    pub fn parse(fields: &Fields, now: u64) -> Result<Self, Invalid> {
        let timing = Self::parse_known(fields)?;
        if let Some(line) = &fields.cron
            && timing.0.rule.next(now.max(timing.0.start.saturating_sub(1))).is_none()
        {
            let message = format!(
                "must have an instant within the next ten years, as in \"0 0 29 2 *\"; {} has none",
                quoted(line)
            );
            return Err(Invalid::new("cron", message));
        }
        Ok(timing)
    }

    /// Parses the fields of a timing that was valid once, whose last instant may have passed.
    ///
    /// # Errors
    /// As in [`Timing::parse`], but a cron line needs no instant.
    pub fn parse_known(fields: &Fields) -> Result<Self, Invalid> {
        let rule = Rule::parse(fields)?;
        let start = fields.start.unwrap_or(0);
        if let (Some(start), Some(end)) = (fields.start, fields.end)
            && end <= start
        {
            let later = start.saturating_add(24 * 3_600_000);
            let [start, end, later] = [start, end, later].map(shown);
            let message = format!("must be after `start`, {start}, as in {later}; got {end}");
            return Err(Invalid::new("end", message));
        }
        Ok(Self(Arc::new(Inner { rule, start, end: fields.end })))
    }

    /// Returns the first instant after `t`, from `start` until `end`; `None` if there is none
    /// within ten years of `t` and `start`. Instants and `t` are in Unix milliseconds.
    pub fn next_after(&self, t: u64) -> Option<u64> {
        let Inner { rule, start, end } = &*self.0;
        let found = rule.next(if *start > t { start - 1 } else { t })?;
        end.is_none_or(|end| found < end).then_some(found)
    }

    /// Returns the last instant at or before `t`, from `start` until `end`; `None` if there is none
    /// within ten years of `t` and `end`. Instants and `t` are in Unix milliseconds.
    pub fn last_until(&self, t: u64) -> Option<u64> {
        let Inner { rule, start, end } = &*self.0;
        let to = match end {
            Some(end) => t.min(end.checked_sub(1)?),
            None => t,
        };
        rule.last(to).filter(|found| found >= start)
    }

    /// Describes the timing without `start` and `end`, as in `at 09:00, on Monday to Friday,
    /// Europe/Berlin` or `every 90 seconds`.
    pub fn description(&self) -> String {
        self.0.rule.description()
    }
}

/// Shows a time of a client as text, or as a number if no calendar has it.
fn shown(millis: u64) -> String {
    let time =
        i64::try_from(millis).ok().and_then(|millis| Timestamp::from_millisecond(millis).ok());
    time.map_or_else(|| millis.to_string(), |time| time.to_string())
}

#[cfg(test)]
mod tests;
