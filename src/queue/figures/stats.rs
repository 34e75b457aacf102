//! What has happened to the jobs of each topic since this server started, as far as it went
//! through this server.
//!
//! The API tells of every topic. Metrics tell of [`SHOWN_TOPICS`] and of the rest together: a topic
//! is shown from its first job on, while there is room, and until it has been idle for an hour and
//! others need the room. What is counted of a topic that is not shown goes to the rest and stays
//! there, so no series ever goes back.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard},
    time::{Duration, Instant},
};

use schemars::JsonSchema;
use serde::Serialize;

use crate::job::Topic;

/// How many topics metrics show one by one. A scrape takes about 2 kB for each with a name of 100
/// letters, and is smaller than a megabyte with so many.
pub const SHOWN_TOPICS: usize = 400;
/// The rest.
pub const OTHER: &str = "other";
/// Most topics that are counted; those that come later are not, so that memory stays bounded.
const MAX_TOPICS: usize = 100_000;
/// How long a topic is shown without jobs when others need its room.
const IDLE: Duration = Duration::from_secs(3600);

/// What this server has counted since it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[schemars(rename = "SinceStart")]
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

/// The counts of one topic. None of them ever goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    pub put: u64,
    /// Reserved for consumers, also for those that then did not take them.
    pub popped: u64,
    /// Given back since their consumer had gone.
    pub returned: u64,
    pub finished: u64,
    /// Given back by their consumers.
    pub released: u64,
    pub expired: u64,
    pub dead: u64,
    pub gone: u64,
}

impl From<Tally> for Counters {
    fn from(tally: Tally) -> Self {
        let Tally { put, popped, returned, finished, expired, dead, gone, .. } = tally;
        let popped = popped.saturating_sub(returned);
        Self { put, popped, finished, expired, dead, gone }
    }
}

/// The counts of all topics.
#[derive(Default)]
pub struct Stats(Mutex<Topics>);

#[derive(Default)]
struct Topics {
    all: HashMap<Topic, Entry>,
    shown: usize,
    /// Of all topics, also of those that are not counted one by one.
    sum: Tally,
    /// Of topics while they were not shown.
    rest: Tally,
}

#[derive(Default)]
struct Entry {
    tally: Tally,
    /// What metrics show of it, if they do.
    shown: Option<Shown>,
}

struct Shown {
    tally: Tally,
    /// It was counted since metrics were last read, and when they were while it had been.
    is_used: bool,
    used_at: Instant,
}

impl Stats {
    pub fn of(&self, topic: &Topic) -> Counters {
        self.lock().all.get(topic).map(|entry| entry.tally.into()).unwrap_or_default()
    }

    /// Of all topics together.
    pub fn sum(&self) -> Counters {
        self.tally().into()
    }

    /// The same, as metrics tell it.
    pub fn tally(&self) -> Tally {
        self.lock().sum
    }

    /// Counts for each of these topics.
    pub fn count<'a>(
        &self,
        topics: impl IntoIterator<Item = &'a Topic>,
        mut add: impl FnMut(&mut Tally),
    ) {
        let mut stats = self.lock();
        let Topics { all, shown, sum, rest } = &mut *stats;
        for topic in topics {
            add(sum);
            if !all.contains_key(topic) && all.len() < MAX_TOPICS {
                all.insert(topic.clone(), Entry::default());
            }
            let Some(entry) = all.get_mut(topic) else {
                add(rest);
                continue;
            };
            add(&mut entry.tally);
            if entry.shown.is_none() && *shown < SHOWN_TOPICS && topic.as_str() != OTHER {
                *shown += 1;
                let tally = Tally::default();
                entry.shown = Some(Shown { tally, is_used: true, used_at: Instant::now() });
            }
            match &mut entry.shown {
                Some(shown) => {
                    add(&mut shown.tally);
                    shown.is_used = true;
                }
                None => add(rest),
            }
        }
    }

    /// What metrics show: topics by name, and the rest if there is any.
    pub fn shown(&self) -> Vec<(Topic, Tally)> {
        let mut stats = self.lock();
        let now = Instant::now();
        let Topics { all, shown, rest, .. } = &mut *stats;
        let (mut topics, is_full) = (Vec::with_capacity(*shown + 1), *shown == SHOWN_TOPICS);
        for (topic, entry) in all.iter_mut() {
            let Some(own) = &mut entry.shown else { continue };
            if std::mem::take(&mut own.is_used) {
                own.used_at = now;
            }
            if is_full && now.duration_since(own.used_at) >= IDLE {
                entry.shown = None;
                *shown -= 1;
            } else {
                topics.push((topic.clone(), own.tally));
            }
        }
        topics.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        if let Some(other) = OTHER.parse().ok().filter(|_| *rest != Tally::default()) {
            topics.push((other, *rest));
        }
        topics
    }

    fn lock(&self) -> MutexGuard<'_, Topics> {
        self.0.lock().expect("no thread panics while holding this lock")
    }
}

#[cfg(test)]
mod tests;
