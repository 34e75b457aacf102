//! Routes of access tokens.

use axum::http::Method;
use serde_json::json;

use crate::{
    access::{SHOWN_ONCE, Scope, TokenName},
    http::{
        openapi::{Listener, Operation, Schemas, on},
        problem::Code,
        routes::{
            access::{self, Access},
            tokens::{self, CreateToken, TokenResponse, TokensPage},
        },
    },
};

pub fn operations(schemas: &mut Schemas) -> Vec<Operation> {
    let of_admins = [list(schemas), create(schemas), revoke(schemas)];
    let of_admins =
        of_admins.map(|operation| operation.needs(&[Scope::Admin]).served_on(Listener::Operations));
    let all = [access(schemas)].into_iter().chain(of_admins);
    all.map(|operation| operation.tag("Tokens")).collect()
}

fn access(schemas: &mut Schemas) -> Operation {
    let answer = json!({
        "name": "shop", "scopes": { "put": ["billing.*"], "pop": ["mail"] }, "expires_at": null,
    });
    Operation::new(
        on(Method::GET, access::access),
        "/access",
        "get_access",
        "Get the scopes of the caller",
    )
    .text("Where requests need no token, `name` is null and every scope has `*`.")
    .needs_any_token()
    .gives(200, "The scopes of the token.", &schemas.answer::<Access>(), &answer)
}

fn list(schemas: &mut Schemas) -> Operation {
    let answer = json!({ "tokens": [{
        "name": "shop", "scopes": { "put": ["billing.*"], "pop": ["mail"] },
        "created_at": "2030-01-31T12:00:00.000Z", "expires_at": null, "last_used_at": null,
    }] });
    Operation::new(on(Method::GET, tokens::list), "/tokens", "list_tokens", "List the tokens")
        .text("All tokens, without their secret texts.")
        .gives(200, "The tokens.", &schemas.answer::<TokensPage>(), &answer)
}

fn create(schemas: &mut Schemas) -> Operation {
    let token = json!({
        "name": "shop", "scopes": { "put": ["billing.*"], "pop": ["mail"] },
        "expires_at": "2040-01-31T12:00:00Z",
    });
    let answer = json!({
        "name": "shop", "token": format!("dq_{}", "0".repeat(72)),
        "scopes": { "put": ["billing.*"], "pop": ["mail"] },
        "created_at": "2030-01-31T12:00:00.000Z", "expires_at": "2040-01-31T12:00:00.000Z",
        "last_used_at": null, "notice": SHOWN_ONCE,
    });
    let made = "A token that was just created, with its secret text.";
    let new = schemas.complete::<TokenResponse>("NewToken", made);
    Operation::new(on(Method::POST, tokens::create), "/tokens", "create_token", "Create a token")
        .text("Once the first token exists, every request needs a token, so the first must have the scope `admin`. \
             The secret text of a token is shown only in this answer.")
        .takes(&schemas.request::<CreateToken>(), &token)
        .gives(201, "The token.", &new, &answer)
        .refuses(&[Code::TokenExists, Code::FirstTokenNeedsAdmin])
}

fn revoke(schemas: &mut Schemas) -> Operation {
    let name = schemas.request::<TokenName>();
    Operation::new(
        on(Method::DELETE, tokens::revoke),
        "/tokens/{name}",
        "revoke_token",
        "Revoke a token",
    )
    .text(
        "Within a second, every server refuses the token. A token that has set pushes or schedules that are not paused \
         is not revoked without `then`, since they would go on.",
    )
    .in_path("name", &name, "The token's name.", "shop")
    .in_query(
        "then",
        false,
        &json!({ "type": "string", "enum": ["pause", "keep"] }),
        "Whether the pushes and schedules that the token has set are paused or go on.",
    )
    .may_take_nothing()
    .done(204, "The token is revoked.")
    .refuses(&[Code::TokenNotFound, Code::TokenInUse])
}
