//! Names of all keys of a store on Redis. They are persisted: names and contents must stay stable,
//! or [`SCHEMA`](super::super::layout) must be raised.
//!
//! `<tag>` is the hash tag of a bucket, `t` a topic. Redis removes a hash or set with its last
//! member. Sizes are those of a pending job with a 200-byte body and an id made by the server.
//!
//! | key | type | holds | bytes a job |
//! |---|---|---|---|
//! | `<prefix>:layout` | string | schema, hash and number of buckets | – |
//! | `{<prefix>:layout}:reservations` | string | secret key that tags reservations, in the slot of the layout | – |
//! | `<tag>:incarnation` | string | random text created with the store; a different text means a different store | – |
//! | `<tag>:walked` | string | run of the Redis in which the last walk through the bucket has ended (`walk.rs`) | – |
//! | `{<prefix>:layout}:accepted` | hash | bucket → incarnation with which an operator accepted a loss of jobs | – |
//! | `{<prefix>:topics}:paused` | hash | paused topic → 1, or the end of the pause in Unix ms | – |
//! | `{<prefix>:topics}:defaults` | hash | topic → its defaults as JSON | – |
//! | `{<prefix>:topics}:push` | hash | topic → its push as JSON | – |
//! | `{<prefix>:topics}:version` | number | grows with every change of a topic setting | – |
//! | `{<prefix>:topics}:changes` | sorted set | `<version> <t>` → version, for the last 10,000 changes | – |
//! | `{<prefix>:topics}:servers` | sorted set | id of a running server → end of its lease (`leases.rs`) | – |
//! | `{<prefix>:tokens}:all` | hash | `=<name>` → access token as JSON, `@<name>` → its last use, `version` → their version | – |
//! | `{<prefix>:schedules}:all` | hash | name of a schedule → its definition and state as JSON | – |
//! | `{<prefix>:schedules}:times` | sorted set | name of a schedule → time at which a server must look at it | – |
//! | `{<prefix>:schedules}:names` | sorted set | names of all schedules, all with score 0 | – |
//! | `<tag>:confirm`, `{<prefix>:topics}:confirm`, `{<prefix>:schedules}:confirm`, `{<prefix>:tokens}:confirm` | hash | a field that confirmations set and delete in turn (`transport/confirmed.rs`) | – |
//! | `<tag>:pool` | hash | id → pool record (`codec.rs`), until the job is gone | 330 |
//! | `<tag>:bodies` | hash | id → body longer than 4,096 bytes | – |
//! | `<tag>:attempts` | hash | id → attempts and reservation, from the first pop or the expiry on | – |
//! | `<tag>:history` | hash | id → last attempts and running consumer (`codec/history.rs`), from the first attempt that ends and leaves the job unfinished, touch, or pop by a named consumer on; not of a finished job that had one attempt (`codec/finished.rs`) | – |
//! | `<tag>:bucket` | sorted set | `delayed:<t>` → time at which the timer must look at that set next | – |
//! | `<tag>:ends` | sorted set | the same for all other sets with deadlines: `reserved:<t>`, `dead:<t>`, `finished:<t>`, `expiring:<t>` | – |
//! | `<tag>:topics` | sorted set | topics that have jobs in this bucket, all with score 0 | – |
//! | `<tag>:delayed:<t>` | sorted set | id → due time and priority (`shared/score.lua`) | 100 |
//! | `<tag>:ready:<t>` | sorted set | id → priority and due time (`shared/score.lua`) | – |
//! | `<tag>:reserved:<t>` | sorted set | id → end of the TTR | – |
//! | `<tag>:dead:<t>` | sorted set | id → end of its retention, + 1/2 if a kick must read the job's policy | – |
//! | `<tag>:finished:<t>` | sorted set | id → end of its retention | – |
//! | `<tag>:expiring:<t>` | sorted set | id → time at which it expires: every delayed or ready job that does, and for a while reserved ones | – |
//!
//! `<tag>:hints-5:<database>` is a channel: see `hints/`. `<tag>:absent` never exists: see
//! `shared/basics.lua`.
//!
//! A job is in `pool`, and in exactly one of the five sorted sets of its topic: the set of its
//! state. A delayed or ready job that expires is also in `expiring`. The time of a set in `bucket`
//! or `ends` may be too early (the timer then finds nothing and corrects it), but never too late.

use crc::{CRC_16_XMODEM, Crc};

use crate::job::{Bucket, Buckets, SettingKind, State, Topic};

/// A constant, so that its table is computed at compile time.
const CRC: Crc<u16> = Crc::<u16>::new(&CRC_16_XMODEM);
const SLOTS: u32 = 16_384;

/// Keys of one bucket.
#[derive(Debug, Clone)]
pub struct Keys {
    tag: String,
    pub pool: String,
    pub attempts: String,
    pub bodies: String,
    /// Key of the histories of jobs. Scripts derive it from the tag.
    pub history: String,
    pub bucket: String,
    /// Key of the deadlines of all sets except those of delayed jobs.
    pub ends: String,
    pub incarnation: String,
    /// Key of the run of Redis that was walked last.
    pub walked: String,
    /// Key that never exists.
    pub absent: String,
    pub confirm: String,
    /// Key of the topics that have jobs in the bucket.
    pub topics: String,
    /// Channel of the bucket's hints.
    pub hints: String,
    /// Cluster slot of all these keys.
    pub slot: u16,
}

