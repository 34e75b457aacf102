//! Store on Redis: each transition is one Lua script on the keys of one bucket.
//!
//! The scripts follow the rules of jobs themselves, or carry out what `delay-queue-core` decided
//! on the loaded jobs (`decisions/`). All keys of a bucket have the same slot, so the same calls
//! work on one Redis, with Sentinel and on a cluster. Only the search for the server that has a
//! bucket differs (`topology/`).

mod backlog;
mod calls;
mod codec;
mod commands;
mod decisions;
mod doctor;
mod ends;
mod health;
mod hints;
mod keys;
mod kicks;
mod leases;
mod location;
mod loss;
mod options;
mod pop;
mod preflight;
mod promote;
mod puts;
mod reads;
mod ready;
mod reply;
mod schedules;
mod score;
mod scripts;
mod settings;
mod shared;
mod shortcuts;
mod timers;
mod tokens;
mod topology;
mod transport;
mod url;
mod walk;

use std::{collections::HashMap, sync::Arc};

use async_trait::async_trait;
use tokio::sync::Mutex;

use self::{
    backlog::Backlogs,
    health::Health,
    hints::Hints,
    keys::Keys,
    leases::Leases,
    preflight::{Preflight, incarnation::Incarnations},
    scripts::Scripts,
    topology::{Nodes, Opened},
    walk::Walks,
};
use super::{
    Clock, Condition, OpenError, Options, SharedStore, Store, StoreError, StoreResult,
    clock_watch::ClockWatch,
};
use crate::job::{Bucket, Buckets, Millis, ReservationKey};

#[cfg(any(test, fuzzing))]
pub use codec::redis_records;
pub use codec::{PoolRecord, record_header, record_rest};
pub use options::{Ack, Login, RedisOptions, TlsFiles};
pub use url::{Host, Kind, RedisUrl, Secret};

/// Maximum number of jobs that one script handles. A script with 250 jobs blocks Redis for about 3
/// ms.
const BATCH: usize = 250;

/// How long a finished job of a schedule is kept at least on a cluster, where its put may be
/// repeated: the longest outage of the schedules' slot after which no instant runs twice.
const KEPT_ON_CLUSTER: Millis = Millis::new(600_000);

/// Store of jobs on Redis.
pub struct RedisStore {
    nodes: Arc<Nodes>,
    keys: Vec<Keys>,
    by_slot: HashMap<u16, Bucket>,
    scripts: Scripts,
    buckets: Buckets,
    clock: Clock,
    preflight: Preflight,
    incarnations: Incarnations,
    health: Health,
    hints: Hints,
    leases: Arc<Leases>,
    watch: ClockWatch,
    backlogs: Backlogs,
    walks: Walks,
    prefix: String,
    /// Accepts a loss of jobs without an operator.
    accept_data_loss: bool,
    /// Held while this server accepts a loss.
    accepting: Mutex<()>,
}

impl RedisStore {
    /// Connects, checks the servers, and records the layout or compares it with the recorded one.
    ///
    /// # Errors
    /// The servers are unavailable or unfit to keep jobs, or the store has another layout.
    pub async fn open(redis: RedisOptions, options: Options) -> Result<Self, OpenError> {
        let opened = Nodes::open(&redis, &options).await?;
        let Opened { nodes, keys, buckets, incarnations, preflight } = opened;
        let nodes = Arc::new(nodes);
        let leases = Leases::new(&nodes, &redis.prefix);
        Ok(Self {
            hints: Hints::new(&nodes, &keys, &leases),
            leases,
            nodes,
            by_slot: keys.iter().map(|keys| keys.slot).zip(buckets.all()).collect(),
            keys,
            scripts: Scripts::new(),
            buckets,
            clock: options.clock,
            preflight,
            incarnations,
            health: Health::default(),
            watch: ClockWatch::new(buckets.get().into()),
            backlogs: Backlogs::default(),
            walks: Walks::default(),
            prefix: redis.prefix,
            accept_data_loss: redis.accept_data_loss,
            accepting: Mutex::default(),
        })
    }
}

#[async_trait]
impl Store for RedisStore {
    fn buckets(&self) -> Buckets {
        self.buckets
    }

    fn reservation_key(&self) -> Arc<ReservationKey> {
        self.preflight.reservation_key()
    }

    fn batch_limit(&self) -> usize {
        BATCH
    }

    async fn accept_loss(&self) -> StoreResult<u64> {
        let all: Vec<Bucket> = self.buckets.all().collect();
        self.accept_loss_of(&all).await
    }

    async fn check(&self) -> StoreResult<()> {
        self.incarnations.check()?;
        self.check_servers().await
    }

    fn condition(&self) -> Condition {
        Condition {
            is_full: self.health.is_full(),
            refuses_writes: self.health.refuses_writes(),
            may_lose_jobs: self.nodes.all().iter().any(|master| master.risk().is_some()),
            data_losses: self.incarnations.data_losses(),
            replaced: self.incarnations.lost(),
            clock_jumps: self.watch.jumps(),
            ..Condition::default()
        }
    }

    fn kept_after_firing(&self) -> Millis {
        if self.nodes.is_one() { Millis::ZERO } else { KEPT_ON_CLUSTER }
    }

    fn shared(&self) -> Option<&dyn SharedStore> {
        Some(self)
    }

    async fn close(&self) {
        self.leases.leave().await;
    }
}
