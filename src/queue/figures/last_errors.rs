//! The last errors that consumers gave when they released or buried jobs.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard},
};

use schemars::JsonSchema;
use serde::Serialize;

use crate::job::{JobId, State, Topic, UnixMillis};

/// Entries kept, over all topics.
const KEPT: usize = 20;
/// Entries kept of one topic, so that its failures leave room for those of others.
const KEPT_PER_TOPIC: usize = 4;
/// Characters kept of a longer text: of its beginning, and of its end, where a traceback names the
/// error. The job keeps the whole text.
const BEGINNING: usize = 100;
const END: usize = 400;

/// An error of a topic, and how often it occurred.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LastError {
    /// When it came last.
    pub at: UnixMillis,
    /// The topic of the jobs.
    pub topic: Topic,
    /// The job that had it last.
    pub id: JobId,
    /// What that job was then.
    pub state: State,
    /// The last text. One of more than 500 characters is cut in its middle.
    pub error: String,
    /// How often it occurred, since the first time that is not forgotten; texts that differ only in
    /// numbers, ids or addresses count as one.
    pub times: u64,
}

/// The entries of the jobs that went through this server, each with its pattern, the last one
/// first.
#[derive(Default)]
pub struct LastErrors(Mutex<VecDeque<(String, LastError)>>);

impl LastErrors {
    /// Notes an error. One of the same topic and the same pattern is counted with it.
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

/// Returns the text without what differs from job to job: of each word with a digit, only the parts
/// that are neither numbers nor hexadecimal remain. The dashboard's `pattern` does the same.
fn pattern(text: &str) -> String {
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

/// Returns the text, or the beginning and the end of a long one.
fn shortened(text: &str) -> String {
    let mut starts = text.char_indices().map(|(at, _)| at);
    match (starts.nth(BEGINNING), starts.nth_back(END - 1)) {
        (Some(beginning), Some(end)) => format!("{}…{}", &text[..beginning], &text[end..]),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(errors: &LastErrors, at: u64, topic: &str, id: &str, error: &str) {
        let (topic, id) = (topic.parse().expect("a topic"), id.parse().expect("an id"));
        errors.note(UnixMillis::new(at), &topic, id, State::Delayed, error);
    }

    fn seen(errors: &LastErrors) -> Vec<(String, String, u64)> {
        let all = errors.all().into_iter();
        all.map(|one| (one.topic.to_string(), one.id.to_string(), one.times)).collect()
    }

    #[test]
    fn the_last_error_is_first_and_the_same_one_is_counted() {
        let errors = LastErrors::default();
        note(&errors, 1, "a", "1", "refused");
        note(&errors, 2, "b", "2", "refused");
        note(&errors, 3, "a", "3", "refused");
        assert_eq!(seen(&errors), [("a".into(), "3".into(), 2), ("b".into(), "2".into(), 1)]);
    }

    #[test]
    fn errors_that_differ_in_numbers_ids_or_addresses_are_one_entry() {
        let errors = LastErrors::default();
        for (n, varying) in [
            "10.0.3.17:8443 after 132 ms, 5f2c1a17-93b1-4e0a-8c57-2f6f9d1b0c17, 0x7fd889",
            "10.0.3.9:80 after 7 ms, abcdefab-93b1-4e0a-8c57-ffffffffffff, 0xab12",
            "[2001:db8::ff]:443 after 1.5 ms, deadbeef12, 0x0",
        ]
        .into_iter()
        .enumerate()
        {
            let address = varying.replace(['[', ']'], "");
            note(&errors, 1, "a", &n.to_string(), &format!("no answer of {address} in line {n}"));
        }
        assert_eq!(seen(&errors), [("a".into(), "2".into(), 3)]);
        assert!(errors.all()[0].error.contains("2001:db8::ff"), "{:?}", errors.all());
        for other in ["refused:10.0.0.1", "timeout:10.0.0.1", "timeout of host1.example.com"] {
            note(&errors, 2, "b", "1", other);
        }
        assert_eq!(errors.all().len(), 4);
    }

    #[test]
    fn the_errors_of_one_topic_leave_room_for_others() {
        let errors = LastErrors::default();
        note(&errors, 1, "quiet", "1", "refused");
        for word in ('a'..='z').chain('A'..='Z') {
            note(&errors, 2, "flood", "2", &format!("no {word}"));
        }
        let seen = seen(&errors);
        assert_eq!(seen.len(), KEPT_PER_TOPIC + 1);
        assert_eq!(seen[KEPT_PER_TOPIC], ("quiet".into(), "1".into(), 1));
        for topic in 0..100 {
            note(&errors, 3, &topic.to_string(), "3", "refused");
        }
        assert_eq!(errors.all().len(), KEPT);
    }

    #[test]
    fn a_long_error_keeps_its_beginning_and_its_end() {
        let exactly = "ä".repeat(BEGINNING + END);
        assert_eq!(shortened(&exactly), exactly);
        let long = format!("Traceback{}KeyError: shop", "ä".repeat(4000));
        let kept = shortened(&long);
        assert_eq!(kept.chars().count(), BEGINNING + 1 + END);
        assert!(kept.starts_with("Tracebackä") && kept.ends_with("äKeyError: shop"), "{kept}");
    }
}