impl Keys {
    /// Returns the keys of every bucket. Only channels depend on the database `db`: Redis publishes
    /// to subscribers of all databases.
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
            history: key("history"),
            bucket: key("bucket"),
            ends: key("ends"),
            incarnation: key("incarnation"),
            walked: key("walked"),
            absent: key("absent"),
            confirm: key("confirm"),
            topics: key("topics"),
            hints: format!("{tag}:hints-5:{db}"),
            slot: slot(tag),
        }
    }

    /// Returns the hash tag with which all keys of the bucket begin.
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// Returns the key of a topic's sorted set of one state.
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
    Schedules = "schedules",
    Tokens = "tokens",
}

impl Home {
    fn key(self, prefix: &str, name: &str) -> String {
        format!("{{{prefix}:{}}}:{name}", self.name())
    }
}

/// Returns a key in each slot that the store uses for keys outside of buckets. On a cluster, a
/// master without buckets may have such a slot.
pub fn outside_buckets(prefix: &str) -> impl Iterator<Item = String> + '_ {
    Home::ALL.iter().map(|home| home.key(prefix, "any"))
}

/// Returns the key of the layout. The whole key is the tag of [`Home::Layout`], so both have the
/// same slot.
pub fn layout(prefix: &str) -> String {
    format!("{prefix}:{}", Home::Layout.name())
}

/// Returns the key of the secret that tags reservations, in the slot of the layout.
pub fn reservations(prefix: &str) -> String {
    Home::Layout.key(prefix, "reservations")
}

/// Returns a key that never exists, in the slot of the layout.
pub fn absent_by_layout(prefix: &str) -> String {
    Home::Layout.key(prefix, "absent")
}

/// Returns the key of the incarnations that were accepted after a loss of jobs.
pub fn accepted(prefix: &str) -> String {
    Home::Layout.key(prefix, "accepted")
}

/// Returns a pattern that matches the incarnations of all buckets, for any number of buckets. It
/// may also match keys of other prefixes. The characters of a prefix have no special meaning in
/// patterns.
pub fn every_incarnation(prefix: &str) -> String {
    format!("{{{prefix}:[0-9]*}}:incarnation")
}

/// Returns whether a key that matches this pattern is an incarnation under this prefix.
pub fn is_incarnation(prefix: &str, key: &str) -> bool {
    let rest = key.strip_prefix(&format!("{{{prefix}:")).unwrap_or_default();
    let bucket = rest.strip_suffix("}:incarnation").unwrap_or_default();
    !bucket.is_empty() && bucket.bytes().all(|b| b.is_ascii_alphanumeric())
}

/// Returns the key of all topic settings of a kind.
pub fn setting(prefix: &str, kind: SettingKind) -> String {
    Home::Topics.key(prefix, kind.name())
}

/// Returns the key of the number that grows with every change of a topic setting.
pub fn version(prefix: &str) -> String {
    Home::Topics.key(prefix, "version")
}

/// Returns the key of the last changes of topic settings.
pub fn changes(prefix: &str) -> String {
    Home::Topics.key(prefix, "changes")
}

/// Returns the key of the leases of running servers.
pub fn servers(prefix: &str) -> String {
    Home::Topics.key(prefix, "servers")
}

/// Returns the key in which changes of topics are confirmed.
pub fn confirm_topics(prefix: &str) -> String {
    Home::Topics.key(prefix, "confirm")
}

/// Returns the keys of the texts, times and names of schedules, in this order.
pub fn schedules(prefix: &str) -> [String; 3] {
    ["all", "times", "names"].map(|name| Home::Schedules.key(prefix, name))
}

/// Returns the cluster slot of schedules.
pub fn schedules_slot(prefix: &str) -> u16 {
    slot(&Home::Schedules.key(prefix, "all"))
}

/// Returns the key in which changes of schedules are confirmed.
pub fn confirm_schedules(prefix: &str) -> String {
    Home::Schedules.key(prefix, "confirm")
}

pub fn tokens(prefix: &str) -> String {
    Home::Tokens.key(prefix, "all")
}

/// Returns the key in which changes of access tokens are confirmed.
pub fn confirm_tokens(prefix: &str) -> String {
    Home::Tokens.key(prefix, "confirm")
}

/// Returns the hash tag of a bucket, `{<prefix>:<bucket><letters>}`. All slots are divided into N
/// equal parts. The letters are the first of "", a, b, …, z, aa, … that give the tag of bucket i a
/// slot in part i. So buckets are spread evenly over masters that have contiguous ranges of slots.
fn tag(prefix: &str, bucket: Bucket, buckets: Buckets) -> String {
    let number = u32::try_from(bucket.index()).expect("a bucket's number has 16 bits");
    let count = u32::from(buckets.get());
    (0..)
        .map(|n| format!("{{{prefix}:{number}{}}}", letters(n)))
        .find(|tag| u32::from(slot(tag)) * count / SLOTS == number)
        .expect("an endless search over a spreading hash ends")
}

/// Returns the n-th of "", a, b, …, z, aa, ab, …
fn letters(mut n: u32) -> String {
    let mut reversed = Vec::new();
    while n > 0 {
        n -= 1;
        reversed.push(char::from(b'a' + u8::try_from(n % 26).expect("below 26")));
        n /= 26;
    }
    reversed.iter().rev().collect()
}

/// Returns the cluster slot of a key: CRC16 (XMODEM) of the text between the first braces, or of
/// the whole key if there is none. Source: Redis Cluster specification, "Key distribution model".
pub fn slot(key: &str) -> u16 {
    let tagged = key.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    let hashed = tagged.map(|(tag, _)| tag).filter(|tag| !tag.is_empty()).unwrap_or(key);
    CRC.checksum(hashed.as_bytes()) % 16_384
}

#[cfg(test)]
mod tests;
