//! Every key that a store on Redis has. Persisted: names and contents must stay stable, or
//! [`SCHEMA`](super::super::layout) be raised.
//!
//! `<tag>` is the bucket's hash tag; `t` a topic. All keys live as long as there is something in
//! them. Sizes are for a pending job with a 200-byte body and a server-made id.
//!
//! | key | type | holds | bytes a job |
//! |---|---|---|---|
//! | `<prefix>:layout` | string | schema, hash and number of buckets | – |
//! | `{<prefix>:layout}:reservations` | string | the secret key of the tags of reservations, in the slot of the layout | – |
//! | `<tag>:incarnation` | string | made with the store: another one is another store | – |
//! | `{<prefix>:layout}:accepted` | hash | bucket → incarnation, where the loss of what was there before was accepted | – |
//! | `{<prefix>:topics}:paused` | hash | topics that hand out nothing: 1, or until when in Unix ms | – |
//! | `{<prefix>:topics}:defaults` | hash | topic → its defaults as JSON | – |
//! | `{<prefix>:topics}:version` | number | grows with every change of these two | – |
//! | `{<prefix>:topics}:changes` | sorted set | `<version> <t>` → version, for the last 10,000 changes | – |
//! | `{<prefix>:topics}:servers` | sorted set | id of a server at work → end of its lease (`leases.rs`) | – |
//! | `{<prefix>:tokens}:all` | hash | `=<name>` → an access token as JSON, `@<name>` → its last use, and their version | – |
//! | `<tag>:confirm`, `{<prefix>:topics}:confirm`, `{<prefix>:tokens}:confirm` | hash | a field that comes and goes with each confirmation (`transport/confirmed.rs`) | – |
//! | `<tag>:pool` | hash | id → the record as put (`codec.rs`), until the job is gone | 330 |
//! | `<tag>:bodies` | hash | id → the body, if it is longer than 4,096 bytes | – |
//! | `<tag>:attempts` | hash | id → attempts and reservation, from the first pop on | – |
//! | `<tag>:bucket` | sorted set | `<state>:<t>` → when the timer must look there next | – |
//! | `<tag>:topics` | sorted set | the names of topics that have jobs here, all at 0 | – |
//! | `<tag>:delayed:<t>` | sorted set | id → due time | 100 |
//! | `<tag>:ready:<t>` | sorted set | id → due time | – |
//! | `<tag>:reserved:<t>` | sorted set | id → end of the TTR | – |
//! | `<tag>:dead:<t>` | sorted set | id → end of its retention | – |
//!
//! `<tag>:hints-5:<database>` is a channel: see `hints/`. `<tag>:absent` never exists: see `shared/prelude.lua`.
//!
//! A job is in `pool` and in exactly one of the four sorted sets of its topic. `bucket` may name
//! a set too early (the timer then looks in vain and corrects it), never too late.

use crc::{CRC_16_XMODEM, Crc};

use crate::job::{Bucket, Buckets, State, Topic};

/// Its table is made once, by the compiler.
const CRC: Crc<u16> = Crc::<u16>::new(&CRC_16_XMODEM);
/// Hash slots of a Redis Cluster.
const SLOTS: u32 = 16_384;

/// The keys of one bucket.
#[derive(Debug, Clone)]
pub struct Keys {
    tag: String,
    pub pool: String,
    pub attempts: String,
    pub bodies: String,
    pub bucket: String,
    pub incarnation: String,
    /// Never exists.
    pub absent: String,
    /// Changes with each confirmation.
    pub confirm: String,
    /// The names of topics.
    pub topics: String,
    /// The channel.
    pub hints: String,
    /// The channel of hints of schema 4.
    pub older_hints: String,
    /// The cluster slot of all of them.
    pub slot: u16,
}

impl Keys {
    /// For every bucket of a store with this prefix in this database. Keys of two databases are
    /// different anyhow, channels are not: publishing knows no databases.
    pub fn all(prefix: &str, buckets: Buckets, db: u32) -> Vec<Self> {
        buckets.all().map(|bucket| Self::new(&tag(prefix, bucket, buckets), db)).collect()
    }

    fn new(tag: &str, db: u32) -> Self {
        let key = |name| format!("{tag}:{name}");
        Self {
            tag: tag.to_owned(),
            pool: key("pool"),
            attempts: key("attempts"),
            bodies: key("bodies"),
            bucket: key("bucket"),
            incarnation: key("incarnation"),
            absent: key("absent"),
            confirm: key("confirm"),
            topics: key("topics"),
            hints: format!("{tag}:hints-5:{db}"),
            older_hints: format!("{tag}:hints:{db}"),
            slot: slot(tag),
        }
    }

    /// What all of them begin with.
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// A topic's sorted set of one state.
    pub fn topic(&self, state: State, topic: &Topic) -> String {
        format!("{}:{}:{topic}", self.tag, state.name())
    }
}

