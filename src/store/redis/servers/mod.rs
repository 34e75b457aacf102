//! The servers of a store, one or many, and the way of a call to the one that has its keys.

pub mod cluster;
mod confirm;
mod connection;
pub mod dial;
pub mod error;
mod layout;
pub mod node;
pub mod preflight;
pub mod requirements;
pub mod sentinel;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use redis::{Cmd, Pipeline, Value, aio::MultiplexedConnection};

use self::{
    cluster::Cluster,
    confirm::Write,
    connection::Failure,
    dial::Dialer,
    error::Remedy,
    node::{Connector, Endpoint, Node},
    preflight::Preflight,
    sentinel::Sentinels,
};
use super::{
    Host, Kind, RedisOptions,
    incarnation::Incarnations,
    keys::{self, Keys},
};
use crate::{
    job::Buckets,
    store::{Layout, OpenError, StoreError},
};

/// How many buckets a new store gets: enough that the fullest of so many masters has little more
/// than its share, and no more, since every timer costs (see ARCHITECTURE.md).
pub fn default_buckets(masters: usize) -> Buckets {
    match masters {
        0..=3 => Buckets::SIXTEEN,
        4..=12 => Buckets::SIXTY_FOUR,
        _ => Buckets::TWO_HUNDRED_FIFTY_SIX,
    }
}

/// How often, and how long apart, a layout that must come is looked for.
const LAYOUT_TRIES: usize = 20;
const LAYOUT_PAUSE: Duration = Duration::from_millis(100);
/// The pause before the second attempt to open a store that is away, doubled up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How often the log says what is waited for.
const TELL_EVERY: Duration = Duration::from_secs(5);
/// How often a call follows its slot from node to node.
const MOST_HOPS: usize = 3;

pub enum Nodes {
    One(Arc<Node>),
    Many(Cluster),
}

/// A store, opened.
pub struct Opened {
    pub nodes: Nodes,
    pub keys: Vec<Keys>,
    pub buckets: Buckets,
    pub incarnations: Incarnations,
    pub preflight: Preflight,
}

/// A connected server.
type Up = (Connector, Host, MultiplexedConnection);

/// Where there is no layout: whether there are buckets all the same. Then another server is making
/// the store, and its layout comes in a moment; or it is lost.
async fn await_layout(
    preflight: &Preflight,
    up: &mut [Up],
    prefix: &str,
) -> Result<Option<String>, OpenError> {
    for _ in 0..LAYOUT_TRIES {
        let mut is_new = true;
        for (_, host, connection) in up.iter_mut() {
            is_new &= preflight.has_no_store(host, connection).await?;
        }
        let (_, host, connection) = &mut up[0];
        let found = preflight.layout(host, connection).await?;
        if is_new || found.is_some() {
            return Ok(found);
        }
        tokio::time::sleep(LAYOUT_PAUSE).await;
    }
    let key = keys::layout(prefix);
    Err(OpenError::Unfit(format!(
        "there are buckets of a store, and its layout ({key}) is lost: set it again, as in SET {key} \
         \"schema=2 hash=xxh3-64 buckets=16\" with the number of buckets it had; or, if it never had a \
         job, delete the keys that end in :incarnation; or use another store.prefix"
    )))
}

/// The way to every master, the one that has the layout first.
async fn ways(options: &RedisOptions, preflight: &Preflight) -> Result<Vec<Connector>, OpenError> {
    let dialer = Dialer::to_redis(options)?;
    let url = &options.url;
    let connector =
        |endpoint| Connector { endpoint, dialer: dialer.clone(), preflight: preflight.clone() };
    Ok(match &url.kind {
        Kind::Single => vec![connector(Endpoint::At(url.hosts[0].clone()))],
        Kind::Sentinel { master } => {
            let own = Dialer::to_sentinels(options)?;
            let sentinels = Sentinels::new(own, url.hosts.clone(), master.clone());
            vec![connector(Endpoint::Sentinels(sentinels))]
        }
        Kind::Cluster => {
            let map = cluster::ask(&dialer, preflight, &url.hosts).await?;
            let first = map.master(keys::slot(&keys::layout(&options.prefix))).cloned();
            let mut masters = map.masters();
            masters.sort_by_key(|host| Some(host) != first.as_ref());
            masters.into_iter().map(|host| connector(Endpoint::At(host))).collect()
        }
    })
}

