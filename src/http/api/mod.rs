//! Declarations of all routes: handler, need, requests and answers.
//!
//! The router, the check of scopes and `/openapi.json` follow from them; types, limits and problem
//! codes are the ones in the code. Tests compare docs/api.md and real answers with them.

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
