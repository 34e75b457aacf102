//! What the parts of the queue share.

use std::sync::Arc;

use tokio_util::task::TaskTracker;

use super::{
    figures::{lateness::Lateness, stats::Stats},
    timer::handle::TimerHandle,
    waiters::Waiters,
};
use crate::store::Store;

/// What transitions work on, and who is told of what they did.
#[derive(Clone)]
pub struct Context {
    pub store: Arc<dyn Store>,
    pub timer: Arc<TimerHandle>,
    pub waiters: Arc<Waiters>,
    pub calls: TaskTracker,
    pub stats: Arc<Stats>,
    pub lateness: Arc<Lateness>,
}
