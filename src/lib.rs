//! delay-queue
pub mod job;
pub mod store;
