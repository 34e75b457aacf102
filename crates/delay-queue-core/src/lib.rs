//! The jobs of delay-queue, and the decision of each transition, without input or output.

pub mod job;
