//! Which node of a cluster has which slots, and the nodes that have ours.
//!
//! The map is asked for once a second, and at once when a node says that a slot is elsewhere or
//! has gone. A node whose own view is "fail" (it may be cut off from the others) is not believed,
//! and of different views the one with the latest epoch counts.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use futures::future::join_all;
use redis::{Cmd, Pipeline, RedisError, Value};
use tokio::{
    sync::{Notify, watch},
    time::timeout,
};
use tokio_util::task::AbortOnDropHandle;

use super::{
    confirm::Confirmation,
    connection::Failure,
    dial::Dialer,
    node::{Connector, Endpoint, Node},
    preflight::{Preflight, distinct},
    requirements,
};
use crate::store::{
    OpenError, StoreError,
    redis::{Host, keys::Keys},
};

/// The longest time between two looks at the map.
const MAP_INTERVAL: Duration = Duration::from_secs(1);
/// The shortest.
const MIN_MAP_INTERVAL: Duration = Duration::from_millis(50);
/// How long a node may take to tell the map.
const MAP_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a call waits for the map when a node has sent it elsewhere.
const HOP: Duration = Duration::from_millis(500);

/// Who is the master of which slots.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Map {
    /// First and last slot, and their master; in order.
    ranges: Vec<(u16, u16, Host)>,
}

impl Map {
    pub fn master(&self, slot: u16) -> Option<&Host> {
        let index = self.ranges.partition_point(|&(_, last, _)| last < slot);
        self.ranges.get(index).filter(|&&(first, ..)| first <= slot).map(|(.., host)| host)
    }

    /// Whether every bucket has a master.
    pub fn has_all(&self, keys: &[Keys]) -> bool {
        keys.iter().all(|keys| self.master(keys.slot).is_some())
    }

    /// Every master once.
    pub fn masters(&self) -> Vec<Host> {
        distinct(self.ranges.iter().map(|(.., host)| host.clone()))
    }

    /// From the answer to `CLUSTER SLOTS`. A node that does not know its own address leaves it
    /// empty: then it is the one that was asked.
    fn read(answer: &Value, asked: &Host) -> Option<Self> {
        let Value::Array(entries) = answer else { return None };
        let mut ranges = Vec::with_capacity(entries.len());
        for entry in entries {
            let Value::Array(parts) = entry else { return None };
            let [Value::Int(first), Value::Int(last), Value::Array(master), ..] = &parts[..] else {
                return None;
            };
            let [name, Value::Int(port), ..] = &master[..] else { return None };
            let name = match name {
                Value::BulkString(name) if !name.is_empty() => {
                    String::from_utf8(name.clone()).ok()?
                }
                _ => asked.name.clone(),
            };
            let host = Host { name, port: u16::try_from(*port).ok()? };
            ranges.push((u16::try_from(*first).ok()?, u16::try_from(*last).ok()?, host));
        }
        ranges.sort_by_key(|&(first, ..)| first);
        Some(Self { ranges })
    }
}

fn questions() -> [Cmd; 2] {
    let question = |name| {
        let mut cmd = redis::cmd("CLUSTER");
        cmd.arg(name);
        cmd
    };
    [question("INFO"), question("SLOTS")]
}

/// What a node answers that there is no connection to.
async fn question(dialer: &Dialer, host: &Host) -> Result<(Value, Value), RedisError> {
    let mut connection = dialer.dial(host).await?;
    let [info, slots] = questions();
    Ok((info.query_async(&mut connection).await?, slots.query_async(&mut connection).await?))
}

/// The epoch of a node's configuration and its map, by its answers; none if it is cut off from the
/// others.
fn judge(info: Value, slots: &Value, host: &Host) -> Option<(u64, Map)> {
    let info: String = redis::from_redis_value(info).ok()?;
    let fields = requirements::fields(&info);
    if fields.get("cluster_state") != Some(&"ok") {
        return None;
    }
    let epoch = fields.get("cluster_current_epoch").and_then(|epoch| epoch.parse().ok());
    Some((epoch.unwrap_or_default(), Map::read(slots, host)?))
}

