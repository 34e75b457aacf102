//! Synchronization of a server's tokens with its store.

use std::{
    convert::Infallible,
    sync::Arc,
    time::{Duration, Instant},
};

use schemars::JsonSchema;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::{Access, Token};
use crate::store::{MAX_BATCH, Store, StoreResult, StoredToken, StoredTokens};

/// Pause between two polls of the store, so that a token created or revoked on one server takes
/// effect on all servers within a second.
const POLL_INTERVAL: Duration = Duration::from_millis(800);

/// Maximum number of uses that one call of the store records.
const MAX_USES_PER_CALL: usize = MAX_BATCH;

/// Reads the tokens from the store if they have changed.
///
/// # Errors
/// Any error of the store. The known tokens stay in force for a while: see [`Access`].
pub async fn refresh(access: &Access, store: &dyn Store) -> StoreResult<()> {
    refresh_with(access, |known| store.tokens(known)).await
}

async fn refresh_with<R: Future<Output = StoreResult<Option<StoredTokens>>>>(
    access: &Access,
    read: impl FnOnce(Option<u64>) -> R,
) -> StoreResult<()> {
    let _guard = access.lock_refresh().await;
    let requested_at = Instant::now();
    match read(access.version()).await? {
        None => access.confirm_current(requested_at),
        Some(StoredTokens { version, tokens }) => {
            let (tokens, unreadable) = parse_stored(tokens);
            for UnreadableToken { name, error } in &unreadable {
                tracing::error!(
                    name,
                    error,
                    "failed to read a stored token: requests with it are refused; revoke it, or \
                     run the version that created it"
                );
            }
            access.replace(version, tokens, !unreadable.is_empty(), requested_at);
        }
    }
    Ok(())
}

/// A stored token that this version cannot read, such as one with a scope of a later version.
#[derive(Debug, Serialize, JsonSchema)]
pub struct UnreadableToken {
    /// The name as stored.
    pub name: String,
    /// Why it cannot be read.
    pub error: String,
}

/// Separates the readable tokens from the unreadable ones.
pub fn parse_stored(tokens: Vec<StoredToken>) -> (Vec<Token>, Vec<UnreadableToken>) {
    let (mut readable, mut unreadable) = (Vec::new(), Vec::new());
    for StoredToken { name, text, used_at } in tokens {
        match Token::parse(&name, &text, used_at) {
            Ok(token) => readable.push(token),
            Err(error) => unreadable.push(UnreadableToken { name, error }),
        }
    }
    (readable, unreadable)
}

/// Until `stop`, reads changed tokens from the store and records uses of tokens there.
pub async fn keep_in_sync(access: Arc<Access>, store: Arc<dyn Store>, stop: CancellationToken) {
    // Both run concurrently, so that a slow recording of uses does not delay reading the tokens.
    let (polling, recording) = (poll_changes(&access, &*store), record_uses(&access, &*store));
    tokio::select! {
        never = polling => match never {},
        never = recording => match never {},
        () = stop.cancelled() => {}
    }
}

async fn poll_changes(access: &Access, store: &dyn Store) -> Infallible {
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        if let Err(error) = refresh(access, store).await {
            tracing::debug!(%error, "failed to read the tokens");
        }
    }
}

async fn record_uses(access: &Access, store: &dyn Store) -> Infallible {
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        for uses in access.unrecorded_uses().chunks(MAX_USES_PER_CALL) {
            let named = uses.iter().map(|(token, at)| (token.name.to_string(), *at)).collect();
            match store.note_token_uses(named).await {
                Ok(()) => uses.iter().for_each(|(token, at)| token.mark_recorded(*at)),
                Err(error) => tracing::debug!(%error, "failed to record the uses of tokens"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn an_older_reading_does_not_replace_a_newer_one() {
        let access = Access::new(None, true);
        let read = |version| Ok(Some(StoredTokens { version, tokens: Vec::new() }));
        let (answer, answered) = oneshot::channel();
        let older = refresh_with(&access, |_| async { read(answered.await.expect("an answer")) });
        let newer = refresh_with(&access, |_| async { read(2) });
        // The older reading must be requested first and answered last.
        let answers = futures::join!(older, newer, async { answer.send(1) });
        assert!(answers.0.is_ok() && answers.1.is_ok());
        assert_eq!(access.version(), Some(2));
    }
}
