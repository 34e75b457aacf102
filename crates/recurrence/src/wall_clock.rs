//! Instants of a cron line in a time zone.
//!
//! An interval line has an instant whenever the clock shows a matching time. Any other line has one
//! for each matching time: the first instant at which the clock shows this time or a later one.
//! That is the change itself if clocks skip the time, and the first of two if they show it twice.
//! Both searches rest on this definition, so that they agree.

use jiff::tz::TimeZone;

use crate::{calendar::Calendar, span::Span};

/// A cron line in a time zone.
#[derive(Debug)]
pub struct WallClock {
    pub calendar: Calendar,
    pub zone: TimeZone,
    /// Whether the line has an interval (`*` or `*/5`) in its seconds, minutes or hours.
    pub is_interval: bool,
}

impl WallClock {
    /// Returns the first instant after `after` and at or before `until`, in Unix seconds.
    pub fn next(&self, after: i64, until: i64) -> Option<i64> {
        let first = after + 1;
        let mut span = Span::at(&self.zone, first);
        let mut from = first + span.offset;
        if !self.is_interval {
            // Times that clocks skipped belong to the instant of the change.
            from = if first == span.from { span.shown } else { from.max(span.shown) };
        }
        loop {
            let end = span.end.min(until + 1) + span.offset;
            if let Some(wall) = self.calendar.first(from, end) {
                return Some(span.from.max(wall - span.offset));
            }
            if span.end > until {
                return None;
            }
            span = Span::at(&self.zone, span.end);
            from = if self.is_interval { span.from + span.offset } else { span.shown };
        }
    }

    /// Returns the last instant at or before `to` and at or after `since`, in Unix seconds.
    pub fn last(&self, to: i64, since: i64) -> Option<i64> {
        let mut span = Span::at(&self.zone, to);
        let mut to = to + span.offset;
        if !self.is_interval {
            to = to.max(span.shown.saturating_sub(1));
        }
        loop {
            let from = if since > span.from {
                let from = since + span.offset;
                if self.is_interval { from } else { from.max(span.shown) }
            } else if self.is_interval {
                span.from + span.offset
            } else {
                span.shown
            };
            if let Some(wall) = self.calendar.last(from, to) {
                return Some(span.from.max(wall - span.offset));
            }
            if span.from <= since {
                return None;
            }
            let shown = span.shown;
            span = Span::at(&self.zone, span.from - 1);
            to = if self.is_interval { span.end - 1 + span.offset } else { shown - 1 };
        }
    }
}
