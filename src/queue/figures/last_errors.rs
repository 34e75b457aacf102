//! The last errors that consumers reported when they released or buried jobs.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard},
};

use schemars::JsonSchema;
use serde::Serialize;

use crate::job::{JobId, State, Topic, UnixMillis};

const KEPT: usize = 20;
/// Maximum number of entries of one topic, so that its failures leave room for other topics.
const KEPT_PER_TOPIC: usize = 4;
/// Number of characters kept of the beginning and of the end of a longer text, because a traceback
/// names the error at its end. The job keeps the whole text.
const BEGINNING: usize = 100;
const END: usize = 400;

/// An error of a topic, and the number of times that it occurred.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LastError {
    /// When it last occurred.
    pub at: UnixMillis,
    /// The topic of the jobs.
    pub topic: Topic,
    /// The job in which it last occurred.
    pub id: JobId,
    /// The state of that job afterwards.
    pub state: State,
    /// The last text. The middle of a text of more than 500 characters is omitted.
    pub error: String,
    /// Number of times that it occurred since it was first kept. Texts that differ only in numbers,
    /// ids, addresses or quoted values count as the same.
    pub times: u64,
}

/// The errors of jobs that this server released or buried, latest first, each with its pattern.
#[derive(Default)]
pub struct LastErrors(Mutex<VecDeque<(String, LastError)>>);

impl LastErrors {
    /// Records an error. Adds it to an earlier one of the same topic and pattern, if there is one.
    pub fn note(&self, at: UnixMillis, topic: &Topic, id: JobId, state: State, error: &str) {
        let (pattern, error) = (pattern(error), shortened(error));
        let mut all = self.lock();
        let same = all.iter().position(|(known, old)| old.topic == *topic && *known == pattern);
        let times = 1 + same.and_then(|index| all.remove(index)).map_or(0, |(_, old)| old.times);
        all.push_front((pattern, LastError { at, topic: topic.clone(), id, state, error, times }));
        let of_topic =
            |(index, (_, one)): (usize, &(_, LastError))| (one.topic == *topic).then_some(index);
        let surplus = all.iter().enumerate().filter_map(of_topic).nth(KEPT_PER_TOPIC);
        if let Some(index) = surplus {
            all.remove(index);
        }
        all.truncate(KEPT);
    }

    pub fn all(&self) -> Vec<LastError> {
        self.lock().iter().map(|(_, error)| error.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(String, LastError)>> {
        self.0.lock().expect("no thread panics while holding this lock")
    }
}

/// Removes the parts of `text` that differ from job to job: quoted values and, in each word with a
/// digit, the parts that are numbers or hexadecimal. The dashboard's `pattern` does the same.
fn pattern(text: &str) -> String {
    let text = &without_quoted(text);
    let is_number = |part: &str| {
        part.contains(|c: char| c.is_ascii_digit()) || part.chars().all(|c| c.is_ascii_hexdigit())
    };
    let mut pattern = String::with_capacity(text.len());
    let ends_word = |c: char| !c.is_ascii_alphanumeric() && !"._:-".contains(c);
    for word in text.split_inclusive(ends_word) {
        if word.contains(|c: char| c.is_ascii_digit()) {
            let parts = word.split(|c: char| !c.is_ascii_alphanumeric());
            pattern.push('#');
            pattern.extend(parts.filter(|part| !is_number(part)));
        } else {
            pattern.push_str(word);
        }
    }
    pattern
}

/// Replaces each quoted value with `#`. A quote inside a word, as in "can't", quotes nothing.
fn without_quoted(text: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(['\'', '"', '`']) {
        let (before, quoted) = rest.split_at(start);
        let (quote, value) = quoted.split_at(1);
        kept.push_str(before);
        let closed = value.split_once(quote).filter(|(inside, after)| {
            !kept.ends_with(is_word) && !inside.contains('\n') && !after.starts_with(is_word)
        });
        match closed {
            Some((_, after)) => {
                kept.push('#');
                rest = after;
            }
            None => {
                kept.push_str(quote);
                rest = value;
            }
        }
    }
    kept + rest
}

/// Returns the text, or only the beginning and the end of a long one.
fn shortened(text: &str) -> String {
    let mut starts = text.char_indices().map(|(at, _)| at);
    match (starts.nth(BEGINNING), starts.nth_back(END - 1)) {
        (Some(beginning), Some(end)) => format!("{}…{}", &text[..beginning], &text[end..]),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
