//! From a ready job to the consumer that waits for it, and back if that is gone.

pub mod peeks;
pub mod pending_delivery;
pub mod unanswered;