/// Connects to all that are there, the first of them above all; and why another is not.
async fn connect(ways: Vec<Connector>) -> Result<(Vec<Up>, Option<OpenError>), OpenError> {
    let mut up: Vec<Up> = Vec::new();
    let mut away = None;
    for connector in ways {
        match connector.connect().await {
            Ok((host, connection)) => up.push((connector, host, connection)),
            Err(error) if preflight::is_refusal(&error) || up.is_empty() => return Err(error),
            Err(error) => {
                tracing::warn!(%error, "began without a node of the cluster");
                away = Some(error);
            }
        }
    }
    Ok((up, away))
}

impl Nodes {
    /// Connects, judges every server, records or compares the layout and the incarnations.
    ///
    /// A node of a cluster that is away does not hinder a start, unless it has the layout or what
    /// is set for topics, or the store is new. What is not there, or not ready, is waited for up to
    /// `connect_timeout`; what is unfit is not.
    pub async fn open(options: &RedisOptions, asked: Option<Buckets>) -> Result<Opened, OpenError> {
        let end = Instant::now() + options.connect_timeout;
        let (mut pause, mut told) = (FIRST_PAUSE, None::<Instant>);
        let mut is_again = false;
        loop {
            let cause = match Self::open_once(options, asked).await {
                Err(cause @ OpenError::Away { .. }) => cause,
                // Another server has just made the store, with a number that it was told.
                Err(OpenError::Layout { .. }) if asked.is_none() && !is_again => {
                    is_again = true;
                    continue;
                }
                opened => return opened,
            };
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(cause);
            }
            if told.is_none_or(|told| told.elapsed() >= TELL_EVERY) {
                told = Some(Instant::now());
                let seconds_left = left.as_secs();
                tracing::warn!(%cause, seconds_left, "waiting for the store (store.connect_timeout)");
            }
            tokio::time::sleep(pause.min(left)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn open_once(
        options: &RedisOptions,
        asked: Option<Buckets>,
    ) -> Result<Opened, OpenError> {
        let preflight = Preflight::new(options);
        let (mut up, away) = connect(ways(options, &preflight).await?).await?;
        let (_, host, connection) = &mut up[0];
        let found = match preflight.layout(host, connection).await? {
            Some(found) => Some(found),
            None => match away {
                Some(error) => return Err(error),
                None => await_layout(&preflight, &mut up, &options.prefix).await?,
            },
        };
        let is_new = found.is_none();
        let buckets = match &found {
            Some(found) => Layout::agree(found, asked)?,
            None => asked.unwrap_or(default_buckets(up.len())),
        };
        let keys = Keys::all(&options.prefix, buckets, options.url.db);
        preflight.will_use(&keys);
        let dialer = Dialer::to_redis(options)?;
        let map = match options.url.kind {
            Kind::Cluster => Some(cluster::ask(&dialer, &preflight, &options.url.hosts).await?),
            _ => None,
        };
        if is_new && map.as_ref().is_some_and(|map| !map.has_all(&keys)) {
            return Err(OpenError::Away {
                what: "the cluster".to_owned(),
                cause: "it has slots without a master: a new store wants all of them".to_owned(),
            });
        }

        // Everything is asked before anything is written, on every node.
        let has = |host: &Host, slot| map.as_ref().is_none_or(|map| map.master(slot) == Some(host));
        for (_, host, connection) in &mut up {
            let own = keys.iter().find(|keys| has(host, keys.slot)).unwrap_or(&keys[0]);
            preflight.probe(host, connection, &own.incarnation).await?;
        }
        let incarnations = Incarnations::new(buckets, options.accept_data_loss);
        for (_, host, connection) in &mut up {
            let (own, names): (Vec<usize>, Vec<&str>) = (keys.iter().enumerate())
                .filter(|(_, keys)| has(host, keys.slot))
                .map(|(bucket, keys)| (bucket, keys.incarnation.as_str()))
                .unzip();
            let (found, missing) =
                preflight.incarnations(host, connection, &names, incarnations.made()).await?;
            own.iter()
                .zip(found)
                .for_each(|(&bucket, incarnation)| incarnations.remember(bucket, incarnation));
            if !is_new {
                let missing: Vec<usize> = missing.into_iter().map(|index| own[index]).collect();
                incarnations
                    .lost(&missing, "it has no incarnation: it was emptied while no server ran");
            }
        }
        // Last of all: a layout says that everything else was written.
        let (_, host, connection) = &mut up[0];
        preflight.agree(host, connection, buckets).await?;

        let by = preflight.chosen();
        let nodes = match map {
            Some(map) => {
                let topics = keys::slot(&keys::version(&options.prefix));
                let slots = (keys.iter().map(|keys| keys.slot).collect(), topics);
                let seeds = options.url.hosts.clone();
                Self::Many(Cluster::start(dialer, preflight.clone(), by, seeds, slots, map))
            }
            None => {
                let (connector, host, connection) = up.swap_remove(0);
                let name = match &options.url.kind {
                    Kind::Sentinel { master } => master.clone(),
                    _ => host.to_string(),
                };
                Self::One(Arc::new(Node::new(name, connector, Some((host, connection)), by)))
            }
        };
        // Calls fail while there is no connection: give those that can be made a moment.
        let up = nodes.all().into_iter().map(|node| async move { node.up().await });
        let all = futures::future::join_all(up);
        drop(tokio::time::timeout(dial::CONNECT_TIMEOUT, all).await);
        Ok(Opened { nodes, keys, buckets, incarnations, preflight })
    }

    /// The node that has a slot.
    pub fn of(&self, slot: u16) -> Result<Arc<Node>, Failure> {
        match self {
            Self::One(node) => Ok(Arc::clone(node)),
            Self::Many(cluster) => cluster.of(slot),
        }
    }

    /// The slot that stands for all of ours that are on the same node; those that are on none are
    /// together too.
    pub fn representative(&self, slot: u16) -> u16 {
        match self {
            Self::One(_) => 0,
            Self::Many(cluster) => cluster.representative(slot),
        }
    }

    /// Whether one node has all slots, so that a script may have keys of several.
    pub fn is_one(&self) -> bool {
        matches!(self, Self::One(_))
    }

    /// Every node that has keys of ours.
    pub fn all(&self) -> Vec<Arc<Node>> {
        match self {
            Self::One(node) => vec![Arc::clone(node)],
            Self::Many(cluster) => cluster.nodes(),
        }
    }

    /// Calls a script; `make` builds the command, with the script's text or with its hash. What has to
    /// be confirmed says which key in its slot may change with that.
    pub async fn script(
        &self,
        slot: u16,
        confirm: Option<&str>,
        make: impl Fn(bool) -> Cmd + Send,
    ) -> Result<Value, StoreError> {
        let mut hops = 0;
        let mut as_text = false;
        loop {
            let node = self.of(slot)?;
            let command = make(as_text);
            let answer = match confirm {
                Some(key) => node.write(Write { command, key: key.to_owned() }).await,
                None => node.command(&command).await,
            };
            match answer {
                Ok(value) => return Ok(value),
                Err(Failure { remedy: Remedy::SendText, .. }) if !as_text => as_text = true,
                Err(failure) => self.follow(failure, &mut hops).await?,
            }
        }
    }

    /// One command that needs no confirmation.
    pub async fn command(&self, slot: u16, command: &Cmd) -> Result<Value, StoreError> {
        let mut hops = 0;
        loop {
            match self.of(slot)?.command(command).await {
                Ok(value) => return Ok(value),
                Err(failure) => self.follow(failure, &mut hops).await?,
            }
        }
    }

    /// Several of them; the first error is that of all.
    pub async fn pipeline(&self, slot: u16, pipeline: &Pipeline) -> Result<Vec<Value>, StoreError> {
        let mut hops = 0;
        loop {
            let answers = self.of(slot)?.pipeline(pipeline).await;
            match answers.and_then(|all| all.into_iter().collect()) {
                Ok(values) => return Ok(values),
                Err(failure) => self.follow(failure, &mut hops).await?,
            }
        }
    }

    /// After a failed call: whether it should be made again, where the map says now.
    async fn follow(&self, failure: Failure, hops: &mut usize) -> Result<(), StoreError> {
        match (failure.remedy, self) {
            (Remedy::Follow, Self::Many(cluster)) if *hops < MOST_HOPS => {
                *hops += 1;
                cluster.look_now().await;
                Ok(())
            }
            (Remedy::FindMaster, Self::Many(cluster)) => {
                cluster.peek();
                Err(failure.error)
            }
            _ => Err(failure.error),
        }
    }
}
