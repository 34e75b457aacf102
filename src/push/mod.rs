//! Push: consumers inside the server that send jobs to URLs.
//!
//! A push pops and finishes jobs by the transitions that all other consumers use.

mod pushes;
mod status;

pub use self::{
    pushes::Pushes,
    status::{BreakerState, PushFailure, PushState, PushStatus, TargetHealth, TestAnswer, Tested},
};