/// Defines the hash tags of the keys that belong to no bucket, and the list of all of them.
macro_rules! homes {
    ($($home:ident = $name:literal,)+) => {
        /// Hash tag of keys that belong to no bucket: all keys of one tag share a slot.
        #[derive(Clone, Copy)]
        enum Home {
            $($home,)+
        }

        impl Home {
            const ALL: &[Self] = &[$(Self::$home),+];

            fn name(self) -> &'static str {
                match self { $(Self::$home => $name,)+ }
            }
        }
    };
}

homes! {
    Layout = "layout",
    Topics = "topics",
    Tokens = "tokens",
}

impl Home {
    fn key(self, prefix: &str, name: &str) -> String {
        format!("{{{prefix}:{}}}:{name}", self.name())
    }
}

/// A key in each slot that the store uses for something else than a bucket. A cluster may have any of
/// these slots on a master without buckets.
pub fn beside_buckets(prefix: &str) -> impl Iterator<Item = String> + '_ {
    Home::ALL.iter().map(|home| home.key(prefix, "any"))
}

/// The key of the layout. Its name as a whole is the tag of [`Home::Layout`], so it has the same slot.
pub fn layout(prefix: &str) -> String {
    format!("{prefix}:{}", Home::Layout.name())
}

/// The key of the secret that tags reservations, in the slot of the layout.
pub fn reservations(prefix: &str) -> String {
    Home::Layout.key(prefix, "reservations")
}

/// Never exists; in the slot of the layout.
pub fn absent_by_layout(prefix: &str) -> String {
    Home::Layout.key(prefix, "absent")
}

/// The key of the incarnations that were accepted after a loss of jobs.
pub fn accepted(prefix: &str) -> String {
    Home::Layout.key(prefix, "accepted")
}

/// A pattern for the incarnations of every bucket there may be, under any number of buckets, and perhaps
/// of other prefixes. A prefix has no letter that means something in a pattern.
pub fn every_incarnation(prefix: &str) -> String {
    format!("{{{prefix}:[0-9]*}}:incarnation")
}

/// Whether a key that has this pattern is an incarnation under this prefix.
pub fn is_incarnation(prefix: &str, key: &str) -> bool {
    let rest = key.strip_prefix(&format!("{{{prefix}:")).unwrap_or_default();
    let bucket = rest.strip_suffix("}:incarnation").unwrap_or_default();
    !bucket.is_empty() && bucket.bytes().all(|b| b.is_ascii_alphanumeric())
}

/// The key of the paused topics.
pub fn paused(prefix: &str) -> String {
    Home::Topics.key(prefix, "paused")
}

/// The key of the topics' defaults.
pub fn defaults(prefix: &str) -> String {
    Home::Topics.key(prefix, "defaults")
}

/// The key of the number that grows with every change of both.
pub fn version(prefix: &str) -> String {
    Home::Topics.key(prefix, "version")
}

/// The key of the last changes of both.
pub fn changes(prefix: &str) -> String {
    Home::Topics.key(prefix, "changes")
}

/// The key of the leases of the servers at work.
pub fn servers(prefix: &str) -> String {
    Home::Topics.key(prefix, "servers")
}

/// The key that changes with each confirmation of a change of these.
pub fn confirm_topics(prefix: &str) -> String {
    Home::Topics.key(prefix, "confirm")
}

/// The key of the access tokens.
pub fn tokens(prefix: &str) -> String {
    Home::Tokens.key(prefix, "all")
}

/// The key that changes with each confirmation of a change of these.
pub fn confirm_tokens(prefix: &str) -> String {
    Home::Tokens.key(prefix, "confirm")
}

/// The hash tag of a bucket, `{<prefix>:<bucket><letters>}`. The letters are the first, in the
/// order "", a, b, …, z, aa, …, with which the tag's slot lies in the bucket's own N-th of all
/// slots: so buckets spread evenly over masters that hold contiguous ranges.
fn tag(prefix: &str, bucket: Bucket, buckets: Buckets) -> String {
    let number = u32::try_from(bucket.index()).expect("a bucket's number has 16 bits");
    let count = u32::from(buckets.get());
    (0..)
        .map(|n| format!("{{{prefix}:{number}{}}}", letters(n)))
        .find(|tag| u32::from(slot(tag)) * count / SLOTS == number)
        .expect("an endless search over a spreading hash ends")
}

/// The n-th of "", a, b, …, z, aa, ab, …
fn letters(mut n: u32) -> String {
    let mut reversed = Vec::new();
    while n > 0 {
        n -= 1;
        reversed.push(char::from(b'a' + u8::try_from(n % 26).expect("below 26")));
        n /= 26;
    }
    reversed.iter().rev().collect()
}

/// The cluster slot of a key: CRC16 (XMODEM) of what stands between the first braces, or of all
/// of it. Source: Redis Cluster specification, "Key distribution model".
pub fn slot(key: &str) -> u16 {
    let tagged = key.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    let hashed = tagged.map(|(tag, _)| tag).filter(|tag| !tag.is_empty()).unwrap_or(key);
    CRC.checksum(hashed.as_bytes()) % 16_384
}

#[cfg(test)]
mod tests;
