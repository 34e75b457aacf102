//! Watches that a server syncs every write, where no command confirms that it did.
//!
//! Before Redis 7.2 there is no `WAITAOF`: with `store.ack = "fsync"` an answer means "on disk" only
//! while the AOF is on and `appendfsync` is `always`. Both can be changed while Redis runs. What is
//! written between such a change and the next look is acknowledged without a sync.

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

/// The time between two looks.
const INTERVAL: Duration = Duration::from_secs(1);

/// The watch over one server.
pub struct SyncWatch {
    unsynced: Arc<Mutex<Option<String>>>,
    _task: AbortOnDropHandle<()>,
}

impl SyncWatch {
    /// Asks on a connection whose server passed preflight when it was made.
    pub fn start(connection: Arc<Connection>) -> Self {
        let unsynced = Arc::default();
        let task = tokio::spawn(watch(connection, Arc::clone(&unsynced)));
        Self { unsynced, _task: AbortOnDropHandle::new(task) }
    }

    /// Refuses while writes are not synced.
    pub fn check(&self) -> Result<(), Failure> {
        let unsynced = self.unsynced.lock().unwrap_or_else(PoisonError::into_inner);
        match &*unsynced {
            Some(why) => Err(Failure { remedy: Remedy::Mend, error: StoreError::away(why) }),
            None => Ok(()),
        }
    }
}

async fn watch(connection: Arc<Connection>, unsynced: Arc<Mutex<Option<String>>>) {
    loop {
        tokio::time::sleep(INTERVAL).await;
        // Without an answer no write has one either.
        let Some((found, is_rewriting)) = look(&connection).await else { continue };
        let mut known = unsynced.lock().unwrap_or_else(PoisonError::into_inner);
        // An AOF that was turned on again counts from the end of its first rewrite.
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

/// Why writes are not synced, if they are not, and whether the AOF is being rewritten; none without an
/// answer.
async fn look(connection: &Connection) -> Option<(Option<String>, bool)> {
    let mut questions = Pipeline::with_capacity(2);
    questions.cmd("INFO").arg("persistence");
    questions.cmd("CONFIG").arg("GET").arg("appendfsync");
    let answers = connection.pipeline(&questions).await.ok()?;
    let [info, policy]: [Result<Value, Failure>; 2] = answers.try_into().ok()?;
    let info: String = redis::from_redis_value(info.ok()?).ok()?;
    // What may not be asked any more cannot be relied on.
    let policy = policy.ok().and_then(|value| redis::from_redis_value::<Vec<String>>(value).ok());
    let unsynced = requirements::unsynced(&info, policy.as_ref().and_then(|found| found.get(1)));
    Some((unsynced, requirements::is_rewriting(&info)))
}
