//! Push: consumers inside the server that send jobs to URLs.
//!
//! A push pops and finishes jobs by the transitions that all other consumers use.

mod breaker;
mod collector;
mod flight;
mod gate;
mod lane;
mod limiter;
mod load;
mod meters;
mod pushes;
mod report;
pub(crate) mod request;
mod sender;
mod share;
mod shared;
mod sign;
mod status;
mod target;
mod trial;
pub(crate) mod verdict;
mod window;
mod worker;

pub use self::{
    pushes::{MAX_TESTS, Pushes},
    status::{BreakerState, PushFailure, PushState, PushStatus, TargetHealth, TestAnswer, Tested},
};
