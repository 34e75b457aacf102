//! The service: what clients may ask for, over any store.
//!
//! A transition finds the bucket of each job and joins what else goes to the same server of the store
//! (`batching`), and tells what follows from it (`transitions`) to the timer and to waiting
//! pops. Nothing here knows HTTP or a kind of store, or reads a clock to decide anything.

mod batching;
mod context;
mod delivery;
mod error;
mod figures;
mod jobs;
mod metrics;
mod pop;
mod put;
mod readiness;
mod service;
mod settings_cache;
mod timer;
mod topic_settings;
mod topics;
mod transitions;
mod waiters;

pub use batching::{coalescer::Coalescer, has_job_id::HasJobId};
pub use delivery::pending_delivery::PendingDelivery;
pub use error::QueueError;
pub use figures::{last_errors::LastError, lateness::LateMinute, stats::Counters, survey::Survey};
pub use pop::Pop;
pub use put::Put;
pub use readiness::Readiness;
pub use service::{Queue, QueueSettings};
pub use topics::{Listed, Position};
