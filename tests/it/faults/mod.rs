//! Faults under load, with the real binary and real Redis processes: whatever is killed, frozen or
//! cut off, the promises hold, as judged by the answers to clients and the contents of the store.

mod answers;
pub mod client;
mod clock;
mod cluster;
mod cut;
pub mod epoch;
pub mod frozen;
mod hang_up;
pub mod history;
pub mod judge;
mod liar;
pub mod load;
pub mod percentiles;
mod redis;
mod scans;
mod scenario;
mod sentinel;
mod terminated;
mod vitals;
