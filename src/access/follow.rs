//! Keeps the tokens of a server up to date with its store.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio_util::sync::CancellationToken;

use super::{Access, Token};
use crate::store::{Store, StoreResult, StoredToken, StoredTokens, TokenChange};

/// The time between two looks: a token that is made or revoked on one server is known to all of
/// them within a second.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Reads the tokens from the store, if there are others than before.
///
/// # Errors
/// The store's. What was known stays in force for a while: see [`Access`].
pub async fn refresh(access: &Access, store: &dyn Store) -> StoreResult<()> {
    let asked = Instant::now();
    match store.tokens(access.version()).await? {
        None => access.compared(asked),
        Some(StoredTokens { version, tokens }) => access.replace(version, parsed(tokens), asked),
    }
    Ok(())
}

/// Those that can be read. One that cannot lets no one in.
pub fn parsed(tokens: Vec<StoredToken>) -> Vec<Token> {
    let parse = |token: StoredToken| {
        let parsed = Token::parse(&token.name, &token.text, token.used_at);
        parsed.inspect_err(|error| {
            tracing::error!(name = token.name, error, "left an unreadable token aside");
        })
    };
    tokens.into_iter().map(parse).filter_map(Result::ok).collect()
}

/// Looks for changes until `stop`, and notes which tokens were used.
pub async fn follow(access: Arc<Access>, store: Arc<dyn Store>, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(POLL_INTERVAL) => {}
            () = stop.cancelled() => return,
        }
        if let Err(error) = refresh(&access, &*store).await {
            tracing::debug!(%error, "failed to read the tokens");
            continue;
        }
        for (token, at) in access.unnoted_uses() {
            let change = TokenChange::Used { name: token.name.to_string(), at };
            match store.change_token(change).await {
                Ok(_) => token.noted(at),
                Err(error) => tracing::debug!(%error, "failed to note the use of a token"),
            }
        }
    }
}
