//! The layout of a store's jobs, written at the first start and compared at every later start. A
//! step that upgrades stores of an older schema would begin in [`Layout::agree`].

use crate::job::{Buckets, HASH_NAME};

use super::error::OpenError;

/// Version of keys, tables and records. Raise it with every change of the persisted formats.
pub const SCHEMA: u32 = 6;

/// Layout as written into a store. Persisted: the text must stay readable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    schema: u32,
    hash: String,
    buckets: u16,
}

impl Layout {
    /// Returns the layout of a new store.
    pub fn new(buckets: Buckets) -> Self {
        Self { schema: SCHEMA, hash: HASH_NAME.to_owned(), buckets: buckets.get() }
    }

    /// Formats the layout: `schema=6 hash=xxh3-64 buckets=16`.
    pub fn text(&self) -> String {
        format!("schema={} hash={} buckets={}", self.schema, self.hash, self.buckets)
    }

    /// Parses the text that [`text`](Self::text) returns.
    fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split(' ');
        let mut field = |name: &str| fields.next()?.strip_prefix(name)?.strip_prefix('=');
        Some(Self {
            schema: field("schema")?.parse().ok()?,
            hash: field("hash")?.to_owned(),
            buckets: field("buckets")?.parse().ok()?,
        })
    }

    /// Parses `found`, the layout text of a store. Checks that this program can use the store, and
    /// that the configured number of buckets, `asked`, equals the store's. Returns the store's.
    ///
    /// # Errors
    /// [`OpenError::Layout`] names the part that differs and says what to do.
    pub fn agree(found: &str, asked: Option<Buckets>) -> Result<Buckets, OpenError> {
        let differs = |part, found: String, asked: String, advice| {
            Err(OpenError::Layout { part, found, asked, advice })
        };
        let Some(layout) = Self::parse(found) else {
            let asked = Self::new(asked.unwrap_or(Buckets::ONE)).text();
            let advice = "Check that store.url and store.prefix name a store of delay-queue, and \
                          that no newer version created it.";
            return differs("layout", format!("{found:?}"), asked, advice);
        };
        if layout.schema != SCHEMA {
            let advice = match layout.schema < SCHEMA {
                true => {
                    "To move its jobs, stop the servers and run `delay-queue export FILE` of the version that \
                     created the store. Then set another store.url or store.prefix, and run `delay-queue import \
                     FILE` of this version."
                }
                false => "Use the version of delay-queue that created the store, or a newer one.",
            };
            return differs("schema", layout.schema.to_string(), SCHEMA.to_string(), advice);
        }
        if layout.hash != HASH_NAME {
            let advice = "Use the version of delay-queue that created the store.";
            return differs("hash", layout.hash, HASH_NAME.to_owned(), advice);
        }
        let buckets = Buckets::try_from(layout.buckets).map_err(|error| OpenError::Layout {
            part: "buckets",
            found: layout.buckets.to_string(),
            asked: error.to_string(),
            advice: "The recorded layout is damaged: restore it from a backup.",
        })?;
        match asked {
            Some(asked) if asked != buckets => differs(
                "buckets",
                buckets.get().to_string(),
                asked.get().to_string(),
                "Set store.buckets to the store's number, or remove it: the server then uses the store's.",
            ),
            _ => Ok(buckets),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buckets(count: u16) -> Buckets {
        count.try_into().expect("a number of buckets")
    }

    #[test]
    fn the_text_never_changes_and_is_parsed_back() {
        let text = Layout::new(buckets(16)).text();
        assert_eq!(text, "schema=6 hash=xxh3-64 buckets=16");
        assert_eq!(Layout::agree(&text, None).expect("its own text"), buckets(16));
        assert_eq!(Layout::agree(&text, Some(buckets(16))).expect("the same"), buckets(16));
    }

    #[test]
    fn every_difference_is_refused_by_name() {
        let cases = [
            ("schema=6 hash=xxh3-64 buckets=8", "buckets = 8"),
            ("schema=1 hash=xxh3-64 buckets=16", "schema = 1"),
            ("schema=7 hash=xxh3-64 buckets=16", "schema = 7"),
            ("schema=5 hash=xxh3-64 buckets=16", "schema = 5"),
            ("schema=6 hash=crc32 buckets=16", "hash = crc32"),
            ("schema=6 hash=xxh3-64 buckets=0", "buckets = 0"),
            ("hello", "layout = \"hello\""),
        ];
        for (text, named) in cases {
            let error = Layout::agree(text, Some(buckets(16))).expect_err(text).to_string();
            assert!(error.contains(named), "{error}");
        }
    }
}
