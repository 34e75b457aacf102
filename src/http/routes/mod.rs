//! Handlers. Each extracts, makes one call to the queue, and maps the outcome; nothing else.

pub mod access;
pub mod batch;
pub mod bulk;
pub mod health;
pub mod jobs;
pub mod metrics;
pub mod overview;
pub mod pop;
pub mod push;
pub mod schedules;
pub mod store;
mod token_uses;
pub mod tokens;
pub mod topics;
