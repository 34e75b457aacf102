//! Faults under load, with the real binary and real Redis processes. Whatever is killed, frozen or
//! disconnected, the promises must hold. The judge checks the answers to clients and the contents
//! of the store.

mod answers;
pub mod client;
mod clock;
mod clock_of_schedules;
mod cluster;
mod cut;
pub mod epoch;
mod fired;
pub mod frozen;
mod hang_up;
pub mod history;
pub mod judge;
pub mod load;
pub mod percentiles;
mod prelude;
mod pushed;
mod redis;
mod scans;
mod scenario;
mod sentinel;
mod terminated;
mod vitals;