/// The latest map that these nodes know; of one that is cut off only if there is no other.
pub async fn ask(dialer: &Dialer, preflight: &Preflight, seeds: &[Host]) -> Result<Map, OpenError> {
    let asked = seeds.iter().map(async |seed| {
        let unable = |cause: RedisError| match cause.to_string() {
            text if text.contains("cluster support disabled") => OpenError::Unfit(format!(
                "{seed}: it is no node of a cluster: begin store.url with redis:// \
                 (or redis+sentinel://)"
            )),
            _ => preflight.engine(seed, &cause),
        };
        let (info, slots) = question(dialer, seed).await.map_err(unable)?;
        let map = Map::read(&slots, seed).filter(|map| !map.ranges.is_empty());
        let known = judge(info, &slots, seed).map(|(epoch, _)| epoch);
        map.map(|map| (known, map)).ok_or_else(|| OpenError::Away {
            what: format!("the cluster by {seed}"),
            cause: "it knows of no master".to_owned(),
        })
    });
    let (mut latest, mut causes, mut may_pass) = (None, Vec::new(), false);
    for answer in join_all(asked).await {
        match answer {
            Ok((epoch, map)) => {
                if latest.as_ref().is_none_or(|(known, _)| epoch > *known) {
                    latest = Some((epoch, map));
                }
            }
            Err(error @ OpenError::Unfit(_)) => return Err(error),
            Err(error) => {
                may_pass |= matches!(error, OpenError::Away { .. });
                causes.push(error.to_string());
            }
        }
    }
    latest.map(|(_, map)| map).ok_or_else(|| {
        let (what, cause) = ("the cluster".to_owned(), causes.join("; "));
        if may_pass { OpenError::Away { what, cause } } else { OpenError::Engine { what, cause } }
    })
}

/// The cluster as calls see it.
pub struct Cluster {
    shared: Arc<Shared>,
    _task: AbortOnDropHandle<()>,
}

struct Shared {
    dialer: Dialer,
    preflight: Preflight,
    by: Option<Confirmation>,
    seeds: Vec<Host>,
    /// The slots of the buckets and of the topic settings.
    buckets: BTreeSet<u16>,
    topics: u16,
    table: RwLock<Arc<Table>>,
    look: Notify,
    /// Counts the looks.
    polled: watch::Sender<u64>,
}

/// A map with connections.
#[derive(Default)]
struct Table {
    map: Map,
    nodes: Vec<(Host, Arc<Node>)>,
    /// By slot of a bucket: the first one with the same master.
    representatives: BTreeMap<u16, u16>,
}

impl Table {
    fn of(&self, slot: u16) -> Option<Arc<Node>> {
        self.node(self.map.master(slot)?)
    }

    fn node(&self, host: &Host) -> Option<Arc<Node>> {
        self.nodes.iter().find(|(at, _)| at == host).map(|(_, node)| Arc::clone(node))
    }
}

impl Cluster {
    /// Begins with `map`; connects to the masters of our slots.
    pub fn start(
        dialer: Dialer,
        preflight: Preflight,
        by: Option<Confirmation>,
        seeds: Vec<Host>,
        (buckets, topics): (BTreeSet<u16>, u16),
        map: Map,
    ) -> Self {
        let shared = Arc::new(Shared {
            dialer,
            preflight,
            by,
            seeds,
            buckets,
            topics,
            table: RwLock::default(),
            look: Notify::new(),
            polled: watch::Sender::new(0),
        });
        shared.take_up(map);
        let task = tokio::spawn(Arc::clone(&shared).run());
        Self { shared, _task: AbortOnDropHandle::new(task) }
    }

    /// The node of a slot.
    pub fn of(&self, slot: u16) -> Result<Arc<Node>, Failure> {
        self.shared.table().of(slot).ok_or_else(|| Failure {
            remedy: super::error::Remedy::FindMaster,
            error: StoreError::away(format!("no node of the cluster has slot {slot}")),
        })
    }

    /// The first slot of a bucket that has the same master; those that have none are together too.
    pub fn representative(&self, slot: u16) -> u16 {
        self.shared.table().representatives.get(&slot).copied().unwrap_or(slot)
    }

    pub fn nodes(&self) -> Vec<Arc<Node>> {
        self.shared.table().nodes.iter().map(|(_, node)| Arc::clone(node)).collect()
    }

    /// Has the map looked at soon.
    pub fn peek(&self) {
        self.shared.look.notify_one();
    }

    /// The same, and waits for it.
    pub async fn look_now(&self) {
        let mut polled = self.shared.polled.subscribe();
        polled.mark_unchanged();
        self.peek();
        drop(timeout(HOP, polled.changed()).await);
    }
}

impl Shared {
    fn table(&self) -> Arc<Table> {
        Arc::clone(&self.table.read().unwrap_or_else(PoisonError::into_inner))
    }

