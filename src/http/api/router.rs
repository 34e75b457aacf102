//! Builds routers from the declarations of routes.

use std::sync::LazyLock;

use axum::{
    Extension, Router,
    extract::MatchedPath,
    http::{Method, header::ALLOW},
    response::IntoResponse,
};

use super::{
    no_route::{methods_of, wrong_method},
    operations,
};
use crate::http::{
    app::App,
    client::need::Needs,
    file::Tagged,
    openapi::{Description, Listener, Schemas, document},
};

static DESCRIPTION: LazyLock<Tagged> = LazyLock::new(|| {
    let mut schemas = Schemas::new();
    let operations = operations::all(&mut schemas);
    let text = serde_json::to_string(&document(operations, schemas)).unwrap_or_default();
    Tagged::new("application/json", (text + "\n").into_bytes())
});

pub fn needs() -> Needs {
    let mut needs = Needs::default();
    for operation in operations::ALL.iter() {
        let is_limited = operation.listener == Listener::Queue;
        needs.add(operation.path, operation.method.clone(), operation.need, is_limited);
    }
    needs
}

/// Returns the routes of this listener only, without those of `Both`.
pub fn routes(listener: Listener) -> Router<App> {
    let all = operations::ALL.iter().filter(|operation| operation.listener == listener);
    all.fold(Router::new(), |routes, operation| {
        let handler = operation.handler.clone();
        let handler = match operation.refuses_head {
            true => handler.head(refused).fallback(refused),
            false => handler,
        };
        routes.route(operation.path, handler)
    })
}

/// Returns the routes of the API's description, for programs and for people.
pub fn documentation() -> Router<App> {
    let description = routes(Listener::Description).layer(Extension(Description(&DESCRIPTION)));
    Router::new().nest("/v1", description.clone()).merge(description).merge(routes(Listener::Page))
}

async fn refused(method: Method, path: MatchedPath) -> impl IntoResponse {
    let takes = methods_of(path.as_str()).unwrap_or_default();
    ([(ALLOW, takes)], wrong_method(method, Some(path)).await)
}
