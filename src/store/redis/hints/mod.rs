//! Hints that servers on one Redis publish to each other, by sharded pub/sub.
//!
//! Each bucket has a channel on its own node. The channel's name contains the number of the
//! database, because Redis publishes across databases. One connection per node subscribes. While a
//! publish is running, further hints are collected. A message is the id of the sender, followed by
//! `polled`, `settings`, `schedules`, or `ready <topic> <count> …`. After the count, `:<priority>`
//! is the highest priority if it is not the standard one. Messages are not persisted: servers of
//! two versions that do not understand each other fall back to polling.

mod subscriber;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use redis::Pipeline;
use tokio::sync::{Notify, mpsc};
use tokio_util::task::AbortOnDropHandle;

use self::subscriber::Subscriber;
use super::{
    keys::Keys,
    leases::Leases,
    topology::{Master, Nodes},
};
use crate::{
    job::{Bucket, Priority, Topic},
    store::{Hint, ReadyJobs, Subscription},
};

/// Maximum number of received hints that wait for the queue; further hints are dropped.
const MAX_RECEIVED: usize = 4096;
/// Maximum number of topics whose hints wait to be published; further hints are dropped.
const MAX_UNPUBLISHED: usize = 4096;
/// Time between two comparisons of the nodes and their buckets, and pause after a lost connection.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
const PUBLISH_TIMEOUT: Duration = Duration::from_secs(1);
/// Minimum time between two publishes, in which hints are collected.
const PUBLISH_INTERVAL: Duration = Duration::from_millis(1);

/// Publisher and receiver of hints. Both are idle until there is a subscriber. A program that only
/// exports or imports jobs is not a server and does not subscribe.
pub struct Hints {
    nodes: Arc<Nodes>,
    outbox: Arc<Outbox>,
    tasks: OnceLock<[AbortOnDropHandle<()>; 2]>,
}

/// Hints to be published.
struct Outbox {
    waiting: Mutex<Waiting>,
    wake: Notify,
    channels: Vec<(String, u16)>,
    /// Shows whether there is another server to publish to, and has the id of this server, with
    /// which messages begin.
    leases: Arc<Leases>,
}

#[derive(Default)]
struct Waiting {
    polled: BTreeSet<usize>,
    ready: BTreeMap<(usize, Topic), ReadyJobs>,
    settings: bool,
    schedules: bool,
}

impl Hints {
    pub fn new(nodes: &Arc<Nodes>, keys: &[Keys], leases: &Arc<Leases>) -> Self {
        let outbox = Arc::new(Outbox {
            waiting: Mutex::default(),
            wake: Notify::new(),
            channels: keys.iter().map(|keys| (keys.hints.clone(), keys.slot)).collect(),
            leases: Arc::clone(leases),
        });
        Self { nodes: Arc::clone(nodes), outbox, tasks: OnceLock::new() }
    }

    /// Subscribes; none if this process has subscribed already.
    pub fn subscribe(&self) -> Option<Subscription> {
        let (subscribers, heard) = mpsc::channel(MAX_RECEIVED);
        let start = || {
            let (nodes, outbox) = (&self.nodes, &self.outbox);
            let telling = tokio::spawn(publish_waiting(Arc::clone(nodes), Arc::clone(outbox)));
            let listening =
                tokio::spawn(listen(Arc::clone(nodes), Arc::clone(outbox), subscribers));
            [telling, listening].map(AbortOnDropHandle::new)
        };
        match self.tasks.get() {
            Some(_) => None,
            None => self.tasks.set(start()).ok().map(|()| heard),
        }
    }

    pub fn publish(&self, hint: Hint) {
        let is_change = matches!(hint, Hint::Settings | Hint::Schedules);
        if !is_change && self.outbox.leases.is_alone() {
            return;
        }
        let mut waiting = self.outbox.lock();
        match hint {
            Hint::Polled(bucket) => drop(waiting.polled.insert(bucket.index())),
            Hint::Settings => waiting.settings = true,
            Hint::Schedules => waiting.schedules = true,
            Hint::Ready { bucket, topic, jobs } => {
                if waiting.ready.len() >= MAX_UNPUBLISHED {
                    return;
                }
                let known = waiting.ready.entry((bucket.index(), topic)).or_default();
                *known = known.plus(jobs);
            }
        }
        drop(waiting);
        self.outbox.wake.notify_one();
    }
}

