//! Address of the master, as Sentinels know it: read at every connect, and once a second.
//!
//! A former master may answer OK for seconds after another one was chosen. So a task watches the
//! Sentinels, and connections to a former master are given up. A Sentinel that is cut off from the
//! others may name a former master, so the answer with the latest epoch is used. Source of the
//! protocol: "Guidelines for Redis clients with support for Redis Sentinel".

use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use redis::{Pipeline, Value};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::store::{
    OpenError,
    redis::{
        Host,
        transport::{Connection, Dialer, error},
    },
};

/// Time within which a Sentinel must answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// Time between two requests.
const QUESTION_INTERVAL: Duration = Duration::from_secs(1);

/// Sentinels of one master.
#[derive(Clone)]
pub struct Sentinels {
    asker: Arc<Asker>,
    current: Arc<watch::Sender<Option<Host>>>,
    _poll: Arc<AbortOnDropHandle<()>>,
}

struct Asker {
    dialer: Dialer,
    hosts: Vec<Host>,
    master: String,
}

impl Sentinels {
    pub fn new(dialer: Dialer, hosts: Vec<Host>, master: String) -> Self {
        let asker = Arc::new(Asker { dialer, hosts, master });
        let current = Arc::new(watch::Sender::new(None));
        let poll = tokio::spawn(poll(Arc::clone(&asker), Arc::clone(&current)));
        Self { asker, current, _poll: Arc::new(AbortOnDropHandle::new(poll)) }
    }

    /// Asks for the master's address.
    pub async fn endpoint(&self) -> Result<Host, OpenError> {
        let host = self.asker.endpoint().await?;
        note(&self.current, &host);
        Ok(host)
    }

    /// Returns whether this was the master at the last request.
    pub fn is_still(&self, host: &Host) -> bool {
        self.current.borrow().as_ref().is_none_or(|current| current == host)
    }

    /// Gives up each connection whose server is no longer the master.
    pub async fn watch(self, connections: Vec<Arc<Connection>>) {
        let each = connections.iter().map(async |connection| {
            loop {
                let (number, host) = connection.connected_to().await;
                self.moved_from(&host).await;
                connection.give_up(number, "the Sentinels name another master");
            }
        });
        join_all(each).await;
    }

    /// Waits until the Sentinels name another master than `host`.
    async fn moved_from(&self, host: &Host) {
        let other = |current: &Option<Host>| current.as_ref().is_some_and(|c| c != host);
        drop(self.current.subscribe().wait_for(other).await);
    }
}

async fn poll(asker: Arc<Asker>, current: Arc<watch::Sender<Option<Host>>>) {
    loop {
        tokio::time::sleep(QUESTION_INTERVAL).await;
        if let Ok(host) = asker.endpoint().await {
            note(&current, &host);
        }
    }
}

fn note(current: &watch::Sender<Option<Host>>, host: &Host) {
    current.send_if_modified(|current| current.replace(host.clone()).as_ref() != Some(host));
}

impl Asker {
    /// Returns the master of the latest epoch that any Sentinel knows. Otherwise the error is
    /// temporary if any Sentinel may name a master later, and final if every Sentinel refuses to
    /// answer.
    async fn endpoint(&self) -> Result<Host, OpenError> {
        let answers = self.hosts.iter().map(async |host| {
            match tokio::time::timeout(ANSWER_TIMEOUT, self.ask(host)).await {
                Ok(Ok(Some(known))) => Ok(known),
                Ok(Ok(None)) => Err((true, format!("{host} knows no such master"))),
                Ok(Err(cause)) if error::is_unknown(&cause) => {
                    let hint = "(see store.sentinel_username and store.sentinel_password)";
                    Err((false, format!("{host}: {cause} {hint}")))
                }
                Ok(Err(cause)) => Err((error::may_pass(&cause), format!("{host}: {cause}"))),
                Err(_) => Err((true, format!("{host} did not answer within {ANSWER_TIMEOUT:?}"))),
            }
        });
        let (mut latest, mut causes, mut may_pass) = (None, Vec::new(), false);
        for answer in join_all(answers).await {
            match answer {
                Ok(known) => latest = latest.max(Some(known)),
                Err((passes, cause)) => {
                    may_pass |= passes;
                    causes.push(cause);
                }
            }
        }
        latest.map(|(_, master)| master).ok_or_else(|| {
            let subject = format!("the master {:?} by its Sentinels", self.master);
            let cause = causes.join("; ");
            if may_pass {
                OpenError::Unavailable { subject, cause }
            } else {
                OpenError::Engine { subject, cause }
            }
        })
    }

    /// Asks one Sentinel for its epoch and the master.
    async fn ask(&self, host: &Host) -> Result<Option<(u64, Host)>, redis::RedisError> {
        let mut connection = self.dialer.dial(host).await?;
        let mut ask = Pipeline::with_capacity(2);
        ask.cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(&self.master);
        ask.cmd("SENTINEL").arg("MASTER").arg(&self.master);
        let answers = connection.send_packed_commands(&ask, 0, 2).await?;
        let Ok([address, fields]) = <[Value; 2]>::try_from(answers) else { return Ok(None) };
        let address: Option<(String, u16)> = redis::from_redis_value(address.extract_error()?)?;
        let fields: Vec<String> = redis::from_redis_value(fields).unwrap_or_default();
        let epoch = fields.chunks_exact(2).find(|pair| pair[0] == "config-epoch");
        let epoch = epoch.and_then(|pair| pair[1].parse().ok()).unwrap_or_default();
        Ok(address.map(|(name, port)| (epoch, Host { name, port })))
    }
}
