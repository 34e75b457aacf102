//! Gates at which handlers wait until the suite opens them.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use tokio::sync::watch;

#[derive(Default)]
pub struct Gates(Mutex<HashMap<String, watch::Sender<bool>>>);

impl Gates {
    pub fn open(&self, name: &str) {
        self.sender(name).send_replace(true);
    }

    pub async fn pass(&self, name: &str) {
        let mut gate = self.sender(name).subscribe();
        // The sender stays in the map.
        let _ = gate.wait_for(|is_open| *is_open).await;
    }

    fn sender(&self, name: &str) -> watch::Sender<bool> {
        let mut gates = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        gates.entry(name.to_owned()).or_insert_with(|| watch::Sender::new(false)).clone()
    }
}