    async fn run(self: Arc<Self>) {
        loop {
            if let Some(map) = self.ask_anyone().await {
                self.take_up(map);
            }
            self.polled.send_modify(|looks| *looks += 1);
            tokio::time::sleep(MIN_MAP_INTERVAL).await;
            tokio::select! {
                () = self.look.notified() => {}
                () = tokio::time::sleep(MAP_INTERVAL) => {}
            }
        }
    }

    /// The map of the latest configuration that a node knows which is not cut off: of those that
    /// are connected, else of any that answers.
    async fn ask_anyone(&self) -> Option<Map> {
        let table = self.table();
        let asked =
            table.nodes.iter().filter(|(_, node)| node.is_up()).map(async |(host, node)| {
                let mut pipeline = Pipeline::new();
                for question in questions() {
                    pipeline.add_command(question);
                }
                let answers = timeout(MAP_TIMEOUT, node.pipeline(&pipeline)).await.ok()?.ok()?;
                let [info, slots]: [Result<Value, Failure>; 2] = answers.try_into().ok()?;
                judge(info.ok()?, &slots.ok()?, host)
            });
        let known = join_all(asked).await.into_iter().flatten();
        if let Some((_, map)) = known.max_by_key(|(epoch, _)| *epoch) {
            return Some(map);
        }
        let hosts = distinct(table.map.masters().into_iter().chain(self.seeds.iter().cloned()));
        let asked = hosts.iter().map(async |host| {
            let (info, slots) =
                timeout(MAP_TIMEOUT, question(&self.dialer, host)).await.ok()?.ok()?;
            judge(info, &slots, host)
        });
        let known = join_all(asked).await.into_iter().flatten();
        known.max_by_key(|(epoch, _)| *epoch).map(|(_, map)| map)
    }

    /// Keeps the nodes that stay, with their connections; those that have none of our slots any
    /// more are let go once their last call has ended.
    fn take_up(&self, map: Map) {
        let old = self.table();
        if old.map == map {
            return;
        }
        let slots = self.buckets.iter().chain([&self.topics]);
        let masters = distinct(slots.filter_map(|&slot| map.master(slot).cloned()));
        let nodes = masters.into_iter().map(|host| {
            let node = old.node(&host).unwrap_or_else(|| Arc::new(self.node(host.clone())));
            (host, node)
        });
        let mut first = HashMap::new();
        let representative = |&slot: &u16| (slot, *first.entry(map.master(slot)).or_insert(slot));
        let representatives = self.buckets.iter().map(representative).collect();
        let table = Arc::new(Table { nodes: nodes.collect(), representatives, map });
        if !old.nodes.is_empty() {
            let masters: Vec<&str> =
                table.nodes.iter().map(|(_, node)| node.name.as_str()).collect();
            tracing::info!(masters = masters.join(" "), "the cluster's slots have moved");
        }
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = table;
    }

    fn node(&self, host: Host) -> Node {
        let name = host.to_string();
        let connector = Connector {
            endpoint: Endpoint::At(host),
            dialer: self.dialer.clone(),
            preflight: self.preflight.clone(),
        };
        Node::new(name, connector, None, self.by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn entry(first: i64, last: i64, name: Value, port: i64) -> Value {
        let master = Value::Array(vec![name, Value::Int(port), text("id"), Value::Array(vec![])]);
        Value::Array(vec![Value::Int(first), Value::Int(last), master])
    }

    #[test]
    fn the_map_names_the_master_of_every_slot_and_none_where_there_is_none() {
        let asked = Host { name: "asked".to_owned(), port: 1 };
        let answer =
            Value::Array(vec![entry(200, 16_383, text("b"), 7001), entry(0, 99, Value::Nil, 7000)]);
        let map = Map::read(&answer, &asked).expect("a map");
        let named = |slot| map.master(slot).map(Host::to_string);
        assert_eq!(named(0).as_deref(), Some("asked:7000"));
        assert_eq!(named(99).as_deref(), Some("asked:7000"));
        assert_eq!(named(100), None);
        assert_eq!(named(199), None);
        assert_eq!(named(200).as_deref(), Some("b:7001"));
        assert_eq!(named(16_383).as_deref(), Some("b:7001"));
        assert_eq!(Map::read(&Value::Int(1), &asked), None);
        assert_eq!(Map::read(&Value::Array(vec![Value::Int(1)]), &asked), None);
    }
}
