//! Wall-clock times that match a cron line, without a time zone.
//!
//! A wall-clock time is the number of seconds that the clock shows since 1970-01-01T00:00:00.

use croner::{CronPattern, Weekday};
use jiff::{
    Timestamp,
    civil::{Date, date},
    tz::Offset,
};

use crate::time_of_day::{DAY, TimesOfDay, bits, has, highest, lowest};

/// Months of equal length that begin with the same weekday have the same days: 28 to 31 days, times
/// seven weekdays.
const SHAPES: usize = 4 * 7;

/// Sets of the times of day, days and months of a cron line.
///
/// Replaces croner's form of the line, which takes 5 KB.
#[derive(Debug)]
pub struct Calendar {
    times: TimesOfDay,
    months: u64,
    /// Days of a month, by the shape of the month.
    days: [u32; SHAPES],
}

impl Calendar {
    pub fn new(pattern: &CronPattern) -> Self {
        let mut days = [None; SHAPES];
        // Within 28 years, months of every length begin with every weekday.
        for (year, month) in (2000..2028).flat_map(|year| (1..=12).map(move |month| (year, month)))
        {
            let first = date(year, month, 1);
            days[shape(first)].get_or_insert_with(|| matching_days(pattern, first));
        }
        Self {
            times: TimesOfDay::new(pattern),
            months: bits(&pattern.months),
            days: days.map(Option::unwrap_or_default),
        }
    }

    /// Returns the first match from `from` until `end`, which is excluded.
    pub fn first(&self, from: i64, end: i64) -> Option<i64> {
        if from >= end {
            return None;
        }
        let (mut month, day) = month_and_day(from);
        let today = has(self.days_of(month), day).then(|| self.times.first(from.rem_euclid(DAY)));
        if let Some(time) = today.flatten() {
            return Some(from - from.rem_euclid(DAY) + time).filter(|found| *found < end);
        }
        let (time, mut day) = (self.times.first(0)?, day + 1);
        loop {
            if let Some(day) = lowest(self.days_of(month), day) {
                return Some(midnight(month, day) + time).filter(|found| *found < end);
            }
            (month, day) = (next_month(month), 1);
            if midnight(month, 1) >= end {
                return None;
            }
        }
    }

    /// Returns the last match from `from` until `to`, both included.
    pub fn last(&self, from: i64, to: i64) -> Option<i64> {
        if from > to {
            return None;
        }
        let (mut month, mut day) = month_and_day(to);
        let today = has(self.days_of(month), day).then(|| self.times.last(to.rem_euclid(DAY)));
        if let Some(time) = today.flatten() {
            return Some(to - to.rem_euclid(DAY) + time).filter(|found| *found >= from);
        }
        let time = self.times.last(DAY - 1)?;
        loop {
            if let Some(day) = highest(self.days_of(month), day) {
                return Some(midnight(month, day) + time).filter(|found| *found >= from);
            }
            if midnight(month, 1) <= from {
                return None;
            }
            (month, day) = (previous_month(month), 32);
        }
    }

    /// Returns the matching days of the month that begins on `first`.
    fn days_of(&self, first: Date) -> u64 {
        if has(self.months, first.month() as u32) { self.days[shape(first)].into() } else { 0 }
    }
}

/// Returns the days that match in the month that begins on `first`, whatever its name.
fn matching_days(pattern: &CronPattern, first: Date) -> u32 {
    const WEEK: [Weekday; 7] = [
        Weekday::Sunday,
        Weekday::Monday,
        Weekday::Tuesday,
        Weekday::Wednesday,
        Weekday::Thursday,
        Weekday::Friday,
        Weekday::Saturday,
    ];
    let begins = first.weekday().to_sunday_zero_offset() as usize;
    let matches = |day: &u32| {
        let weekday = WEEK[(begins + *day as usize - 1) % 7];
        pattern.day_match(first.year().into(), first.month() as u32, *day, weekday).unwrap_or(false)
    };
    (1..=first.days_in_month() as u32).filter(matches).fold(0, |days, day| days | 1 << day)
}

fn shape(first: Date) -> usize {
    (first.days_in_month() as usize - 28) * 7 + first.weekday().to_sunday_zero_offset() as usize
}

/// Returns the first day of the month of a wall-clock time, and the number of its day.
fn month_and_day(wall: i64) -> (Date, u32) {
    let date =
        Timestamp::from_second(wall).map_or(Date::MAX, |at| Offset::UTC.to_datetime(at).date());
    (date.first_of_month(), date.day() as u32)
}

/// Returns the wall-clock time of the midnight that begins a day of the month beginning on `first`.
fn midnight(first: Date, day: u32) -> i64 {
    let begins =
        Offset::UTC.to_timestamp(first.at(0, 0, 0, 0)).map_or(i64::MAX / 2, |at| at.as_second());
    begins + i64::from(day - 1) * DAY
}

fn next_month(first: Date) -> Date {
    match first.month() {
        12 => date(first.year() + 1, 1, 1),
        month => date(first.year(), month + 1, 1),
    }
}

fn previous_month(first: Date) -> Date {
    match first.month() {
        1 => date(first.year() - 1, 12, 1),
        month => date(first.year(), month - 1, 1),
    }
}
