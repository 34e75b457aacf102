//! Access tokens on disk.

use rusqlite::{Row, params};

use super::{Done, Records, damage, row::topic_checksum};
use crate::{
    job::UnixMillis,
    store::{StoredToken, TokenChange},
};

impl Records {
    /// Reads all tokens. Leaves out damaged ones, so that requests with them are refused. Fails if
    /// all tokens are damaged, because a store without tokens may admit every caller.
    pub fn tokens(&self) -> rusqlite::Result<Vec<StoredToken>> {
        // Bypasses the index, which may be damaged while the rows are sound.
        let sql = "SELECT name, text, checksum, used_at FROM tokens NOT INDEXED";
        let mut statement = self.connection.prepare_cached(sql)?;
        let (mut rows, mut tokens, mut damaged) = (statement.query(())?, Vec::new(), None);
        while let Some(row) = rows.next()? {
            match token(row) {
                Ok(token) => tokens.push(token),
                Err(cause) => {
                    tracing::error!(%cause, "skipped a damaged token: its holder is refused; revoke it and create another one");
                    damaged = Some(cause);
                }
            }
        }
        match damaged {
            Some(cause) if tokens.is_empty() => {
                Err(damage(&format!("all tokens are damaged: {cause}")))
            }
            _ => Ok(tokens),
        }
    }

    /// Creates or revokes a token. The caller has checked that the change is allowed.
    pub fn change_token(&self, change: &TokenChange) -> Done {
        match change {
            TokenChange::Create { name, text, .. } => self.run(
                "INSERT OR REPLACE INTO tokens VALUES (?, ?, ?, NULL)",
                params![name, text, token_checksum(name, text)],
            ),
            TokenChange::Revoke { name } => self.run("DELETE FROM tokens WHERE name = ?", [name]),
        }
    }

    /// Records when tokens were used; ignores tokens that do not exist.
    pub fn note_uses(&self, uses: &[(String, UnixMillis)]) -> Done {
        uses.iter().try_for_each(|(name, at)| {
            self.run("UPDATE tokens SET used_at = ? WHERE name = ?", params![at.get(), name])
        })
    }
}

fn token(row: &Row<'_>) -> rusqlite::Result<StoredToken> {
    let (name, text): (String, String) = (row.get(0)?, row.get(1)?);
    if row.get::<_, i64>(2)? != token_checksum(&name, &text) {
        return Err(damage(&format!("the token {name:?} has changed since it was written")));
    }
    // The checksum does not cover this field, and damage of it is ignored, because it only informs
    // operators.
    let used_at = row.get::<_, Option<u64>>(3).unwrap_or_default();
    Ok(StoredToken { name, text, used_at: used_at.map(UnixMillis::new) })
}

pub fn token_checksum(name: &str, text: &str) -> i64 {
    topic_checksum(name, 0, Some(text))
}
