//! Routes of access tokens; they need the scope `admin`.

use axum::{
    extract::State,
    http::{StatusCode, Uri},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::token_uses::TokenUses;
use crate::{
    access::{Scopes, ScopesError, Token, TokenError, TokenName, UnreadableToken},
    http::{
        app::App,
        client::identity::Identity,
        edge::log::AuditDetail,
        extract::{
            content::Content,
            input::{NoQuery, PathToken},
            parse::{no_body, parse},
            query::Query,
        },
        problem::{Code, Problem},
        wire::json::Json,
    },
    job::UnixMillis,
    store::Applied,
};

/// Access token to create.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateToken {
    /// Name of the token, unique in the store.
    #[schemars(with = "TokenName")]
    name: Option<TokenName>,
    #[schemars(with = "Scopes")]
    scopes: Option<Scopes>,
    /// When the token expires, a time in the future. Default: never.
    expires_at: Option<UnixMillis>,
}

/// An access token.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Token")]
pub struct TokenResponse {
    /// Name of the token.
    name: TokenName,
    /// The secret text for `Authorization`. Only in the answer that creates the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    /// Consequences of creating the token, such as those of a store's first token for all clients.
    /// Only in the answer that creates the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    notice: Option<&'static str>,
    scopes: Scopes,
    /// When the token was created.
    created_at: UnixMillis,
    /// When the token expires; null means never.
    expires_at: Option<UnixMillis>,
    /// When the token was last used, to within about a minute; null if never.
    last_used_at: Option<UnixMillis>,
}

impl TokenResponse {
    fn new(token: &Token, text: Option<String>) -> Self {
        Self {
            name: token.name.clone(),
            token: text,
            notice: None,
            scopes: token.scopes.clone(),
            created_at: token.created_at,
            expires_at: token.expires_at,
            last_used_at: token.last_used_at(),
        }
    }
}

/// All access tokens.
#[derive(Serialize, JsonSchema)]
pub struct TokensPage {
    /// The tokens, ordered by name.
    tokens: Vec<TokenResponse>,
    /// Tokens that this version cannot read, and therefore refuses. Absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unreadable: Vec<UnreadableToken>,
}

pub async fn create(
    State(app): State<App>,
    identity: Identity,
    _: NoQuery,
    Content(content): Content,
) -> Result<(StatusCode, AuditDetail, Json<TokenResponse>), Problem> {
    identity.topics()?;
    let CreateToken { name, scopes, expires_at } = parse(&content, "")?;
    let name = name.ok_or_else(|| Problem::field("name", "is missing"))?;
    let scopes = scopes.unwrap_or_default();
    let end = expires_at.map_or("never expires".to_owned(), |at| format!("expires at {at}"));
    let detail = AuditDetail(format!("token {name} created with {}; {end}", text(&scopes)));
    let (secret, token, notice) = app.tokens.create(name, scopes, expires_at).await?;
    let text = Some(secret.reveal().to_owned());
    let response = TokenResponse { notice: Some(notice), ..TokenResponse::new(&token, text) };
    Ok((StatusCode::CREATED, detail, Json(response)))
}

fn text(scopes: &Scopes) -> String {
    serde_json::to_string(scopes).unwrap_or_default()
}

pub async fn list(
    State(app): State<App>,
    identity: Identity,
    _: NoQuery,
) -> Result<(AuditDetail, Json<TokensPage>), Problem> {
    identity.topics()?;
    let (tokens, unreadable) = app.tokens.list().await?;
    let shown = tokens.iter().map(|token| TokenResponse::new(token, None)).collect();
    Ok((AuditDetail("tokens listed".to_owned()), Json(TokensPage { tokens: shown, unreadable })))
}

pub async fn revoke(
    State(app): State<App>,
    identity: Identity,
    PathToken(name): PathToken,
    uri: Uri,
    Content(content): Content,
) -> Result<(StatusCode, AuditDetail, ()), Problem> {
    identity.topics()?;
    let mut query = Query::new(&uri);
    let then = query.text("then")?.map(|text| Then::parse(&text)).transpose()?;
    query.reject_unknown()?;
    no_body(&content)?;
    let known = app.tokens.list().await?;
    let is_known = known.0.iter().any(|token| token.name == name);
    if is_known && then != Some(Then::Keep) {
        let uses = TokenUses::find(&app, &name).await?;
        match then {
            Some(_) => uses.pause(&app, &name).await?,
            None => uses.refuse(&name)?,
        }
    }
    let detail = AuditDetail(format!("token {name} revoked"));
    app.tokens.revoke(name.clone()).await?;
    if then == Some(Then::Pause) {
        // The token may have set some while it was being revoked.
        TokenUses::find(&app, &name).await?.pause(&app, &name).await?;
    }
    Ok((StatusCode::NO_CONTENT, detail, ()))
}

/// Treatment of the pushes and schedules of a revoked token.
#[derive(Clone, Copy, PartialEq)]
enum Then {
    Pause,
    Keep,
}

impl Then {
    fn parse(text: &str) -> Result<Self, Problem> {
        match text {
            "pause" => Ok(Self::Pause),
            "keep" => Ok(Self::Keep),
            other => Err(Problem::field("then", format!("must be pause or keep, got {other:?}"))),
        }
    }
}

impl From<TokenError> for Problem {
    fn from(error: TokenError) -> Self {
        let detail = error.to_string();
        match error {
            TokenError::Exists(_) => Self::new(Code::TokenExists, detail),
            TokenError::NotFound(_) => Self::new(Code::TokenNotFound, detail),
            TokenError::FirstNeedsAdmin => Self::new(Code::FirstTokenNeedsAdmin, detail),
            TokenError::Scopes(ScopesError::None | ScopesError::AdminOfTopics) => {
                Self::field("scopes", detail)
            }
            TokenError::Expired(_) => Self::field("expires_at", "must be a future time"),
            TokenError::NoRandomness => {
                Self { cause: Some(detail), applied: Applied::No, ..Self::internal() }
            }
            TokenError::Store(error) => error.into(),
        }
    }
}
