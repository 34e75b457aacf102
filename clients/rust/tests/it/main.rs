//! Tests of the crate from outside: on the fake, and on a server that answers as a test says.

#![expect(clippy::unwrap_used, reason = "a helper fails the test that calls it")]

mod calls;
mod fake;
mod gather;
mod readme;
mod stub;
mod tls;
mod webhook;
mod worker;
