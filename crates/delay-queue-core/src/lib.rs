//! The jobs of delay-queue, and what each transition makes of a job, without input or output.

pub mod decide;
pub mod job;

mod now;

pub use now::Now;
