//! The servers of a store, one or many: finds the server that has a key's slot, and routes calls to
//! that server.

pub mod map;
pub mod sentinel;

mod cluster;
mod connector;
mod master;
mod open;
mod risk_watch;
mod sync_watch;

use std::{collections::HashSet, hash::Hash, sync::Arc};

use redis::{Cmd, Pipeline, Value};

use self::cluster::Cluster;
use super::transport::{
    Failure, Write,
    error::{Remedy, lacks_right},
};
use crate::store::{StoreError, StoreResult, StoreResults};

pub use self::{connector::Connector, master::Master, open::Opened};

/// Maximum number of times that a call follows its slot to another node.
const MAX_REDIRECTS: usize = 3;

/// The masters of a store.
pub enum Nodes {
    One(Arc<Master>),
    Many(Cluster),
}

impl Nodes {
    /// Returns the master of a slot.
    pub fn of(&self, slot: u16) -> Result<Arc<Master>, Failure> {
        match self {
            Self::One(master) => Ok(Arc::clone(master)),
            Self::Many(cluster) => cluster.of(slot),
        }
    }

    /// Returns the first slot of a bucket on the same master. All slots without a master have the
    /// same representative.
    pub fn representative(&self, slot: u16) -> u16 {
        match self {
            Self::One(_) => 0,
            Self::Many(cluster) => cluster.representative(slot),
        }
    }

    /// Returns whether one node has all slots, so that a script may access several buckets.
    pub fn is_one(&self) -> bool {
        matches!(self, Self::One(_))
    }

    /// Returns all masters that have keys of the store.
    pub fn all(&self) -> Vec<Arc<Master>> {
        match self {
            Self::One(master) => vec![Arc::clone(master)],
            Self::Many(cluster) => cluster.masters(),
        }
    }

    /// Calls a script. `make` builds the command: with the text of the script if its argument is
    /// true, otherwise with the hash. If the call needs confirmation, `confirm` is a key in its
    /// slot that the confirmation may change.
    pub async fn script(
        &self,
        slot: u16,
        confirm: Option<&str>,
        make: impl Fn(bool) -> Cmd + Send,
    ) -> Result<Value, StoreError> {
        let mut redirects = 0;
        let mut as_text = false;
        loop {
            let master = self.of(slot)?;
            let command = make(as_text);
            let answer = match confirm {
                Some(key) => master.write(Write { command, key: key.to_owned() }).await,
                None => master.node.command(&command).await,
            };
            if lacks_right(&answer) {
                master.node.renew("this user lacks a right that a script needs");
            }
            match answer {
                Ok(value) => return Ok(value),
                Err(Failure { remedy: Remedy::SendText, .. }) if !as_text => as_text = true,
                Err(failure) => self.follow(failure, &mut redirects).await?,
            }
        }
    }

    /// Sends a command that needs no confirmation.
    pub async fn command(&self, slot: u16, command: &Cmd) -> Result<Value, StoreError> {
        let mut redirects = 0;
        loop {
            match self.of(slot)?.node.command(command).await {
                Ok(value) => return Ok(value),
                Err(failure) => self.follow(failure, &mut redirects).await?,
            }
        }
    }

    /// Sends several commands that need no confirmation, and returns the answer of each. If one of
    /// them must follow its slot, all are repeated, so they must be reads.
    pub async fn pipeline(
        &self,
        slot: u16,
        pipeline: &Pipeline,
    ) -> StoreResult<StoreResults<Value>> {
        let mut redirects = 0;
        loop {
            let sent = self.of(slot)?.node.pipeline(pipeline).await;
            let moved = |answers: &Vec<Result<Value, Failure>>| {
                let mut errors = answers.iter().filter_map(|answer| answer.as_ref().err());
                errors.find(|failure| failure.remedy == Remedy::Follow).cloned()
            };
            match sent {
                Ok(answers) => match moved(&answers) {
                    Some(failure) => self.follow(failure, &mut redirects).await?,
                    None => {
                        let own = |answer: Result<Value, Failure>| answer.map_err(StoreError::from);
                        return Ok(answers.into_iter().map(own).collect());
                    }
                },
                Err(failure) => self.follow(failure, &mut redirects).await?,
            }
        }
    }

    /// Handles a failed call. Waits for a new map if the caller should repeat the call, otherwise
    /// returns the error.
    async fn follow(&self, failure: Failure, redirects: &mut usize) -> Result<(), StoreError> {
        match (failure.remedy, self) {
            (Remedy::Follow, Self::Many(cluster)) if *redirects < MAX_REDIRECTS => {
                *redirects += 1;
                cluster.refresh().await;
                Ok(())
            }
            (Remedy::FindMaster, Self::Many(cluster)) => {
                cluster.refresh_soon();
                Err(failure.error)
            }
            _ => Err(failure.error),
        }
    }
}

/// Removes repeated values, and keeps the first of each.
pub fn distinct<T: Hash + Eq + Clone>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = HashSet::new();
    all.filter(|one| seen.insert(one.clone())).collect()
}
