//! Delivery of a ready job to a waiting consumer, and its return if the consumer has disconnected.

pub mod peeks;
pub mod pending_delivery;
pub mod unanswered;
