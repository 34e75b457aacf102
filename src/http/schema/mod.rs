//! JSON Schemas of values and of rules between fields.

pub use delay_queue_core::schemas;

pub mod push;
pub mod rules;
pub mod schedule;
pub mod types;
