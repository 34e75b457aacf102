//! All tests with real stores, real HTTP and the real binary. They are one program, so that shared
//! code is compiled and linked only once.

#[macro_use]
mod support;

mod api;
mod crash;
mod disk;
mod faults;
mod prelude;
mod protocol;
mod soak;
mod start;
mod store;
