#![doc = include_str!("../README.md")]

mod batch;
mod cancel;
mod error;
#[cfg(feature = "fake")]
pub mod fake;
mod job;
mod jobs;
mod put;
mod queue;
mod retry;
mod stored;
mod topics;
mod transport;
mod value;
pub mod webhook;
mod worker;

pub use self::{
    cancel::Cancel,
    error::{Applied, Error, Refused},
    job::Job,
    put::{Backoff, OnConflict, Put, PutJob},
    queue::Queue,
    stored::{Attempt, State, StoredJob},
    topics::{Topic, TopicSettings},
    worker::{BoxError, Bury, Snooze, Worker, shutdown_signal},
};
