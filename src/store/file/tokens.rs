//! Access tokens in the file, and the version by which readers know whether they changed.

use std::sync::atomic::Ordering;

use super::{FileStore, machine::Write, pending::has_token, writer::WriterState};
use crate::store::{StoreError, StoreResult, StoredTokens, TokenChange};

impl FileStore {
    pub(super) async fn read_tokens(
        &self,
        known: Option<u64>,
    ) -> StoreResult<Option<StoredTokens>> {
        let version = self.tokens_version.load(Ordering::SeqCst);
        if known == Some(version) {
            return Ok(None);
        }
        // What changes meanwhile has another version, and is read again.
        let read = |writer: &mut WriterState| writer.records.tokens().map_err(StoreError::away);
        Ok(Some(StoredTokens { version, tokens: self.writer.read(read).await? }))
    }

    pub(super) async fn change_one_token(&self, change: TokenChange) -> StoreResult<bool> {
        let is_use = matches!(change, TokenChange::Used { .. });
        let change_one = move |writer: &mut WriterState| {
            let there = writer.records.tokens().map_err(StoreError::away)?;
            let (name, may_be_there) = match &change {
                TokenChange::Create { name, .. } => (name, false),
                TokenChange::Revoke { name } | TokenChange::Used { name, .. } => (name, true),
            };
            if has_token(&writer.writes, &there, name) != may_be_there {
                return Ok(false);
            }
            writer.writes.push(Write::Token(change));
            Ok(true)
        };
        let changed = self.writer.call(change_one).await?;
        // Not before the commit: a server that has read the version has read the change.
        if changed && !is_use {
            self.tokens_version.fetch_add(1, Ordering::SeqCst);
        }
        Ok(changed)
    }
}
