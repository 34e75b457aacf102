//! Access tokens in the file, and the version that shows readers whether they changed.

use std::sync::{Arc, atomic::Ordering};

use async_trait::async_trait;

use super::{
    FileStore, health::Need, machine::Write, pending::tokens_after, writer_state::WriterState,
};
use crate::{
    job::UnixMillis,
    store::{StoreError, StoreResult, StoredTokens, TokenChange, TokenChanged, TokenStore},
};

#[async_trait]
impl TokenStore for FileStore {
    async fn tokens(&self, known: Option<u64>) -> StoreResult<Option<StoredTokens>> {
        let current = Arc::clone(&self.tokens_version);
        // Bypasses the writer, so that tokens can be checked while it waits for a slow disk.
        if known == Some(current.load(Ordering::SeqCst)) {
            return Ok(None);
        }
        let read = move |writer: &mut WriterState| {
            let tokens = writer.records.tokens().map_err(StoreError::unavailable)?;
            let tokens = tokens_after(&writer.writes, tokens);
            Ok(StoredTokens { version: current.load(Ordering::SeqCst), tokens })
        };
        self.writer.read(read).await.map(Some)
    }

    async fn change_token(&self, change: TokenChange) -> StoreResult<TokenChanged> {
        let version = Arc::clone(&self.tokens_version);
        let need = match change {
            TokenChange::Create { .. } => Need::Growing,
            TokenChange::Revoke { .. } => Need::Writing,
        };
        let change_one = move |writer: &mut WriterState| {
            let there = writer.records.tokens().map_err(StoreError::unavailable)?;
            let there = tokens_after(&writer.writes, there);
            let is_there = |name: &str| there.iter().any(|token| token.name == *name);
            let done = match &change {
                TokenChange::Create { name, .. } if is_there(name) => {
                    return Ok(TokenChanged::NameConflict);
                }
                TokenChange::Create { is_admin, .. } if there.is_empty() => match is_admin {
                    true => TokenChanged::First,
                    false => return Ok(TokenChanged::NeedsAdmin),
                },
                TokenChange::Revoke { name } if !is_there(name) => {
                    return Ok(TokenChanged::NameConflict);
                }
                TokenChange::Create { .. } | TokenChange::Revoke { .. } => TokenChanged::Done,
            };
            writer.writes.push(Write::Token(change));
            // Raises the version now, not after the commit: by then the caller may have
            // disconnected, or the outcome may be unknown. Readers of the new version wait for the
            // commit.
            version.fetch_add(1, Ordering::SeqCst);
            Ok(done)
        };
        self.writer.call_with(need, change_one).await
    }

    async fn note_token_uses(&self, uses: Vec<(String, UnixMillis)>) -> StoreResult<()> {
        let note = move |writer: &mut WriterState| {
            writer.writes.push(Write::TokenUses(uses));
            Ok(())
        };
        self.writer.call_with(Need::Growing, note).await
    }
}
