//! All routes, by groups.

use std::sync::LazyLock;

use super::{batches, consumers, jobs, server, tokens, topics};
use crate::http::openapi::{Operation, Schemas};

/// All of them, made once.
pub static ALL: LazyLock<Vec<Operation>> = LazyLock::new(|| all(&mut Schemas::new()));

/// All of them, in the order of their groups; their schemas are asked of `schemas`.
pub fn all(schemas: &mut Schemas) -> Vec<Operation> {
    let mut all = jobs::operations(schemas);
    all.extend(consumers::operations(schemas));
    all.extend(batches::operations(schemas));
    all.extend(topics::operations(schemas));
    all.extend(tokens::operations(schemas));
    all.extend(server::operations(schemas));
    all
}
