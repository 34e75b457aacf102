//! The last errors that consumers gave when they released or buried jobs.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard},
};

use schemars::JsonSchema;
use serde::Serialize;

use crate::job::{JobId, State, Topic, UnixMillis};

/// Errors that are kept: of each, its text, its topic and one job.
const KEPT: usize = 20;
/// Characters of a text that are kept. The job has the whole.
const SHOWN: usize = 300;

/// An error of a topic, as often as it came.
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
    /// The text, cut after 300 characters.
    pub error: String,
    /// How often it came, since the first time that is not forgotten.
    pub times: u64,
}

/// Those of the jobs that went through this server, the last one first.
#[derive(Default)]
pub struct LastErrors(Mutex<VecDeque<LastError>>);

impl LastErrors {
    /// Notes an error. The same one of the same topic is one entry.
    pub fn note(&self, at: UnixMillis, topic: &Topic, id: JobId, state: State, error: &str) {
        let error = error.char_indices().nth(SHOWN).map_or(error, |(end, _)| &error[..end]);
        let mut all = self.lock();
        let same = all.iter().position(|old| old.topic == *topic && old.error == error);
        let (error, times) = match same.and_then(|index| all.remove(index)) {
            Some(old) => (old.error, old.times + 1),
            None => (error.to_owned(), 1),
        };
        all.push_front(LastError { at, topic: topic.clone(), id, state, error, times });
        all.truncate(KEPT);
    }

    pub fn all(&self) -> Vec<LastError> {
        self.lock().iter().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<LastError>> {
        self.0.lock().expect("no thread panics while holding this lock")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_error_is_first_and_the_same_one_is_counted() {
        let errors = LastErrors::default();
        let note = |at, topic: &str, id: &str, error: &str| {
            let (topic, id) = (topic.parse().expect("a topic"), id.parse().expect("an id"));
            errors.note(UnixMillis::new(at), &topic, id, State::Delayed, error);
        };
        note(1, "a", "1", "refused");
        note(2, "b", "2", "refused");
        note(3, "a", "3", "refused");
        let seen: Vec<_> = errors.all().into_iter().map(|one| (one.id, one.times)).collect();
        assert_eq!(seen, [("3".parse().expect("3"), 2), ("2".parse().expect("2"), 1)]);
        note(4, "a", "4", &"ä".repeat(1000));
        assert_eq!(errors.all()[0].error.chars().count(), SHOWN);
        for number in 0..100 {
            note(5, "a", "5", &number.to_string());
        }
        assert_eq!(errors.all().len(), KEPT);
    }
}
