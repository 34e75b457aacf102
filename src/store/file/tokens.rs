//! Access tokens in the file, and the version by which readers know whether they changed.

use std::sync::{Arc, atomic::Ordering};

use super::{FileStore, machine::Write, pending::tokens_after, writer::WriterState};
use crate::{
    job::UnixMillis,
    store::{StoreError, StoreResult, StoredTokens, TokenChange},
};

impl FileStore {
    pub(super) async fn read_tokens(
        &self,
        known: Option<u64>,
    ) -> StoreResult<Option<StoredTokens>> {
        let current = Arc::clone(&self.tokens_version);
        // Without the writer: while it waits for a slow disk, tokens stay known.
        if known == Some(current.load(Ordering::SeqCst)) {
            return Ok(None);
        }
        let read = move |writer: &mut WriterState| {
            let tokens = writer.records.tokens().map_err(StoreError::away)?;
            let tokens = tokens_after(&writer.writes, tokens);
            Ok(StoredTokens { version: current.load(Ordering::SeqCst), tokens })
        };
        self.writer.read(read).await.map(Some)
    }

    pub(super) async fn change_one_token(&self, change: TokenChange) -> StoreResult<bool> {
        let version = Arc::clone(&self.tokens_version);
        let change_one = move |writer: &mut WriterState| {
            let there = writer.records.tokens().map_err(StoreError::away)?;
            let there = tokens_after(&writer.writes, there);
            let (name, may_be_there) = match &change {
                TokenChange::Create { name, .. } => (name, false),
                TokenChange::Revoke { name } => (name, true),
            };
            if there.iter().any(|token| token.name == *name) != may_be_there {
                return Ok(false);
            }
            writer.writes.push(Write::Token(change));
            // With the work, not after the commit: the caller may have gone by then, or the outcome be
            // unknown. The readers of the new version wait for the commit.
            version.fetch_add(1, Ordering::SeqCst);
            Ok(true)
        };
        self.writer.call(change_one).await
    }

    pub(super) async fn note_token_uses(&self, uses: Vec<(String, UnixMillis)>) -> StoreResult<()> {
        let note = move |writer: &mut WriterState| {
            writer.writes.push(Write::TokenUses(uses));
            Ok(())
        };
        self.writer.call(note).await
    }
}
