//! Faults by name. A function injects each fault and returns whether it had an effect, which a
//! failed call or a counter must prove.

use futures::future::{BoxFuture, FutureExt};
use rand::RngExt;

use crate::disk::shim::{EDQUOT, Field};
use crate::soak::options::Kind;
use crate::soak::options::Kind::{Cluster, File, Redis, Sentinel};
use crate::soak::prelude::*;

mod clients;
pub mod clock;
mod disk;
mod failover;
mod intruders;
mod network;
mod redis;
mod server;

/// Damage that a fault may cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cost {
    /// No acknowledged job or transition is lost.
    Nothing,
    /// With `--ack memory`, jobs and transitions acknowledged in the last seconds are lost;
    /// otherwise none.
    Seconds,
    /// Lateness of jobs that fall due while the clock is wrong.
    Time,
    /// All jobs of the store are lost.
    Jobs,
}

pub struct Fault {
    pub name: &'static str,
    on: &'static [Kind],
    cost: Cost,
    pub bring: for<'a> fn(Scene<'a>) -> BoxFuture<'a, bool>,
}

impl Fault {
    pub fn cost(&self, ack: Option<Ack>) -> Cost {
        match (self.cost, ack) {
            (Cost::Seconds, None) => Cost::Nothing,
            (cost, _) => cost,
        }
    }
}

/// Target of a fault: the stage and its load.
pub struct Scene<'a> {
    pub stage: &'a mut Stage,
    pub history: &'a History,
    pub random: &'a mut StdRng,
}

impl Scene<'_> {
    fn any_server(&mut self) -> usize {
        self.random.random_range(0..self.stage.servers.len())
    }

    fn random_below(&mut self, end: u64) -> u64 {
        self.random.random_range(0..end)
    }
}

macro_rules! faults {
    ($($name:literal $on:ident $cost:ident $module:ident::$bring:ident $(($with:expr))?,)+) => {
        &[$(Fault {
            name: $name, on: $on, cost: Cost::$cost,
            bring: |scene| $module::$bring(scene $(, $with)?).boxed(),
        }),+]
    };
}

const ALL: &[Kind] = &[File, Redis, Sentinel, Cluster];
const SINGLE: &[Kind] = &[File, Redis];
const FILE: &[Kind] = &[File];
const REDIS: &[Kind] = &[Redis];
const SENTINEL: &[Kind] = &[Sentinel];
const CLUSTER: &[Kind] = &[Cluster];
const SEVERAL: &[Kind] = &[Redis, Sentinel, Cluster];

const FAULTS: &[Fault] = faults! {
    "server-killed" ALL Nothing server::killed,
    "server-killed-before-the-store-call" SINGLE Nothing server::killed_before_the_store_call,
    "server-killed-after-the-store-call" SINGLE Nothing server::killed_after_the_store_call,
    "server-killed-before-the-answer" ALL Nothing server::killed_before_the_answer,
    "server-frozen" ALL Nothing server::frozen,
    "server-terminated" ALL Nothing server::terminated,
    "server-out-of-descriptors" ALL Nothing server::out_of_descriptors,
    "clients-hang-up" ALL Nothing clients::hang_up,
    "clients-send-half-a-request" ALL Nothing clients::send_half_a_request,
    "clients-do-not-read" ALL Nothing clients::do_not_read,
    "answers-delayed" ALL Nothing network::delayed,
    "clients-in-a-black-hole" ALL Nothing network::black_hole,
    "clients-reset" ALL Nothing network::reset,
    "answers-lost" ALL Nothing network::answers_lost,
    "answers-cut-short" ALL Nothing network::answers_cut_short,
    "power-lost" SINGLE Seconds disk::power_lost,
    "disk-full" SINGLE Nothing disk::full,
    "power-lost-in-a-write" FILE Nothing disk::power_lost_in_a_write,
    "quota-used-up" FILE Nothing disk::filled(EDQUOT),
    "writes-fail" FILE Nothing disk::failing(Field::WriteError),
    "syncs-fail" FILE Nothing disk::failing(Field::SyncError),
    "reads-fail" FILE Nothing disk::reads_fail,
    "clock-2-minutes-ahead" SINGLE Time clock::moved(120),
    "clock-2-minutes-behind" SINGLE Time clock::moved(-120),
    "clock-1-hour-behind" SINGLE Time clock::moved(-3_600),
    "clock-15-days-ahead" SINGLE Time clock::moved(15 * 86_400),
    "redis-killed" REDIS Seconds redis::killed,
    "redis-frozen" REDIS Nothing redis::frozen,
    "redis-emptied" REDIS Jobs redis::emptied,
    "redis-delayed" REDIS Nothing network::redis_delayed,
    "redis-in-a-black-hole" REDIS Nothing network::redis_in_a_black_hole,
    "redis-reset" REDIS Nothing network::redis_reset,
    "redis-answers-lost" REDIS Nothing network::redis_answers_lost,
    "redis-answers-cut-short" REDIS Nothing network::redis_answers_cut_short,
    "redis-paused" SEVERAL Nothing redis::paused,
    "redis-scripts-flushed" SEVERAL Nothing redis::scripts_flushed,
    "redis-memory-full" SEVERAL Nothing redis::memory_full,
    "redis-rights-taken-away" SEVERAL Nothing intruders::rights_taken_away,
    "redis-key-of-a-wrong-type" SEVERAL Nothing intruders::key_of_a_wrong_type,
    "master-killed" SENTINEL Nothing failover::sentinel_master_killed,
    "master-frozen" SENTINEL Nothing failover::sentinel_master_frozen,
    "master-replaced" SENTINEL Nothing failover::sentinel_master_replaced,
    "cluster-master-killed" CLUSTER Nothing failover::cluster_master_killed,
    "cluster-master-frozen" CLUSTER Nothing failover::cluster_master_frozen,
    "slots-moved" CLUSTER Nothing failover::slots_moved,
    "tokens-slot-moved" CLUSTER Nothing failover::tokens_slot_moved,
};

pub fn names() -> Vec<&'static str> {
    FAULTS.iter().map(|fault| fault.name).collect()
}

/// Returns the faults that this store can have.
pub fn on(kind: Kind) -> impl Iterator<Item = &'static Fault> {
    FAULTS.iter().filter(move |fault| fault.on.contains(&kind))
}

pub fn of(kind: Kind) -> Vec<&'static str> {
    on(kind).map(|fault| fault.name).collect()
}
