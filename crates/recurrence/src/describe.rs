//! Descriptions in English: time of day, days, months and zone of a cron line, separated by commas.

use crate::field::{Field, MONTHS, WEEKDAYS};

/// Describes the six fields of a valid line.
pub fn cron(fields: &str, zone: &str) -> String {
    let mut fields = fields.split(' ');
    let [second, minute, hour, day, month, weekday] =
        Field::ALL.map(|_| fields.next().unwrap_or("*"));
    let parts = [time(second, minute, hour), days(day, weekday), months(month), zone.to_owned()];
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(", ")
}

/// Describes an interval in milliseconds by its largest units.
pub fn every(millis: u64) -> String {
    const UNITS: [(u64, &str); 5] = [
        (86_400_000, "day"),
        (3_600_000, "hour"),
        (60_000, "minute"),
        (1_000, "second"),
        (1, "millisecond"),
    ];
    let whole =
        UNITS.into_iter().find(|(unit, _)| millis.is_multiple_of(*unit) && millis >= 2 * unit);
    let one = UNITS.into_iter().find(|(unit, _)| millis == *unit);
    match one.or(whole) {
        Some((unit, name)) if unit == millis => format!("every {name}"),
        Some((unit, name)) => format!("every {} {name}s", millis / unit),
        None => format!("every {millis} ms"),
    }
}

fn time(second: &str, minute: &str, hour: &str) -> String {
    if let (Some(second), Some(minute)) = (number(second), number(minute)) {
        let clock = |hour: u32| match second {
            0 => format!("{hour:02}:{minute:02}"),
            _ => format!("{hour:02}:{minute:02}:{second:02}"),
        };
        let hours: Option<Vec<_>> = hour.split(',').map(number).collect();
        if let Some(hours) = hours {
            return format!("at {}", joined(hours.into_iter().map(clock)));
        }
        if let Some((from, to)) =
            hour.split_once('-').and_then(|(from, to)| number(from).zip(number(to)))
        {
            return format!("every hour from {} to {}", clock(from), clock(to));
        }
        if (second, minute) == (0, 0) {
            return repeated(Field::Hour, hour);
        }
    }
    // A field that the next smaller one repeats in anyway goes without saying.
    let mut parts = Vec::new();
    if number(second) != Some(0) {
        parts.push(repeated(Field::Second, second));
    }
    if minute != "*" || parts.is_empty() || !second.starts_with('*') {
        parts.push(repeated(Field::Minute, minute));
    }
    match step(hour) {
        _ if hour == "*" => {
            if !parts.last().is_some_and(|part| part.starts_with("every")) {
                parts.push("every hour".into());
            }
        }
        Some(step) => parts.push(format!("in every {} hour", ordinal(step))),
        None => parts.push(format!("in {}", list("hour", Field::Hour, hour))),
    }
    parts.join(", ")
}

/// Describes seconds, minutes or hours: `every 5 minutes`, `at minutes 0 and 30`.
fn repeated(field: Field, text: &str) -> String {
    let (unit, all) = match field {
        Field::Second => ("second", 60),
        Field::Minute => ("minute", 60),
        _ => ("hour", 24),
    };
    match step(text) {
        _ if matches!(text, "*" | "*/1") => format!("every {unit}"),
        Some(step) if step >= all => format!("at {unit} 0"),
        Some(step) if all % step == 0 => format!("every {step} {unit}s"),
        Some(step) => format!("every {} {unit}", ordinal(step)),
        None => format!("at {}", list(unit, field, text)),
    }
}

fn days(day: &str, weekday: &str) -> String {
    let needs_both = [day, weekday].iter().any(|field| field.starts_with(['*', '+']));
    let weekday = weekday.trim_start_matches('+');
    match (days_of_month(day), days_of_week(weekday)) {
        (None, None) => String::new(),
        (Some(days), None) | (None, Some(days)) => format!("on {days}"),
        (Some(days), Some(weekdays)) if needs_both => format!("on {days} if it is {weekdays}"),
        (Some(days), Some(weekdays)) => format!("on {days} or on {weekdays}"),
    }
}

