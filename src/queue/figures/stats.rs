//! Counters per topic of the jobs that this server has handled since it started.
//!
//! The API reports every topic. Metrics report [`SHOWN_TOPICS`] topics by name, and all others as
//! one. A topic gets a name in metrics with its first job, if there is room. It loses the name when
//! it has been idle for an hour and other topics need the room. Jobs that are counted while their
//! topic has no name belong to the others for good, so no counter ever decreases.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard},
    time::{Duration, Instant},
};

use schemars::JsonSchema;
use serde::Serialize;

use crate::job::Topic;

/// Number of topics that metrics report by name. A scrape has about 2 kB for each topic with a name
/// of 100 letters, so it stays below a megabyte.
pub const SHOWN_TOPICS: usize = 400;
/// Label of the series of all topics without a name in metrics.
pub const OTHER: &str = "other";
/// Maximum number of topics with counters of their own, so that memory stays bounded.
const MAX_TOPICS: usize = 100_000;
/// Idle time after which a topic may lose its name in metrics.
const IDLE: Duration = Duration::from_secs(3600);

/// Counters of this server since it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[schemars(rename = "SinceStart")]
pub struct Counters {
    /// Jobs put, new or replacing an existing one.
    pub put: u64,
    /// Jobs delivered to consumers.
    pub popped: u64,
    /// Jobs finished.
    pub finished: u64,
    /// Reservations whose TTR ended.
    pub timed_out: u64,
    /// Jobs that became dead: attempts spent, buried or expired.
    pub dead: u64,
    /// Jobs that died in the same ways and moved to another topic.
    pub moved: u64,
    /// Dead jobs deleted when their retention ended.
    pub gone: u64,
}

/// The counters of one topic; none of them ever decreases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EventCounters {
    pub put: u64,
    /// Jobs reserved by pops, whether or not the consumer received them.
    pub popped: u64,
    /// Jobs given back because their consumer had disconnected.
    pub returned: u64,
    pub finished: u64,
    pub released: u64,
    pub timed_out: u64,
    pub dead: u64,
    pub moved: u64,
    pub gone: u64,
}

impl From<EventCounters> for Counters {
    fn from(counters: EventCounters) -> Self {
        let EventCounters { put, popped, returned, finished, timed_out, dead, moved, gone, .. } =
            counters;
        let popped = popped.saturating_sub(returned);
        Self { put, popped, finished, timed_out, dead, moved, gone }
    }
}

#[derive(Default)]
pub struct Stats(Mutex<Topics>);

#[derive(Default)]
struct Topics {
    all: HashMap<Topic, Entry>,
    shown: usize,
    /// Counts all topics, even topics beyond `MAX_TOPICS`.
    sum: EventCounters,
    /// Counts topics that had no name in metrics at the time.
    rest: EventCounters,
}

#[derive(Default)]
struct Entry {
    counters: EventCounters,
    /// The counts that metrics report; `None` if the topic has no name in metrics.
    shown: Option<Shown>,
}

struct Shown {
    counters: EventCounters,
    /// Whether jobs were counted since metrics were last read.
    is_used: bool,
    /// When metrics were last read after jobs had been counted.
    used_at: Instant,
}

impl Stats {
    pub fn of(&self, topic: &Topic) -> Counters {
        self.lock().all.get(topic).map(|entry| entry.counters.into()).unwrap_or_default()
    }

    pub fn sum(&self) -> Counters {
        self.totals().into()
    }

    /// Returns the counters of all topics together, for metrics.
    pub fn totals(&self) -> EventCounters {
        self.lock().sum
    }

    /// Applies `add` to the counters of each of these topics.
    pub fn count<'a>(
        &self,
        topics: impl IntoIterator<Item = &'a Topic>,
        mut add: impl FnMut(&mut EventCounters),
    ) {
        let mut stats = self.lock();
        let Topics { all, shown, sum, rest } = &mut *stats;
        let mut topics = topics.into_iter().peekable();
        while let Some(topic) = topics.next() {
            // Jobs of the same topic often follow each other, and share the look-up.
            let mut jobs = 1;
            while topics.next_if(|next| *next == topic).is_some() {
                jobs += 1;
            }
            let mut add = |counters: &mut _| (0..jobs).for_each(|_| add(counters));
            add(sum);
            if !all.contains_key(topic) && all.len() < MAX_TOPICS {
                all.insert(topic.clone(), Entry::default());
            }
            let Some(entry) = all.get_mut(topic) else {
                add(rest);
                continue;
            };
            add(&mut entry.counters);
            if entry.shown.is_none() && *shown < SHOWN_TOPICS && topic.as_str() != OTHER {
                *shown += 1;
                let counters = EventCounters::default();
                entry.shown = Some(Shown { counters, is_used: true, used_at: Instant::now() });
            }
            match &mut entry.shown {
                Some(shown) => {
                    add(&mut shown.counters);
                    shown.is_used = true;
                }
                None => add(rest),
            }
        }
    }

    /// Returns the counters for metrics: topics by name, and the others as one if they have any.
    pub fn shown(&self) -> Vec<(Topic, EventCounters)> {
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
                topics.push((topic.clone(), own.counters));
            }
        }
        topics.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        if let Some(other) = OTHER.parse().ok().filter(|_| *rest != EventCounters::default()) {
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
