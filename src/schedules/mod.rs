//! Schedules: jobs that are put again and again, by the clock.
//!
//! Every server looks at the schedules that are due, and advances each one in the step that puts
//! its job. So a second server finds nothing left to do, and no server is special.

mod definition;
mod error;
mod meters;
mod plan;
mod record;
mod runner;
mod service;

pub use self::{
    definition::{Definition, Missed, Overlap, TimingFields},
    error::ScheduleError,
    record::{LastJob, Record, deadline_of},
    service::{Schedules, Shown},
};

/// Number of next instants that an answer shows.
pub const SHOWN_INSTANTS: usize = 5;
