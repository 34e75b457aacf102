//! Asks Sentinels who the master is: at every connect, and while connected.
//!
//! An old master may go on answering OK for seconds after another one was chosen; so somebody asks
//! once a second, and a connection to who is not the master any more is given up. Source of the
//! protocol: "Guidelines for Redis clients with support for Redis Sentinel".

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use super::{Host, dial::Dialer, opening};
use crate::store::OpenError;

/// How long the answer of one Sentinel may take.
const PATIENCE: Duration = Duration::from_secs(1);
/// The time between two questions while connected.
const PAUSE: Duration = Duration::from_secs(1);

/// The Sentinels of one master.
#[derive(Clone)]
pub(super) struct Sentinels {
    dialer: Dialer,
    /// Who answered last comes first.
    hosts: Arc<Mutex<Vec<Host>>>,
    master: String,
}

impl Sentinels {
    pub(super) fn new(dialer: Dialer, hosts: Vec<Host>, master: String) -> Self {
        Self { dialer, hosts: Arc::new(Mutex::new(hosts)), master }
    }

    /// The master's address, by the first Sentinel that knows it.
    pub(super) async fn find(&self) -> Result<Host, OpenError> {
        let hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut causes = Vec::new();
        for (index, host) in hosts.iter().enumerate() {
            match tokio::time::timeout(PATIENCE, self.ask(host)).await {
                Ok(Ok(Some(master))) => {
                    let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
                    hosts[..=index].rotate_right(1);
                    return Ok(master);
                }
                Ok(Ok(None)) => causes.push(format!("{host} knows no such master")),
                Ok(Err(cause)) if opening::is_unknown(&cause) => {
                    let hint = "(see store.sentinel_user and store.sentinel_password)";
                    causes.push(format!("{host}: {cause} {hint}"));
                }
                Ok(Err(cause)) => causes.push(format!("{host}: {cause}")),
                Err(_) => causes.push(format!("{host} did not answer within {PATIENCE:?}")),
            }
        }
        let what = format!("the master {:?} by its Sentinels", self.master);
        Err(OpenError::Engine { what, cause: causes.join("; ") })
    }

    async fn ask(&self, host: &Host) -> Result<Option<Host>, redis::RedisError> {
        let mut connection = self.dialer.dial(host).await?;
        let mut ask = redis::cmd("SENTINEL");
        ask.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.master);
        let found: Option<(String, u16)> = ask.query_async(&mut connection).await?;
        Ok(found.map(|(name, port)| Host { name, port }))
    }

    /// Completes when the Sentinels name another master than `current`.
    pub(super) async fn moved_from(&self, current: &Host) {
        loop {
            tokio::time::sleep(PAUSE).await;
            if self.find().await.is_ok_and(|master| master != *current) {
                return;
            }
        }
    }
}
