//! Opening of a store: connects to its servers, checks them, agrees on the layout and incarnations.

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::join_all;

use super::{
    Nodes,
    cluster::Cluster,
    connector::{Connector, Endpoint},
    map::{self, Map},
    master::Master,
    sentinel::Sentinels,
};
use crate::{
    job::{Bucket, Buckets},
    store::{
        Layout, OpenError, Options,
        redis::{
            Host, Kind, RedisOptions,
            keys::{self, Keys},
            preflight::{
                Preflight, default_buckets,
                incarnation::{self, Incarnations},
            },
            transport::{CONNECT_TIMEOUT, Connected, Dialer},
        },
    },
};

/// Number of attempts to read a layout that another server is about to write, and the pause between
/// two attempts.
const LAYOUT_TRIES: usize = 20;
const LAYOUT_PAUSE: Duration = Duration::from_millis(100);
/// Pause before the second attempt to open an unavailable store, doubled up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Time between two log lines that say why the start is waiting.
const LOG_INTERVAL: Duration = Duration::from_secs(5);

pub struct Opened {
    pub nodes: Nodes,
    pub keys: Vec<Keys>,
    pub buckets: Buckets,
    pub incarnations: Incarnations,
    pub preflight: Preflight,
}

impl Nodes {
    /// Connects, checks every server, and records or compares the layout and the incarnations.
    ///
    /// A start continues without an unavailable node of a cluster, unless that node has the layout
    /// or the topic settings, or the store is new. It waits up to `connect_timeout` for a store
    /// that is unavailable or not ready, and fails at once if the store is unfit.
    pub async fn open(options: &RedisOptions, store: &Options) -> Result<Opened, OpenError> {
        let end = Instant::now() + options.connect_timeout;
        let (mut pause, mut logged) = (FIRST_PAUSE, None::<Instant>);
        let mut is_again = false;
        loop {
            let cause = match open_once(options, store).await {
                Err(cause @ OpenError::Unavailable { .. }) => cause,
                // Another server has just created the store with its own number of buckets, which
                // is used.
                Err(OpenError::Layout { .. }) if store.buckets.is_none() && !is_again => {
                    is_again = true;
                    continue;
                }
                opened => return opened,
            };
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(cause);
            }
            if logged.is_none_or(|at| at.elapsed() >= LOG_INTERVAL) {
                logged = Some(Instant::now());
                let seconds_left = left.as_secs();
                tracing::warn!(%cause, seconds_left, "waiting for the store (store.connect_timeout)");
            }
            tokio::time::sleep(pause.min(left)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

async fn open_once(options: &RedisOptions, store: &Options) -> Result<Opened, OpenError> {
    let (mut opening, unreachable) = Opening::connect(options, store.buckets).await?;
    let found = opening.find_layout(unreachable).await?;
    let is_new = found.is_none();
    let buckets = match &found {
        Some(found) => Layout::agree(found, store.buckets)?,
        None if !store.create => {
            let key = keys::layout(&options.prefix);
            let (_, (host, _)) = &opening.servers[0];
            return Err(OpenError::Missing { subject: format!("Redis at {host}: no key {key}") });
        }
        None => store.buckets.unwrap_or(default_buckets(&options.url.kind, opening.servers.len())),
    };
    let keys = Keys::all(&options.prefix, buckets, options.url.db);
    opening.preflight.will_use(&keys);
    let map = opening.map().await?;
    if is_new && map.as_ref().is_some_and(|map| !map.has_all(&keys)) {
        return Err(OpenError::Unavailable {
            subject: "the cluster".to_owned(),
            cause: "it has slots without a master: a new store wants all of them".to_owned(),
        });
    }
    // Every node is checked before the first write.
    opening.probe(&keys, map.as_ref()).await?;
    if is_new {
        opening.make_incarnations(&keys, map.as_ref()).await?;
    }
    let incarnations = Incarnations::new(buckets);
    opening.read_incarnations(&keys, map.as_ref(), (&incarnations, buckets)).await?;
    // Comes last, since a layout means that everything else has been written.
    let (_, (host, connection)) = &mut opening.servers[0];
    opening.preflight.agree(host, connection, buckets).await?;
    let preflight = opening.preflight.clone();
    let nodes = opening.start(&keys, map);
    // Calls fail until their node is connected. So this waits briefly for the nodes that are
    // available.
    let all = nodes.all();
    let up = join_all(all.iter().map(|master| master.node.up()));
    drop(tokio::time::timeout(CONNECT_TIMEOUT, up).await);
    Ok(Opened { nodes, keys, buckets, incarnations, preflight })
}

/// Attempt to open a store.
struct Opening<'a> {
    options: &'a RedisOptions,
    /// Number of buckets in the settings.
    asked: Option<Buckets>,
    preflight: Preflight,
    dialer: Dialer,
    /// Connected servers; first the one that has the layout.
    servers: Vec<(Connector, Connected)>,
}

impl<'a> Opening<'a> {
    /// Connects to every server that answers, at least to the one with the layout. Also returns the
    /// error of another server that does not answer.
    async fn connect(
        options: &'a RedisOptions,
        asked: Option<Buckets>,
    ) -> Result<(Self, Option<OpenError>), OpenError> {
        let preflight = Preflight::new(options);
        let dialer = Dialer::to_redis(options)?;
        let mut opening = Self { options, asked, preflight, dialer, servers: Vec::new() };
        let mut unreachable = None;
        for connector in opening.connectors().await? {
            match connector.connect().await {
                Ok(connected) => opening.servers.push((connector, connected)),
                Err(error) if !may_start_without(&error) || opening.servers.is_empty() => {
                    return Err(error);
                }
                Err(error) => {
                    tracing::warn!(%error, "began without a node of the cluster");
                    unreachable = Some(error);
                }
            }
        }
        Ok((opening, unreachable))
    }

    /// Returns the connectors of all masters, first the one that has the layout.
    async fn connectors(&self) -> Result<Vec<Connector>, OpenError> {
        let url = &self.options.url;
        let connector = |endpoint| Connector {
            endpoint,
            dialer: self.dialer.clone(),
            preflight: self.preflight.clone(),
        };
        Ok(match &url.kind {
            Kind::Single => vec![connector(Endpoint::At(url.hosts[0].clone()))],
            Kind::Sentinel { master } => {
                let dialer = Dialer::to_sentinels(self.options)?;
                let sentinels = Sentinels::new(dialer, url.hosts.clone(), master.clone());
                vec![connector(Endpoint::Sentinels(sentinels))]
            }
            Kind::Cluster => {
                let map = map::ask(&self.dialer, &self.preflight, &url.hosts).await?;
                let first = map.master(keys::slot(&keys::layout(&self.options.prefix))).cloned();
                let mut masters = map.masters();
                masters.sort_by_key(|host| Some(host) != first.as_ref());
                masters.into_iter().map(|host| connector(Endpoint::At(host))).collect()
            }
        })
    }

    /// Reads the map of a cluster; returns `None` without a cluster.
    async fn map(&self) -> Result<Option<Map>, OpenError> {
        let url = &self.options.url;
        match url.kind {
            Kind::Cluster => map::ask(&self.dialer, &self.preflight, &url.hosts).await.map(Some),
            Kind::Single | Kind::Sentinel { .. } => Ok(None),
        }
    }

    /// Reads the layout of the store; returns `None` if the store is new. It counts as new only if
    /// every server answers.
    async fn find_layout(
        &mut self,
        unreachable: Option<OpenError>,
    ) -> Result<Option<String>, OpenError> {
        let (_, (host, connection)) = &mut self.servers[0];
        match (self.preflight.layout(host, connection).await?, unreachable) {
            (Some(found), _) => Ok(Some(found)),
            (None, Some(error)) => Err(error),
            (None, None) => self.await_layout().await,
        }
    }

    /// Waits for a layout if there are buckets, because another server may be creating the store.
    /// If no layout appears, it is lost.
    async fn await_layout(&mut self) -> Result<Option<String>, OpenError> {
        for _ in 0..LAYOUT_TRIES {
            let is_new = self.found_incarnations(1).await?.is_empty();
            let (_, (host, connection)) = &mut self.servers[0];
            let found = self.preflight.layout(host, connection).await?;
            if is_new || found.is_some() {
                return Ok(found);
            }
            tokio::time::sleep(LAYOUT_PAUSE).await;
        }
        self.lost_layout().await.map(Some)
    }

    /// Recreates the lost layout from the number of buckets in the settings. Fails unless the loss
    /// of jobs is accepted and every existing bucket belongs to a store with this number.
    async fn lost_layout(&mut self) -> Result<String, OpenError> {
        let (options, key) = (self.options, keys::layout(&self.options.prefix));
        let lost = format!("there are buckets of a store, and its layout ({key}) is lost");
        let Some(buckets) = self.asked.filter(|_| options.accept_data_loss) else {
            return Err(OpenError::Unfit(format!(
                "{lost}: set store.buckets to the number it had and run delay-queue doctor \
                 --accept-loss; or use another store.prefix"
            )));
        };
        let all: HashSet<String> = Keys::all(&options.prefix, buckets, options.url.db)
            .into_iter()
            .map(|keys| keys.incarnation)
            .collect();
        let found = self.found_incarnations(usize::MAX).await?;
        match found.into_iter().find(|key| !all.contains(key)) {
            Some(key) => Err(OpenError::Unfit(format!(
                "{lost}: store.buckets is {}, but a store with that number has no {key}: set \
                 store.buckets to the number it had",
                buckets.get()
            ))),
            None => Ok(Layout::new(buckets).text()),
        }
    }

    /// Finds about `most` incarnations on each server, for any number of buckets.
    async fn found_incarnations(&mut self, most: usize) -> Result<Vec<String>, OpenError> {
        let mut all = Vec::new();
        for (_, (host, connection)) in &mut self.servers {
            all.extend(self.preflight.found_incarnations(host, connection, most).await?);
        }
        Ok(all)
    }

    async fn probe(&mut self, keys: &[Keys], map: Option<&Map>) -> Result<(), OpenError> {
        for (_, (host, connection)) in &mut self.servers {
            let own = keys.iter().find(|keys| has(map, host, keys)).unwrap_or(&keys[0]);
            self.preflight.probe(host, connection, &own.incarnation).await?;
        }
        Ok(())
    }

    async fn make_incarnations(
        &mut self,
        keys: &[Keys],
        map: Option<&Map>,
    ) -> Result<(), OpenError> {
        let made = incarnation::new();
        for (_, (host, connection)) in &mut self.servers {
            let own = keys.iter().filter(|keys| has(map, host, keys));
            let names: Vec<&str> = own.map(|keys| keys.incarnation.as_str()).collect();
            self.preflight.make_incarnations(host, connection, &names, &made).await?;
        }
        Ok(())
    }

    /// Records the incarnation of every bucket. A bucket without one has lost its jobs.
    async fn read_incarnations(
        &mut self,
        keys: &[Keys],
        map: Option<&Map>,
        (incarnations, buckets): (&Incarnations, Buckets),
    ) -> Result<(), OpenError> {
        for (_, (host, connection)) in &mut self.servers {
            let own = buckets.all().zip(keys).filter(|(_, keys)| has(map, host, keys));
            let own: Vec<(Bucket, &Keys)> = own.collect();
            let names: Vec<&str> = own.iter().map(|(_, keys)| keys.incarnation.as_str()).collect();
            let found = self.preflight.incarnations(host, connection, &names).await?;
            for ((bucket, _), found) in own.into_iter().zip(found) {
                if !incarnations.is_known(bucket, found.as_deref(), Instant::now()) {
                    incarnations.judge(bucket, None, None, Instant::now());
                }
            }
        }
        Ok(())
    }

    fn start(mut self, keys: &[Keys], map: Option<Map>) -> Nodes {
        let by = self.preflight.chosen();
        match map {
            Some(map) => {
                let others = keys::outside_buckets(&self.options.prefix);
                let others = others.map(|key| keys::slot(&key)).collect();
                let slots = (keys.iter().map(|keys| keys.slot).collect(), others);
                let seeds = self.options.url.hosts.clone();
                Nodes::Many(Cluster::start(self.dialer, self.preflight, by, seeds, slots, map))
            }
            None => {
                let (connector, connected) = self.servers.swap_remove(0);
                let name = match &self.options.url.kind {
                    Kind::Sentinel { master } => master.clone(),
                    Kind::Single | Kind::Cluster => connected.0.to_string(),
                };
                Nodes::One(Arc::new(Master::start(name, connector, Some(connected), by)))
            }
        }
    }
}

/// Returns whether the server has this bucket.
fn has(map: Option<&Map>, host: &Host, keys: &Keys) -> bool {
    map.is_none_or(|map| map.master(keys.slot) == Some(host))
}

/// Returns whether a node of a cluster is only unavailable, and not unfit.
fn may_start_without(error: &OpenError) -> bool {
    matches!(error, OpenError::Unavailable { .. } | OpenError::Engine { .. })
}
