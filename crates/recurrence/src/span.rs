//! Spans of time without a change of clocks.

use jiff::{Timestamp, tz::TimeZone};

/// Greatest distance between two UTC offsets, in seconds: from -25:59:59 to +25:59:59.
const MAX_SHIFT: i64 = 2 * 26 * 3600;

/// Period in which a zone has one UTC offset, between two changes of clocks. All times in seconds.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    /// Instant of the change that begins the span, `i64::MIN` if there is none.
    pub from: i64,
    /// Instant of the change that ends the span, `i64::MAX` if there is none.
    pub end: i64,
    /// Seconds that wall clocks are ahead of UTC.
    pub offset: i64,
    /// End of the wall-clock times that clocks showed before the span, excluded; `i64::MIN` if
    /// there are none. Above `from + offset` if clocks were put back, below if they were put
    /// forward.
    pub shown: i64,
}

impl Span {
    /// Returns the span that `instant` belongs to.
    pub fn at(zone: &TimeZone, instant: i64) -> Self {
        let offset = offset_at(zone, instant);
        let mut changes = changes_until(zone, instant);
        let latest = changes.next();
        let from = latest.map_or(i64::MIN, |(at, _)| at);
        // A later change can leave clocks behind a time that they showed before an earlier one.
        let near = changes.take_while(|(at, _)| *at > from.saturating_sub(MAX_SHIFT));
        let shown = latest.into_iter().chain(near).map(|(at, before)| at + before).max();
        let end = zone
            .following(timestamp(instant))
            .find(|change| i64::from(change.offset().seconds()) != offset)
            .map_or(i64::MAX, |change| change.timestamp().as_second());
        Self { from, end, offset, shown: shown.unwrap_or(i64::MIN) }
    }
}

/// Returns the changes of the UTC offset at or before `instant`, latest first, each with the offset
/// before it.
fn changes_until(zone: &TimeZone, instant: i64) -> impl Iterator<Item = (i64, i64)> {
    // Some changes of the zone data only rename the zone's time, and keep the offset.
    zone.preceding(timestamp(instant + 1)).filter_map(|change| {
        let at = change.timestamp().as_second();
        let before = offset_at(zone, at - 1);
        (before != i64::from(change.offset().seconds())).then_some((at, before))
    })
}

fn offset_at(zone: &TimeZone, instant: i64) -> i64 {
    zone.to_offset(timestamp(instant)).seconds().into()
}

/// Returns the timestamp of a number of seconds; the nearest one if that is none.
fn timestamp(instant: i64) -> Timestamp {
    Timestamp::from_second(instant).unwrap_or(if instant < 0 {
        Timestamp::MIN
    } else {
        Timestamp::MAX
    })
}
