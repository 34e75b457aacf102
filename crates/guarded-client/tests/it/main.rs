//! Requests over real sockets.

mod answers;
mod connections;
mod kept;
mod lookups;
mod names;
mod proxy;
mod support;
mod tls;
