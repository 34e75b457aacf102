//! Faults under load, with the real binary and real Redis processes: whatever is killed, frozen
//! or cut off, the promises hold, as judged from what clients were told and what the store holds.

mod client;
mod clock;
mod cluster;
mod cut;
mod frozen;
mod history;
mod judge;
mod load;
mod percentiles;
mod redis;
mod scans;
mod scenario;
mod sentinel;
mod vitals;
