//! State that the parts of the queue share.

use std::sync::Arc;

use tokio_util::task::TaskTracker;

use super::{
    figures::{lateness::Lateness, stats::Stats},
    timer::handle::TimerHandle,
    waiters::Waiters,
};
use crate::store::Store;

/// The store, and the parts that transitions notify of their effects.
#[derive(Clone)]
pub struct Context {
    pub store: Arc<dyn Store>,
    pub timer: Arc<TimerHandle>,
    pub waiters: Arc<Waiters>,
    pub calls: TaskTracker,
    pub stats: Arc<Stats>,
    pub lateness: Arc<Lateness>,
}