impl Outbox {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes all waiting hints, as messages with their buckets.
    fn messages(&self) -> Vec<(usize, String)> {
        let Waiting { polled, ready, settings, schedules } = std::mem::take(&mut *self.lock());
        let me = self.leases.id();
        let mut by_bucket: BTreeMap<usize, String> = BTreeMap::new();
        for ((bucket, topic), ReadyJobs { count, highest }) in ready {
            let text = by_bucket.entry(bucket).or_insert_with(|| format!("{me} ready"));
            text.push_str(&format!(" {topic} {count}"));
            if !highest.is_standard() {
                text.push_str(&format!(":{highest}"));
            }
        }
        let polled = polled.into_iter().map(|bucket| (bucket, format!("{me} polled")));
        let changed = [(settings, "settings"), (schedules, "schedules")].into_iter();
        let changed = changed.filter(|(has_changed, _)| *has_changed);
        let changed = changed.map(|(_, word)| (0, format!("{me} {word}")));
        polled.chain(by_bucket).chain(changed).collect()
    }

    /// Reads the hints in a message of another server.
    fn read(&self, channel: &str, text: &str, buckets: &HashMap<&str, Bucket>) -> Vec<Hint> {
        let Some(&bucket) = buckets.get(channel) else { return Vec::new() };
        let mut words = text.split(' ');
        if words.next() == Some(self.leases.id()) {
            return Vec::new();
        }
        self.leases.record_hint();
        match words.next() {
            Some("polled") => vec![Hint::Polled(bucket)],
            Some("settings") => vec![Hint::Settings],
            Some("schedules") => vec![Hint::Schedules],
            Some("ready") => {
                let mut hints = Vec::new();
                while let (Some(topic), Some(jobs)) = (words.next(), words.next()) {
                    if let (Ok(topic), Some(jobs)) = (topic.parse(), ready_jobs(jobs)) {
                        hints.push(Hint::Ready { bucket, topic, jobs });
                    }
                }
                hints
            }
            _ => Vec::new(),
        }
    }
}

/// Parses `<count>`, or `<count>:<highest priority>`.
fn ready_jobs(text: &str) -> Option<ReadyJobs> {
    let (count, highest) = match text.split_once(':') {
        Some((count, highest)) => (count, highest.parse().ok()?),
        None => (text, Priority::STANDARD),
    };
    Some(ReadyJobs { count: count.parse().ok()?, highest })
}

/// Publishes waiting hints, and never ends. Drops hints that it fails to publish.
async fn publish_waiting(nodes: Arc<Nodes>, outbox: Arc<Outbox>) {
    loop {
        outbox.wake.notified().await;
        let mut by_node: HashMap<String, (Arc<Master>, Pipeline)> = HashMap::new();
        for (bucket, message) in outbox.messages() {
            let (channel, slot) = &outbox.channels[bucket];
            let Ok(master) = nodes.of(*slot) else { continue };
            let entry = by_node.entry(master.node.name.clone());
            let (_, pipeline) = entry.or_insert_with(|| (master, Pipeline::new()));
            pipeline.cmd("SPUBLISH").arg(channel).arg(message);
        }
        let all = by_node.into_values().map(async |(master, pipeline)| {
            let publish = master.node.pipeline(&pipeline);
            drop(tokio::time::timeout(PUBLISH_TIMEOUT, publish).await);
        });
        futures::future::join_all(all).await;
        tokio::time::sleep(PUBLISH_INTERVAL).await;
    }
}

/// Keeps a subscriber at every node, for the buckets of that node.
async fn listen(nodes: Arc<Nodes>, outbox: Arc<Outbox>, heard: mpsc::Sender<Hint>) {
    let mut subscribers: HashMap<String, (Vec<usize>, AbortOnDropHandle<()>)> = HashMap::new();
    loop {
        let mut has: HashMap<String, (Arc<Master>, Vec<usize>)> = HashMap::new();
        for (bucket, (_, slot)) in outbox.channels.iter().enumerate() {
            if let Ok(master) = nodes.of(*slot) {
                let name = master.node.name.clone();
                has.entry(name).or_insert((master, Vec::new())).1.push(bucket);
            }
        }
        subscribers
            .retain(|name, (buckets, _)| has.get(name).is_some_and(|(_, now)| now == buckets));
        for (name, (master, buckets)) in has {
            subscribers.entry(name).or_insert_with(|| {
                let subscriber = Subscriber {
                    connector: master.connector.clone(),
                    outbox: Arc::clone(&outbox),
                    buckets: buckets.clone(),
                    heard: heard.clone(),
                };
                (buckets, AbortOnDropHandle::new(tokio::spawn(subscriber.run())))
            });
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
}
