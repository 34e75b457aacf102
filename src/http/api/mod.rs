//! Declarations of all routes: handler, required scope, request and answers.
//!
//! The router, the scope check and `/openapi.json` are built from these declarations, which refer
//! to the server's own types, limits and problem codes. Tests compare docs/api.md and real answers
//! with them.

mod batches;
mod consumers;
mod examples;
mod jobs;
mod no_route;
mod operations;
mod parameters;
mod push;
mod router;
mod schedules;
mod server;
mod tokens;
mod topics;

pub use self::{no_route::no_route, router::routes};
