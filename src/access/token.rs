//! A token as stores and servers know it, without its secret.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use super::{Scopes, TokenHash, TokenName};
use crate::job::UnixMillis;

/// Minimum time between two recorded uses of a token, in milliseconds.
const USE_INTERVAL_MILLIS: u64 = 60_000;

/// A token without its secret text.
#[derive(Debug)]
pub struct Token {
    /// The name that people use.
    pub name: TokenName,
    /// The hash by which servers find it.
    pub hash: TokenHash,
    /// The allowed calls and topics.
    pub scopes: Scopes,
    /// When it was created.
    pub created_at: UnixMillis,
    /// When it expires; `None` means never.
    pub expires_at: Option<UnixMillis>,
    /// The last use that this server knows, in Unix milliseconds; 0 means never.
    used_at: AtomicU64,
    /// The last use that the store knows, in Unix milliseconds; 0 means never.
    recorded_at: AtomicU64,
}

/// The persisted form of a token, which later versions must still parse.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenRecord {
    hash: String,
    scopes: Scopes,
    created_at: UnixMillis,
    expires_at: Option<UnixMillis>,
}

impl Token {
    /// Creates an unused token.
    pub fn new(
        name: TokenName,
        hash: TokenHash,
        scopes: Scopes,
        created_at: UnixMillis,
        expires_at: Option<UnixMillis>,
    ) -> Self {
        Self {
            name,
            hash,
            scopes,
            created_at,
            expires_at,
            used_at: AtomicU64::new(0),
            recorded_at: AtomicU64::new(0),
        }
    }

    /// Reads a token from a store.
    ///
    /// # Errors
    /// The text is not the record of a valid token.
    pub fn parse(name: &str, text: &str, used_at: Option<UnixMillis>) -> Result<Self, String> {
        let TokenRecord { hash, scopes, created_at, expires_at } =
            serde_json::from_str(text).map_err(|error| error.to_string())?;
        scopes.check().map_err(|error| error.to_string())?;
        let name = name.parse().map_err(|error: crate::job::NameError| error.to_string())?;
        let token = Self::new(name, hash.parse()?, scopes, created_at, expires_at);
        let used_at = used_at.map_or(0, UnixMillis::get);
        token.used_at.store(used_at, Ordering::Relaxed);
        token.recorded_at.store(used_at, Ordering::Relaxed);
        Ok(token)
    }

    /// Returns the record for a store.
    pub fn record(&self) -> String {
        let Self { hash, scopes, created_at, expires_at, .. } = self;
        let record = TokenRecord {
            hash: hash.to_string(),
            scopes: scopes.clone(),
            created_at: *created_at,
            expires_at: *expires_at,
        };
        serde_json::to_string(&record).expect("its fields can be written")
    }

    /// Returns whether the token has expired.
    pub fn has_expired(&self, now: UnixMillis) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }

    /// Records a use.
    pub fn record_use(&self, now: UnixMillis) {
        // Loads before it stores: concurrent requests must not contend for this cache line.
        if self.used_at.load(Ordering::Relaxed) < now.get() {
            self.used_at.store(now.get(), Ordering::Relaxed);
        }
    }

    /// Returns the last use if the store should record it: the store knows no use yet, or one that
    /// is at least a minute older.
    pub fn unrecorded_use(&self) -> Option<UnixMillis> {
        let recorded = self.recorded_at.load(Ordering::Relaxed);
        let is_due = |at: &UnixMillis| {
            recorded == 0 || at.get() >= recorded.saturating_add(USE_INTERVAL_MILLIS)
        };
        self.last_used_at().filter(is_due)
    }

    /// Marks a use as recorded in the store.
    pub fn mark_recorded(&self, at: UnixMillis) {
        self.recorded_at.store(at.get(), Ordering::Relaxed);
    }

    /// Returns the last use that this server knows.
    pub fn last_used_at(&self) -> Option<UnixMillis> {
        Some(self.used_at.load(Ordering::Relaxed)).filter(|&at| at > 0).map(UnixMillis::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::SecretToken;

    #[test]
    fn a_token_survives_a_round_trip_through_its_record() {
        let hash = SecretToken::generate().expect("randomness").hash();
        let scopes: Scopes = serde_json::from_str(r#"{"pop":["a.*"]}"#).expect("scopes");
        let time = UnixMillis::new;
        let token = Token::new(
            "ci".parse().expect("a name"),
            hash,
            scopes.clone(),
            time(1_763_690_000_000),
            Some(time(1_763_690_000_500)),
        );
        let text = token.record();
        assert_eq!(
            text,
            format!(
                r#"{{"hash":"{hash}","scopes":{{"pop":["a.*"]}},"created_at":"2025-11-21T01:53:20.000Z","expires_at":"2025-11-21T01:53:20.500Z"}}"#
            )
        );
        let read = Token::parse("ci", &text, Some(time(7))).expect("its own text");
        assert_eq!((&read.name, read.hash, &read.scopes), (&token.name, hash, &scopes));
        assert_eq!((read.created_at, read.expires_at), (token.created_at, token.expires_at));
        assert_eq!(read.last_used_at(), Some(time(7)));
        assert!(!read.has_expired(time(1_763_690_000_499)));
        assert!(read.has_expired(time(1_763_690_000_500)));
        read.record_use(time(9));
        read.record_use(time(8));
        assert_eq!(read.last_used_at(), Some(time(9)));
    }

    #[test]
    fn an_unreadable_record_is_refused() {
        let hash = "0".repeat(64);
        for text in [
            "",
            "{}",
            &format!(
                r#"{{"hash":"{hash}","scopes":{{}},"created_at":1763690000000,"expires_at":null}}"#
            ),
            r#"{"hash":"x","scopes":{"put":["*"]},"created_at":1763690000000,"expires_at":null}"#,
        ] {
            assert!(Token::parse("ci", text, None).is_err(), "{text}");
        }
    }
}
