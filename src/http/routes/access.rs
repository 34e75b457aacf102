//! `GET /access`: the caller's scopes, so that clients offer only permitted actions.

use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    access::{Scopes, TokenName},
    http::{app::App, client::identity::Identity, extract::input::NoQuery, wire::json::Json},
    job::UnixMillis,
};

/// The scopes of the caller's token; all scopes where requests need no token.
#[derive(Serialize, JsonSchema)]
pub struct Access {
    /// The name of the token; null if requests need none.
    name: Option<TokenName>,
    scopes: Scopes,
    /// When the token expires; null means never.
    expires_at: Option<UnixMillis>,
}

pub async fn access(State(_): State<App>, identity: Identity, _: NoQuery) -> Json<Access> {
    Json(match identity.token() {
        Some(token) => Access {
            name: Some(token.name.clone()),
            scopes: token.scopes.clone(),
            expires_at: token.expires_at,
        },
        None => Access { name: None, scopes: Scopes::all(), expires_at: None },
    })
}
