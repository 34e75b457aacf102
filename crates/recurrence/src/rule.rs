//! The rule of a timing, a cron line or an interval, without its start and end.

use std::time::Duration;

use jiff::tz::TimeZone;

use crate::{
    calendar::Calendar,
    describe,
    every::Every,
    invalid::{Invalid, quoted},
    line::Line,
    timing::Fields,
    wall_clock::WallClock,
    zone,
};

/// Ten years of 365.25 days, in milliseconds: the longest interval, and the reach of a search.
const TEN_YEARS: u64 = 315_576_000_000;
/// Last instant, in Unix seconds: the end of the year 9998, shortly before the last
/// date of jiff.
const LAST_SECOND: i64 = 253_370_764_799;

/// Rule of a timing. Its instants are in Unix milliseconds.
#[derive(Debug)]
pub enum Rule {
    Cron(Box<CronRule>),
    Every(Every),
}

/// Cron line in its time zone.
#[derive(Debug)]
pub struct CronRule {
    clock: WallClock,
    /// Six fields, for the description.
    fields: Box<str>,
}

impl Rule {
    /// Parses all fields but `end`.
    ///
    /// # Errors
    /// The fields make no rule.
    pub fn parse(fields: &Fields) -> Result<Self, Invalid> {
        match (&fields.cron, fields.every) {
            (Some(_), Some(_)) => Err(Invalid::new(
                "every",
                "cannot be combined with `cron`: give one of them, as in {\"every\": \"90s\"} or \
                 {\"cron\": \"0 9 * * MON-FRI\"}",
            )),
            (None, None) => Err(Invalid::new(
                "cron",
                "or `every` must be given, as in {\"cron\": \"0 9 * * MON-FRI\"} or \
                 {\"every\": \"90s\"}",
            )),
            (Some(line), None) => cron(line, fields),
            (None, Some(interval)) => every(interval, fields).map(Self::Every),
        }
    }

    /// Returns the first instant after `after`; `None` if there is none within ten years.
    pub fn next(&self, after: u64) -> Option<u64> {
        match self {
            Self::Cron(rule) => {
                let until = seconds(after.saturating_add(TEN_YEARS)).min(LAST_SECOND);
                let after = seconds(after);
                if after >= until {
                    return None;
                }
                rule.clock.next(after, until).map(millis)
            }
            Self::Every(every) => every.next(after).filter(|at| *at <= millis(LAST_SECOND)),
        }
    }

    /// Returns the last instant at or before `to`; `None` if there is none within ten years.
    pub fn last(&self, to: u64) -> Option<u64> {
        match self {
            Self::Cron(rule) => {
                let since = seconds(to.saturating_sub(TEN_YEARS));
                let to = seconds(to).min(LAST_SECOND);
                if to < since {
                    return None;
                }
                rule.clock.last(to, since).map(millis)
            }
            Self::Every(every) => every.last(to.min(millis(LAST_SECOND))),
        }
    }

    /// Describes the rule in English.
    pub fn description(&self) -> String {
        match self {
            Self::Cron(rule) => {
                describe::cron(&rule.fields, rule.clock.zone.iana_name().unwrap_or("UTC"))
            }
            Self::Every(every) => describe::every(every.interval),
        }
    }
}

fn cron(text: &str, fields: &Fields) -> Result<Rule, Invalid> {
    if fields.anchor.is_some() {
        return Err(Invalid::new(
            "anchor",
            "belongs to `every`; leave it out with `cron`, as in {\"cron\": \"0 9 * * MON-FRI\"}",
        ));
    }
    let line = Line::parse(text).map_err(|message| Invalid::new("cron", message))?;
    Ok(Rule::Cron(Box::new(CronRule {
        clock: WallClock {
            calendar: Calendar::new(&line.cron.pattern),
            zone: zone_of(&line, fields)?,
            is_interval: line.is_interval(),
        },
        fields: line.fields.join(" ").into(),
    })))
}

fn zone_of(line: &Line, fields: &Fields) -> Result<TimeZone, Invalid> {
    let named = |field, name: Option<&str>, words: &str| {
        let zone = name.map(zone::named).transpose();
        zone.map_err(|message| Invalid::new(field, format!("{words}{message}")))
    };
    let own = named("cron", line.zone.as_deref(), "has a CRON_TZ, which ")?;
    let given = named("timezone", fields.timezone.as_deref(), "")?;
    match (own, given) {
        (Some(own), Some(given)) if own.iana_name() != given.iana_name() => {
            let [own, given] = [&line.zone, &fields.timezone];
            let [own, given] = [own, given].map(|name| quoted(name.as_deref().unwrap_or_default()));
            let message =
                format!("must be left out or be the CRON_TZ of `cron`, {own}; got {given}");
            Err(Invalid::new("timezone", message))
        }
        (own, given) => Ok(own.or(given).unwrap_or(TimeZone::UTC)),
    }
}

fn every(interval: Duration, fields: &Fields) -> Result<Every, Invalid> {
    if fields.timezone.is_some() {
        return Err(Invalid::new(
            "timezone",
            "belongs to `cron`; leave it out with `every`, as in {\"every\": \"90s\"}",
        ));
    }
    let millis = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX);
    let is_whole = interval.subsec_nanos().is_multiple_of(1_000_000);
    if !is_whole || !(1000..=TEN_YEARS).contains(&millis) {
        let message = format!(
            "must be from 1 second to ten years, in whole milliseconds, as in \"90s\"; got {interval:?}"
        );
        return Err(Invalid::new("every", message));
    }
    Ok(Every { interval: millis, anchor: fields.anchor.unwrap_or(0) })
}

fn seconds(millis: u64) -> i64 {
    (millis / 1000).cast_signed()
}

fn millis(seconds: i64) -> u64 {
    // No search goes back beyond the epoch.
    seconds.max(0).cast_unsigned() * 1000
}

#[cfg(test)]
mod tests;
