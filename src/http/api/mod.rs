//! The API, declared once: each route with its handler, what it needs of a caller, what it takes, and how it answers.
//!
//! The router, the check of scopes and `/openapi.json` follow from these declarations; the types of requests and
//! answers, the limits that are checked and the codes of problems are those of the code. Tests hold docs/api.md and
//! real answers to them.

mod batches;
mod consumers;
mod examples;
mod jobs;
mod no_route;
mod operations;
mod parameters;
mod router;
mod server;
mod tokens;
mod topics;

pub use self::{
    no_route::{no_route, wrong_method},
    router::{documentation, needs, routes},
};
