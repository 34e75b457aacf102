//! The client of a request: its connection, its address, and the scopes of its token.

pub mod identity;
pub mod need;
pub mod peer;
