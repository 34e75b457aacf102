//! Builds routes from their declarations.

use std::{collections::BTreeMap, sync::LazyLock};

use super::operations;
use crate::http::{
    file::Tagged,
    openapi::{self, Listener, Schemas, document},
    routing::{Handler, Route},
};

static DESCRIPTION: LazyLock<Tagged> = LazyLock::new(|| {
    let mut schemas = Schemas::new();
    let operations = operations::all(&mut schemas);
    let text = serde_json::to_string(&document(operations, schemas)).unwrap_or_default();
    Tagged::new("application/json", (text + "\n").into_bytes())
});

/// Returns the routes that belong to one of these listeners.
pub fn routes(listeners: &[Listener]) -> impl Iterator<Item = Route> {
    openapi::DESCRIPTION.get_or_init(|| &DESCRIPTION);
    let mut routes: BTreeMap<&str, Route> = BTreeMap::new();
    let mine = |listener| listeners.contains(&listener);
    for operation in operations::ALL.iter().filter(|operation| mine(operation.listener)) {
        let route = Route::new(operation.path);
        let route = match operation.listener {
            Listener::Queue => route.limited(),
            Listener::Operations | Listener::Both => route,
            Listener::Description => route.for_everyone(),
            Listener::Page => route.for_everyone().at_root_only(),
        };
        let handler = Handler {
            method: operation.method.clone(),
            takes_head: !operation.refuses_head,
            need: operation.need,
            endpoint: operation.endpoint.clone(),
        };
        let route = routes.remove(operation.path).unwrap_or(route).with(handler);
        routes.insert(operation.path, route);
    }
    routes.into_values()
}
