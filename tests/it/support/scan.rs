//! Contents of a store on Redis, read from its keys. The judge compares them with the answers to
//! clients. `src/store/redis/keys.rs` describes the keys.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::resp::{Connection, Reply};

/// Sets of a topic. Each job is in exactly one of them.
pub const STATES: [&str; 4] = ["delayed", "ready", "reserved", "dead"];

/// All entries found for one id. A sound job has one body and is in one set. A sound finished job
/// is left out.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stored {
    pub bodies: Vec<String>,
    /// Sorted sets that contain the id: `<tag>:<state>:<topic>`.
    pub sets: Vec<String>,
    pub attempts: usize,
    /// Whether the job is dead because it has expired.
    pub is_expired: bool,
}

impl Stored {
    pub fn is_dead(&self) -> bool {
        self.sets.iter().any(|set| set.contains(":dead:"))
    }
}

pub type Scan = BTreeMap<String, Stored>;

/// Reads the contents of the masters on these ports. Each bucket is read in one transaction, since
/// timers may move jobs meanwhile.
pub fn scan(masters: &[u16], topics: &[&str]) -> Scan {
    let mut scan = Scan::new();
    for &port in masters {
        let mut connection = Connection::to(port).expect("a master that runs");
        let keys = connection.ask(&["KEYS", "{*}:*"]).expect("an answer").texts();
        let tags: BTreeSet<&str> = keys.iter().filter_map(|key| bucket_tag(key)).collect();
        for bucket_tag in tags {
            scan_bucket(&mut connection, bucket_tag, topics, &mut scan);
        }
    }
    scan
}

/// Returns the bucket's tag of a key, such as `{dq:3da}` of `{dq:3da}:pool`; `None` for the key of
/// topic settings, which belongs to no bucket.
fn bucket_tag(key: &str) -> Option<&str> {
    let bucket_tag = &key[..=key.find('}')?];
    (!bucket_tag.ends_with(":topics}")).then_some(bucket_tag)
}

fn scan_bucket(connection: &mut Connection, bucket_tag: &str, topics: &[&str], scan: &mut Scan) {
    let set = |state: &str, topic: &&str| format!("{bucket_tag}:{state}:{topic}");
    let sets: Vec<String> =
        STATES.iter().flat_map(|state| topics.iter().map(move |t| set(state, t))).collect();
    let finished: Vec<String> = topics.iter().map(|topic| set("finished", topic)).collect();
    let mut send = |words: &[&str]| connection.ask(words).expect("an answer");
    send(&["MULTI"]);
    send(&["HGETALL", &format!("{bucket_tag}:pool")]);
    send(&["HGETALL", &format!("{bucket_tag}:attempts")]);
    send(&["HGETALL", &format!("{bucket_tag}:bodies")]);
    send(&["HKEYS", &format!("{bucket_tag}:history")]);
    for set in sets.iter().chain(&finished) {
        send(&["ZRANGE", set, "0", "-1"]);
    }
    let answers = send(&["EXEC"]);
    let [pool, attempts, long, histories, members @ ..] = answers.list() else {
        panic!("{bucket_tag}: {answers:?}")
    };
    assert!(
        !answers.list().iter().any(|a| matches!(a, Reply::Error(_))),
        "{bucket_tag}: {answers:?}"
    );
    for pair in pool.texts().chunks(2) {
        // The first line of a record is its header.
        let body = pair[1].split_once('\n').map_or("", |(_, body)| body);
        // A body that is too long for the record is in `bodies`, under the same id.
        let long =
            long.texts().chunks(2).find(|long| long[0] == pair[0]).map(|long| long[1].clone());
        let body = long.unwrap_or_else(|| body.to_owned());
        scan.entry(pair[0].clone()).or_default().bodies.push(body);
    }
    for id in histories.texts() {
        if !scan.contains_key(&id) {
            scan.entry(format!("history of {id}, which has no record")).or_default().attempts += 1;
        }
    }
    for pair in attempts.texts().chunks(2) {
        let (header, error) = pair[1].split_once('\n').unwrap_or_default();
        // The count is missing if a kicked job has a history, and 0 if the job expired before its
        // first attempt that counts.
        let count = header.split(' ').nth(1).unwrap_or("0").trim_end_matches(['h', 's']);
        let stored = scan.entry(pair[0].clone()).or_default();
        stored.attempts += usize::from(count != "0");
        stored.is_expired = error.ends_with(" expired");
    }
    let (members, ended) = members.split_at(sets.len());
    for (set, members) in sets.iter().zip(members) {
        for id in members.texts() {
            scan.entry(id).or_default().sets.push(set.clone());
        }
    }
    for stored in scan.values_mut() {
        // A job that has moved keeps its error.
        stored.is_expired &= stored.is_dead();
    }
    for (set, members) in finished.iter().zip(ended) {
        for id in members.texts() {
            let stored = scan.entry(id.clone()).or_default();
            if stored.bodies.len() == 1 && stored.sets.is_empty() && stored.attempts == 0 {
                scan.remove(&id);
            } else {
                stored.sets.push(set.clone());
            }
        }
    }
}
