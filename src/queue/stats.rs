//! What has happened to the jobs of each topic since this server started, as far as it went
//! through this server.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard},
};

use serde::Serialize;

use crate::job::Topic;

/// Most topics that are counted; those that come later are not, so that memory stays bounded.
const MAX_TOPICS: usize = 100_000;

/// The counts of one topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Counters {
    /// Jobs taken, new or in the place of a living one.
    pub put: u64,
    /// Jobs delivered to consumers.
    pub popped: u64,
    /// Jobs finished.
    pub finished: u64,
    /// Reservations whose TTR ran out.
    pub expired: u64,
    /// Jobs that died: attempts spent, or buried.
    pub dead: u64,
    /// Dead jobs that went when their retention was over.
    pub gone: u64,
}

/// The counts of all topics.
#[derive(Default)]
pub struct Stats(Mutex<HashMap<Topic, Counters>>);

impl Stats {
    pub fn of(&self, topic: &Topic) -> Counters {
        self.lock().get(topic).copied().unwrap_or_default()
    }

    /// Of all topics together.
    pub fn sum(&self) -> Counters {
        self.lock().values().fold(Counters::default(), |sum, one| Counters {
            put: sum.put + one.put,
            popped: sum.popped + one.popped,
            finished: sum.finished + one.finished,
            expired: sum.expired + one.expired,
            dead: sum.dead + one.dead,
            gone: sum.gone + one.gone,
        })
    }

    /// Counts for each of these topics.
    pub fn count<'a>(
        &self,
        topics: impl IntoIterator<Item = &'a Topic>,
        mut add: impl FnMut(&mut Counters),
    ) {
        let mut all = self.lock();
        for topic in topics {
            if let Some(since) = all.get_mut(topic) {
                add(since);
            } else if all.len() < MAX_TOPICS {
                add(all.entry(topic.clone()).or_default());
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Topic, Counters>> {
        self.0.lock().expect("no thread panics while holding this lock")
    }
}
