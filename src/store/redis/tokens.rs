//! Access tokens: one small hash outside of the buckets. Its version shows servers whether it has
//! changed.

use std::collections::HashMap;

use async_trait::async_trait;
use redis::Value;

use super::{RedisStore, keys, reply::Values, scripts};
use crate::{
    job::UnixMillis,
    store::{
        StoreError, StoreResult, StoredToken, StoredTokens, TokenChange, TokenChanged, TokenStore,
    },
};

/// Approximate number of fields that one `HSCAN` reads.
const PAGE: usize = 500;

#[async_trait]
impl TokenStore for RedisStore {
    async fn tokens(&self, known: Option<u64>) -> StoreResult<Option<StoredTokens>> {
        let key = keys::tokens(&self.prefix);
        let version = self
            .nodes
            .command(keys::slot(&key), redis::cmd("HGET").arg(&key).arg("version"))
            .await?;
        let version: Option<u64> =
            redis::from_redis_value(version).map_err(StoreError::unreadable)?;
        let version = version.unwrap_or_default();
        if known == Some(version) {
            return Ok(None);
        }
        // A change during this scan raises the version, so the next call reads everything again.
        let (mut cursor, mut found, mut used) = (0_u64, Vec::new(), HashMap::new());
        loop {
            let mut scan = redis::cmd("HSCAN");
            scan.arg(&key).arg(cursor).arg("COUNT").arg(PAGE);
            let answer: Value = self.nodes.command(keys::slot(&key), &scan).await?;
            let mut answer = Values::new(answer)?;
            cursor = answer.parsed()?;
            let mut page = answer.inner()?;
            while page.left() > 0 {
                let (field, value) = (page.text()?, page.text()?);
                match field.split_at_checked(1) {
                    Some(("=", name)) => found.push((name.to_owned(), value)),
                    Some(("@", name)) => drop(used.insert(name.to_owned(), value)),
                    _ => {}
                }
            }
            if cursor == 0 {
                break;
            }
        }
        // A scan may return a field twice.
        found.sort_unstable();
        found.dedup_by(|one, other| one.0 == other.0);
        let tokens = found.into_iter().map(|(name, text)| {
            let used_at = used.get(&name).and_then(|at| at.parse().ok()).map(UnixMillis::new);
            StoredToken { name, text, used_at }
        });
        Ok(Some(StoredTokens { version, tokens: tokens.collect() }))
    }

    async fn change_token(&self, change: TokenChange) -> StoreResult<TokenChanged> {
        self.incarnations.check()?;
        let key = keys::tokens(&self.prefix);
        let (verb, name, value) = match change {
            TokenChange::Create { name, text, is_admin: true } => ("create_admin", name, text),
            TokenChange::Create { name, text, is_admin: false } => ("create", name, text),
            TokenChange::Revoke { name } => ("revoke", name, String::new()),
        };
        let eval = |_| {
            let mut eval = redis::cmd("EVAL");
            eval.arg(scripts::CHANGE_TOKEN).arg(1).arg(&key).arg(verb).arg(&name).arg(&value);
            eval
        };
        let confirm = keys::confirm_tokens(&self.prefix);
        let done = self.nodes.script(keys::slot(&key), Some(&confirm), eval).await?;
        match redis::from_redis_value(done).map_err(StoreError::unreadable)? {
            0 => Ok(TokenChanged::NameConflict),
            1 => Ok(TokenChanged::Done),
            2 => Ok(TokenChanged::First),
            3 => Ok(TokenChanged::NeedsAdmin),
            other => Err(StoreError::unreadable(format!("change_token answered {other}"))),
        }
    }

    async fn note_token_uses(&self, uses: Vec<(String, UnixMillis)>) -> StoreResult<()> {
        let key = keys::tokens(&self.prefix);
        let eval = |_| {
            let mut eval = redis::cmd("EVAL");
            eval.arg(scripts::NOTE_TOKEN_USES).arg(1).arg(&key);
            for (name, at) in &uses {
                eval.arg(name).arg(at.get());
            }
            eval
        };
        self.nodes.script(keys::slot(&key), None, eval).await.map(drop)
    }
}
