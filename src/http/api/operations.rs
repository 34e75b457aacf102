//! The declarations of all routes.

use std::sync::LazyLock;

use super::{batches, consumers, jobs, push, schedules, server, tokens, topics};
use crate::http::openapi::{Operation, Schemas};

pub static ALL: LazyLock<Vec<Operation>> = LazyLock::new(|| all(&mut Schemas::new()));

/// Declares all routes in the order of their groups, and collects their schemas in `schemas`.
pub fn all(schemas: &mut Schemas) -> Vec<Operation> {
    let mut all = jobs::operations(schemas);
    all.extend(consumers::operations(schemas));
    all.extend(batches::operations(schemas));
    all.extend(topics::operations(schemas));
    all.extend(push::operations(schemas));
    all.extend(schedules::operations(schemas));
    all.extend(tokens::operations(schemas));
    all.extend(server::operations(schemas));
    all
}
