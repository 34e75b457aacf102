//! Hints that servers on one Redis publish to each other, by sharded pub/sub.
//!
//! Each bucket has a channel on its own node. The channel's name contains the number of the
//! database, since Redis publishes across databases. One connection per node subscribes. Hints
//! gather while the last publish is under way. A message is the id of the sender, then one of:
//! `polled`, `settings`, `ready <topic> <count> …`. Messages are not persisted: servers of two
//! versions that do not understand each other fall back to polling.

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
    job::{Bucket, Topic},
    store::{Hint, Subscription},
};

/// Received hints that may wait for the queue; more are dropped.
const MAX_RECEIVED: usize = 4096;
/// Topics whose hints may wait to be published; more are dropped.
const MAX_UNPUBLISHED: usize = 4096;
/// Time between two comparisons of nodes and their buckets, and pause after a lost connection.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
const PUBLISH_TIMEOUT: Duration = Duration::from_secs(1);
/// Minimum time between two publishes, in which hints gather.
const PUBLISH_INTERVAL: Duration = Duration::from_millis(1);

/// Publisher and receiver of hints. Both are idle until a subscriber starts: a program that only
/// moves jobs is no server.
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
    /// Leases tell whether there is another server to publish to. Messages begin with this server's
    /// id.
    leases: Arc<Leases>,
}

#[derive(Default)]
struct Waiting {
    polled: BTreeSet<usize>,
    ready: BTreeMap<(usize, Topic), u64>,
    settings: bool,
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
        if hint != Hint::Settings && self.outbox.leases.is_alone() {
            return;
        }
        let mut waiting = self.outbox.lock();
        match hint {
            Hint::Polled(bucket) => drop(waiting.polled.insert(bucket.index())),
            Hint::Settings => waiting.settings = true,
            Hint::Ready { bucket, topic, count } => {
                if waiting.ready.len() >= MAX_UNPUBLISHED {
                    return;
                }
                *waiting.ready.entry((bucket.index(), topic)).or_default() += count;
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
        let Waiting { polled, ready, settings } = std::mem::take(&mut *self.lock());
        let me = self.leases.id();
        let mut by_bucket: BTreeMap<usize, String> = BTreeMap::new();
        for ((bucket, topic), count) in ready {
            let text = by_bucket.entry(bucket).or_insert_with(|| format!("{me} ready"));
            text.push_str(&format!(" {topic} {count}"));
        }
        let polled = polled.into_iter().map(|bucket| (bucket, format!("{me} polled")));
        let settings = settings.then(|| (0, format!("{me} settings")));
        polled.chain(by_bucket).chain(settings).collect()
    }

    /// Reads the hints in a message of another server.
    fn read(&self, channel: &str, text: &str, buckets: &HashMap<&str, Bucket>) -> Vec<Hint> {
        let Some(&bucket) = buckets.get(channel) else { return Vec::new() };
        let mut words = text.split(' ');
        if words.next() == Some(self.leases.id()) {
            return Vec::new();
        }
        self.leases.heard_another();
        match words.next() {
            Some("polled") => vec![Hint::Polled(bucket)],
            Some("settings") => vec![Hint::Settings],
            Some("ready") => {
                let mut hints = Vec::new();
                while let (Some(topic), Some(count)) = (words.next(), words.next()) {
                    if let (Ok(topic), Ok(count)) = (topic.parse(), count.parse()) {
                        hints.push(Hint::Ready { bucket, topic, count });
                    }
                }
                hints
            }
            _ => Vec::new(),
        }
    }
}

/// Publishes waiting hints for ever. Drops hints that it fails to publish.
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
