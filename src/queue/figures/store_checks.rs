//! Health checks of the store, shared by concurrent callers.

use std::time::Instant;

use tokio::sync::Mutex;

use crate::store::{Store, StoreResult};

/// Start and result of the last check. Locked while a check runs.
#[derive(Default)]
pub struct StoreChecks(Mutex<Option<(Instant, StoreResult<()>)>>);

impl StoreChecks {
    /// Checks the store. Only one check runs at a time. Each caller gets the result of a check that
    /// began after its own call.
    pub async fn check(&self, store: &dyn Store) -> StoreResult<()> {
        let asked = Instant::now();
        let mut last = self.0.lock().await;
        match &*last {
            Some((began, checked)) if *began > asked => checked.clone(),
            _ => {
                let began = Instant::now();
                let checked = store.check().await;
                *last = Some((began, checked.clone()));
                checked
            }
        }
    }
}
