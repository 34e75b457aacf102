//! Whether the store can be used, asked once for all who ask.

use std::time::Instant;

use tokio::sync::Mutex;

use crate::store::{Store, StoreResult};

/// The last look at the store: when it began, and what was seen. Held while there is one.
#[derive(Default)]
pub struct StoreChecks(Mutex<Option<(Instant, StoreResult<()>)>>);

impl StoreChecks {
    /// Checks the store. There is one look at a time: however many ask, it has little to do with it.
    /// Who waits for a look that began after it asked has its answer too.
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
