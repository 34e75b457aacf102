//! The call of a handler: everything that extractors read besides the request.

use std::{convert::Infallible, ops::Range, sync::Arc};

use axum::{
    extract::{FromRef, FromRequestParts, Request},
    handler::Handler,
    http::request::Parts,
    response::Response,
};
use futures::future::BoxFuture;

use super::{
    app::App,
    client::identity::Identity,
    limits::{in_flight::InFlightPermit, quotas::Caller},
};

/// The arguments of an admitted request; axum passes them to extractors as the handler's state.
pub struct Call {
    pub app: App,
    pub identity: Identity,
    pub permit: InFlightPermit,
    /// Position of the only parameter in the request's path; empty if its route has none.
    pub parameter: Range<usize>,
}

/// A handler with its extractors.
#[derive(Clone)]
pub struct Endpoint(Arc<dyn Fn(Request, Call) -> BoxFuture<'static, Response> + Send + Sync>);

impl Endpoint {
    pub fn new<H, T>(handler: H) -> Self
    where
        H: Handler<T, Call, Future = BoxFuture<'static, Response>>,
    {
        Self(Arc::new(move |request, call| handler.clone().call(request, call)))
    }

    pub fn call(&self, request: Request, call: Call) -> BoxFuture<'static, Response> {
        (self.0)(request, call)
    }
}

impl FromRef<Call> for App {
    fn from_ref(call: &Call) -> Self {
        call.app.clone()
    }
}

impl FromRequestParts<Call> for Identity {
    type Rejection = Infallible;

    async fn from_request_parts(_: &mut Parts, call: &Call) -> Result<Self, Infallible> {
        Ok(call.identity.clone())
    }
}

impl FromRequestParts<Call> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(_: &mut Parts, call: &Call) -> Result<Self, Infallible> {
        Ok(Self::new(&call.identity))
    }
}

impl FromRequestParts<Call> for InFlightPermit {
    type Rejection = Infallible;

    async fn from_request_parts(_: &mut Parts, call: &Call) -> Result<Self, Infallible> {
        Ok(call.permit.clone())
    }
}
