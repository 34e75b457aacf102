//! Masters of a cluster that have slots of the store.
//!
//! The map is read once a second, and at once when a node fails or redirects a call to another
//! node. A node in state "fail" may be cut off from the others, so its map is ignored. If maps
//! differ, the one with the latest epoch is used.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use futures::future::join_all;
use redis::{Pipeline, Value};
use tokio::{
    sync::{Notify, watch},
    time::timeout,
};
use tokio_util::task::AbortOnDropHandle;

use super::{
    connector::{Connector, Endpoint},
    distinct,
    map::{Map, judge, question, questions},
    master::Master,
};
use crate::store::{
    StoreError,
    redis::{
        Host,
        preflight::Preflight,
        transport::{Confirmation, Dialer, Failure, error::Remedy},
    },
};

/// Longest time between two reads of the map.
const MAP_INTERVAL: Duration = Duration::from_secs(1);
/// Shortest time between two reads of the map.
const MIN_MAP_INTERVAL: Duration = Duration::from_millis(50);
/// Time within which a node must return the map.
const MAP_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum time for which a call waits for a new map after a node has redirected it.
const REDIRECT_WAIT: Duration = Duration::from_millis(500);

/// Cluster whose map a background task keeps up to date.
pub struct Cluster {
    shared: Arc<Shared>,
    _task: AbortOnDropHandle<()>,
}

struct Shared {
    dialer: Dialer,
    preflight: Preflight,
    by: Option<Confirmation>,
    seeds: Vec<Host>,
    /// Slots of the buckets.
    buckets: BTreeSet<u16>,
    /// Slots of the store's other keys.
    others: Vec<u16>,
    table: RwLock<Arc<Table>>,
    refresh: Notify,
    /// Number of reads of the map.
    reads: watch::Sender<u64>,
}

/// Map and the connections to its masters.
#[derive(Default)]
struct Table {
    map: Map,
    masters: Vec<(Host, Arc<Master>)>,
    /// For each slot of a bucket, the first bucket slot with the same master.
    representatives: BTreeMap<u16, u16>,
}

impl Table {
    fn of(&self, slot: u16) -> Option<Arc<Master>> {
        self.at(self.map.master(slot)?)
    }

    fn at(&self, host: &Host) -> Option<Arc<Master>> {
        self.masters.iter().find(|(at, _)| at == host).map(|(_, master)| Arc::clone(master))
    }
}

impl Cluster {
    /// Starts with `map`; connects to the masters of the store's slots.
    pub fn start(
        dialer: Dialer,
        preflight: Preflight,
        by: Option<Confirmation>,
        seeds: Vec<Host>,
        (buckets, others): (BTreeSet<u16>, Vec<u16>),
        map: Map,
    ) -> Self {
        let shared = Arc::new(Shared {
            dialer,
            preflight,
            by,
            seeds,
            buckets,
            others,
            table: RwLock::default(),
            refresh: Notify::new(),
            reads: watch::Sender::new(0),
        });
        shared.replace_map(map);
        let task = tokio::spawn(Arc::clone(&shared).run());
        Self { shared, _task: AbortOnDropHandle::new(task) }
    }

    /// Returns the master of a slot.
    pub fn of(&self, slot: u16) -> Result<Arc<Master>, Failure> {
        self.shared.table().of(slot).ok_or_else(|| Failure {
            remedy: Remedy::FindMaster,
            error: StoreError::unavailable(format!("no node of the cluster has slot {slot}")),
        })
    }

    /// Returns the first bucket slot with the same master. All slots without a master share the
    /// first bucket slot without one.
    pub fn representative(&self, slot: u16) -> u16 {
        self.shared.table().representatives.get(&slot).copied().unwrap_or(slot)
    }

    pub fn masters(&self) -> Vec<Arc<Master>> {
        self.shared.table().masters.iter().map(|(_, master)| Arc::clone(master)).collect()
    }

    /// Requests a read of the map, without waiting.
    pub fn refresh_soon(&self) {
        self.shared.refresh.notify_one();
    }

    /// Requests a read of the map and waits for it.
    pub async fn refresh(&self) {
        let mut reads = self.shared.reads.subscribe();
        reads.mark_unchanged();
        self.refresh_soon();
        drop(timeout(REDIRECT_WAIT, reads.changed()).await);
    }
}

impl Shared {
    fn table(&self) -> Arc<Table> {
        Arc::clone(&self.table.read().unwrap_or_else(PoisonError::into_inner))
    }

    async fn run(self: Arc<Self>) {
        loop {
            if let Some(map) = self.ask_anyone().await {
                self.replace_map(map);
            }
            self.reads.send_modify(|reads| *reads += 1);
            tokio::time::sleep(MIN_MAP_INTERVAL).await;
            tokio::select! {
                () = self.refresh.notified() => {}
                () = tokio::time::sleep(MAP_INTERVAL) => {}
            }
        }
    }

    /// Reads the map of the latest epoch from nodes that are not cut off: from connected nodes, or
    /// if none of them has a map, from any node that answers.
    async fn ask_anyone(&self) -> Option<Map> {
        let table = self.table();
        let asked =
            table.masters.iter().filter(|(_, m)| m.node.is_up()).map(async |(host, master)| {
                let mut pipeline = Pipeline::new();
                for question in questions() {
                    pipeline.add_command(question);
                }
                let answers =
                    timeout(MAP_TIMEOUT, master.node.pipeline(&pipeline)).await.ok()?.ok()?;
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

    /// Takes over a new map. Masters that remain keep their connections. Masters without a slot of
    /// the store are dropped after their last call.
    fn replace_map(&self, map: Map) {
        let old = self.table();
        if old.map == map {
            return;
        }
        let slots = self.buckets.iter().chain(&self.others);
        let hosts = distinct(slots.filter_map(|&slot| map.master(slot).cloned()));
        let masters = hosts.into_iter().map(|host| {
            let master = old.at(&host).unwrap_or_else(|| Arc::new(self.start(host.clone())));
            (host, master)
        });
        let mut first = HashMap::new();
        let representative = |&slot: &u16| (slot, *first.entry(map.master(slot)).or_insert(slot));
        let representatives = self.buckets.iter().map(representative).collect();
        let table = Arc::new(Table { masters: masters.collect(), representatives, map });
        if !old.masters.is_empty() {
            let names: Vec<&str> =
                table.masters.iter().map(|(_, master)| master.node.name.as_str()).collect();
            tracing::info!(masters = names.join(" "), "the cluster's slots have moved");
        }
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = table;
    }

    fn start(&self, host: Host) -> Master {
        let name = host.to_string();
        let connector = Connector {
            endpoint: Endpoint::At(host),
            dialer: self.dialer.clone(),
            preflight: self.preflight.clone(),
        };
        Master::start(name, connector, None, self.by)
    }
}
