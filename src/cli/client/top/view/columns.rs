//! The columns of the table of topics, as many as fit.

use ratatui::layout::Constraint;

use super::super::{
    model::{Counts, Topic},
    rates::Rate,
};
use crate::job::UnixMillis;

/// Columns in their order on the screen, each with the order in which it gets room.
const COLUMNS: [(Column, u8); 9] = [
    (Column::Topic, 0),
    (Column::Ready, 1),
    (Column::Delayed, 2),
    (Column::Reserved, 6),
    (Column::Dead, 3),
    (Column::Put, 7),
    (Column::Finished, 5),
    (Column::NextDue, 4),
    (Column::Oldest, 8),
];
/// Characters of a topic in the table at most, and at least if others need room.
const TOPIC_WIDTH: (u16, u16) = (40, 12);
const SPACING: u16 = 2;

/// A column of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    Topic,
    Ready,
    Delayed,
    Reserved,
    Dead,
    Put,
    Finished,
    NextDue,
    Oldest,
}

/// Returns the columns that fit into this width.
pub fn that_fit(width: u16, topics: &[Topic]) -> Vec<Column> {
    let mut ranked = COLUMNS;
    ranked.sort_by_key(|(_, rank)| *rank);
    let mut room = i32::from(width) + i32::from(SPACING);
    let mut fits = Vec::new();
    for (column, _) in ranked {
        let least = match column {
            Column::Topic => column.characters(topics).min(TOPIC_WIDTH.1),
            _ => column.characters(topics),
        };
        room -= i32::from(least + SPACING);
        if room < 0 && column != Column::Topic {
            break;
        }
        fits.push(column);
    }
    COLUMNS.iter().map(|(column, _)| *column).filter(|column| fits.contains(column)).collect()
}

impl Column {
    pub fn heading(self) -> &'static str {
        match self {
            Self::Topic => "TOPIC",
            Self::Ready => "READY",
            Self::Delayed => "DELAYED",
            Self::Reserved => "RESERVED",
            Self::Dead => "DEAD",
            Self::Put => "PUT/S",
            Self::Finished => "DONE/S",
            Self::NextDue => "NEXT",
            Self::Oldest => "OLDEST",
        }
    }

    /// Returns the width of the column. The topic takes what is left.
    pub fn width(self, topics: &[Topic]) -> Constraint {
        match self {
            Self::Topic => Constraint::Max(self.characters(topics)),
            _ => Constraint::Length(self.characters(topics)),
        }
    }

    fn characters(self, topics: &[Topic]) -> u16 {
        let longest = |text: &dyn Fn(&Topic) -> String| {
            topics.iter().map(|topic| text(topic).len()).max().unwrap_or(0)
        };
        let most = match self {
            Self::Topic => longest(&|topic| topic.topic.clone()).min(TOPIC_WIDTH.0.into()),
            Self::Put | Self::Finished | Self::NextDue | Self::Oldest => 6,
            _ => longest(&|topic| self.count(topic.counts).to_string()),
        };
        u16::try_from(most.max(self.heading().len())).unwrap_or(u16::MAX)
    }

    fn count(self, counts: Counts) -> u64 {
        match self {
            Self::Ready => counts.ready,
            Self::Delayed => counts.delayed,
            Self::Reserved => counts.reserved,
            _ => counts.dead,
        }
    }

    /// Returns the text of the column for a topic.
    pub fn cell(self, topic: &Topic, rate: Option<Rate>, now: Option<UnixMillis>) -> String {
        let per_second = |of: fn(&Rate) -> f64| {
            rate.as_ref().map_or("-".to_owned(), |rate| format!("{:.1}", of(rate)))
        };
        match self {
            Self::Topic => topic.topic.clone(),
            Self::Put => per_second(|rate| rate.put),
            Self::Finished => per_second(|rate| rate.finished),
            Self::NextDue => next_due(topic, now).unwrap_or_else(|| "-".to_owned()),
            Self::Oldest => topic.oldest_ready_age.map_or("-".to_owned(), span),
            _ => self.count(topic.counts).to_string(),
        }
    }
}

/// Returns the time until the next job is due.
fn next_due(topic: &Topic, now: Option<UnixMillis>) -> Option<String> {
    let due = UnixMillis::from_query(topic.next_due_at.as_ref()?).ok()?;
    Some(span(due.since(now?).get() as f64 / 1e3))
}

/// Returns a time in at most six characters: 59s, 59m, 23h, 999d.
pub fn span(seconds: f64) -> String {
    match seconds {
        ..1.0 => "<1s".to_owned(),
        ..60.0 => format!("{seconds:.0}s"),
        ..3_600.0 => format!("{:.0}m", seconds / 60.0),
        ..86_400.0 => format!("{:.0}h", seconds / 3_600.0),
        _ => format!("{:.0}d", seconds / 86_400.0),
    }
}
