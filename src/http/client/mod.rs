//! The client of a request: its connection, its address, and what its token allows.

pub mod identity;
pub mod need;
pub mod peer;
