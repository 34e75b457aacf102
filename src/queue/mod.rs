//! The queue: every operation of clients, on any store.
//!
//! A transition finds the bucket of each job, joins other requests to the same server of the store
//! (`batching`), and reports its effects to the timer and to waiting pops (`transitions`). This
//! module knows neither HTTP nor any kind of store, and no decision depends on the clock of the
//! server.

mod batching;
mod bulk;
mod capacity;
mod context;
mod delivery;
mod error;
mod error_groups;
mod figures;
mod jobs;
mod metrics;
mod pop;
mod put;
mod readiness;
mod schedules;
mod service;
mod settings_cache;
mod timer;
mod topic_settings;
mod topics;
mod transitions;
mod waiters;
mod watches;

pub use batching::coalescer::Coalescer;
pub use bulk::{Bulk, BulkDone};
pub use capacity::{Admitted, Capacity, Full, Reached};
pub use delivery::pending_delivery::PendingDelivery;
pub use error::QueueError;
pub use error_groups::{ErrorGroups, MAX_EXAMINED_ERRORS};
pub use figures::{last_errors::LastError, lateness::LateMinute, stats::Counters, survey::Survey};
pub use pop::Pop;
pub use put::Put;
pub use readiness::Readiness;
pub use service::{Queue, QueueSettings};
pub use topics::{Listed, Position};
