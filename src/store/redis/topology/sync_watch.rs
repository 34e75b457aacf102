//! Check that a server still syncs every write, if it has no command that confirms this.
//!
//! Redis before 7.2 has no `WAITAOF`: with `store.ack = "fsync"`, an answer means "on disk" only
//! while the AOF is on and `appendfsync` is `always`. Both settings can change while Redis runs.
//! Writes between such a change and the next check are acknowledged without a sync.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use redis::{Pipeline, Value};
use tokio_util::task::AbortOnDropHandle;

use crate::store::{
    StoreError,
    redis::{
        preflight::requirements,
        transport::{Connection, Failure, error::Remedy},
    },
};

/// Time between two checks.
const INTERVAL: Duration = Duration::from_secs(1);

/// Watch over one server.
pub struct SyncWatch {
    unsynced: Arc<Mutex<Option<String>>>,
    _task: AbortOnDropHandle<()>,
}

impl SyncWatch {
    /// Starts to check a server, on a connection whose server passed preflight.
    pub fn start(connection: Arc<Connection>) -> Self {
        let unsynced = Arc::default();
        let task = tokio::spawn(watch(connection, Arc::clone(&unsynced)));
        Self { unsynced, _task: AbortOnDropHandle::new(task) }
    }

    /// Fails while writes are not synced.
    pub fn check(&self) -> Result<(), Failure> {
        let unsynced = self.unsynced.lock().unwrap_or_else(PoisonError::into_inner);
        match &*unsynced {
            Some(why) => Err(Failure { remedy: Remedy::Mend, error: StoreError::unavailable(why) }),
            None => Ok(()),
        }
    }
}

async fn watch(connection: Arc<Connection>, unsynced: Arc<Mutex<Option<String>>>) {
    loop {
        tokio::time::sleep(INTERVAL).await;
        // If this command gets no answer, writes do not get one either.
        let Some((found, is_rewriting)) = read_sync_state(&connection).await else { continue };
        let mut known = unsynced.lock().unwrap_or_else(PoisonError::into_inner);
        // After an AOF was turned on again, it is complete only after its first rewrite.
        if found.is_none() && known.is_some() && is_rewriting {
            continue;
        }
        if found != *known {
            match &found {
                Some(why) => tracing::error!(why, "writes are refused: they would not be synced"),
                None => tracing::info!("writes are synced again"),
            }
            *known = found;
        }
    }
}

/// Returns the reason why writes are not synced, if any, and whether the AOF is being rewritten;
/// `None` if the server does not answer.
async fn read_sync_state(connection: &Connection) -> Option<(Option<String>, bool)> {
    let mut questions = Pipeline::with_capacity(2);
    questions.cmd("INFO").arg("persistence");
    questions.cmd("CONFIG").arg("GET").arg("appendfsync");
    let answers = connection.pipeline(&questions).await.ok()?;
    let [info, policy]: [Result<Value, Failure>; 2] = answers.try_into().ok()?;
    let info: String = redis::from_redis_value(info.ok()?).ok()?;
    // A setting that this user may no longer read counts as unknown, so writes are refused.
    let policy = policy.ok().and_then(|value| redis::from_redis_value::<Vec<String>>(value).ok());
    let unsynced = requirements::unsynced(&info, policy.as_ref().and_then(|found| found.get(1)));
    Some((unsynced, requirements::is_rewriting(&info)))
}
