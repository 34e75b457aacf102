//! The last errors that consumers reported when they released or buried jobs.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard},
};

use schemars::JsonSchema;
use serde::Serialize;

use super::pattern::{pattern, shortened};
use crate::job::{JobId, State, Topic, UnixMillis};

const KEPT: usize = 20;
/// Maximum number of entries of one topic, so that its failures leave room for other topics.
const KEPT_PER_TOPIC: usize = 4;

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

#[cfg(test)]
mod tests;