/// Describes the field of days of the month; `None` if it is a star.
fn days_of_month(text: &str) -> Option<String> {
    if text == "*" {
        return None;
    }
    if let Some(step) = step(text) {
        return Some(format!("every {} day of the month from the 1st", ordinal(step)));
    }
    let (special, plain): (Vec<_>, Vec<_>) =
        text.split(',').partition(|entry| entry.contains(['L', 'W']));
    let plain = (!plain.is_empty())
        .then(|| format!("{} of the month", list("day", Field::Day, &plain.join(","))));
    let special = special.into_iter().map(|entry| match entry {
        "L" => "the last day of the month".to_owned(),
        "LW" => "the last weekday of the month".to_owned(),
        near => format!("the weekday nearest to day {} of the month", near.trim_end_matches('W')),
    });
    Some(joined(plain.into_iter().chain(special)))
}

/// Describes the field of days of the week; `None` if it is a star.
fn days_of_week(text: &str) -> Option<String> {
    const NTH: [&str; 5] = ["first", "second", "third", "fourth", "fifth"];
    if matches!(text, "*" | "0-6" | "0-7" | "1-7") {
        return None;
    }
    let entry = |text: &str| {
        let (days, nth) = match text.split_once('#') {
            Some((days, nth)) => (days, nth),
            None => text.strip_suffix('L').map_or((text, ""), |days| (days, "L")),
        };
        let days = entry(Field::Weekday, days);
        match number(nth) {
            Some(nth) => {
                let nth = NTH.get(nth as usize - 1).copied().unwrap_or_default();
                format!("the {nth} {days} of the month")
            }
            None if nth == "L" => format!("the last {days} of the month"),
            None => days,
        }
    };
    Some(joined(text.split(',').map(entry)))
}

fn months(text: &str) -> String {
    match step(text) {
        _ if text == "*" => String::new(),
        Some(step) => format!("in every {} month", ordinal(step)),
        None => format!("in {}", joined(text.split(',').map(|text| entry(Field::Month, text)))),
    }
}

/// Describes a list of values: `minute 5`, `hours 9 to 17`, `days 1, 15 and 20`.
fn list(unit: &str, field: Field, text: &str) -> String {
    let plural = if number(text).is_some() { "" } else { "s" };
    format!("{unit}{plural} {}", joined(text.split(',').map(|text| entry(field, text))))
}

/// Describes an entry of a list: `5`, `9 to 17`, `0 to 30 in steps of 5`.
fn entry(field: Field, text: &str) -> String {
    let (range, step) =
        text.split_once('/').map_or((text, None), |(range, step)| (range, Some(step)));
    let range = match range.split_once('-') {
        Some((from, to)) => format!("{} to {}", value(field, from), value(field, to)),
        None => value(field, range),
    };
    step.map_or_else(|| range.clone(), |step| format!("{range} in steps of {step}"))
}

fn value(field: Field, word: &str) -> String {
    const MONTH_NAMES: [&str; 12] = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ];
    const WEEKDAY_NAMES: [&str; 7] =
        ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
    let known = |names: &[&str]| names.iter().position(|name| *name == word);
    let name = match field {
        Field::Month => {
            let month = number(word).map(|month| (month as usize).wrapping_sub(1));
            month.or_else(|| known(&MONTHS)).and_then(|month| MONTH_NAMES.get(month))
        }
        Field::Weekday => {
            let day = number(word).map(|day| day as usize % 7);
            day.or_else(|| known(&WEEKDAYS)).and_then(|day| WEEKDAY_NAMES.get(day))
        }
        _ => None,
    };
    match name {
        Some(name) => (*name).to_owned(),
        None if word == "*" => "all".to_owned(),
        None => number(word).map_or_else(|| word.to_owned(), |number| number.to_string()),
    }
}

/// Returns the step of `*/5`.
fn step(text: &str) -> Option<u32> {
    text.strip_prefix("*/").and_then(number)
}

fn number(text: &str) -> Option<u32> {
    text.parse().ok()
}

fn ordinal(number: u32) -> String {
    let suffix = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{suffix}")
}

fn joined(words: impl Iterator<Item = String>) -> String {
    let mut words: Vec<_> = words.collect();
    match words.pop() {
        Some(last) if words.is_empty() => last,
        Some(last) => format!("{} and {last}", words.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests;
