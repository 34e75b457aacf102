//! Requests over real sockets.

mod answers;
mod connections;
mod names;
mod proxy;
mod support;
mod tls;
