//! Contents of a store on Redis, read by its keys: the judge compares them with the answers to
//! clients. See `src/store/redis/keys.rs` for the keys.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::resp::{Connection, Reply};

/// Sets of a topic; a job is in exactly one.
pub const STATES: [&str; 4] = ["delayed", "ready", "reserved", "dead"];

/// Places where one id was found. A sound job has one body and one set; one that is finished and
/// kept is left out.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stored {
    pub bodies: Vec<String>,
    /// Sorted sets that have it: `<tag>:<state>:<topic>`.
    pub sets: Vec<String>,
    pub attempts: usize,
}

pub type Scan = BTreeMap<String, Stored>;

/// Reads the contents of the masters on these ports. Each bucket is read in one transaction, as
/// timers may be moving jobs meanwhile.
pub fn scan(masters: &[u16], topics: &[&str]) -> Scan {
    let mut scan = Scan::new();
    for &port in masters {
        let mut connection = Connection::to(port).expect("a master that runs");
        let keys = connection.ask(&["KEYS", "{*}:*"]).expect("an answer").texts();
        let tags: BTreeSet<&str> = keys.iter().filter_map(|key| tag(key)).collect();
        for tag in tags {
            bucket(&mut connection, tag, topics, &mut scan);
        }
    }
    scan
}

/// Returns `{dq:3da}` for `{dq:3da}:pool`; none for the settings of topics, which are no bucket.
fn tag(key: &str) -> Option<&str> {
    let tag = &key[..=key.find('}')?];
    (!tag.ends_with(":topics}")).then_some(tag)
}

fn bucket(connection: &mut Connection, tag: &str, topics: &[&str], scan: &mut Scan) {
    let set = |state: &str, topic: &&str| format!("{tag}:{state}:{topic}");
    let sets: Vec<String> =
        STATES.iter().flat_map(|state| topics.iter().map(move |t| set(state, t))).collect();
    let finished: Vec<String> = topics.iter().map(|topic| set("finished", topic)).collect();
    let mut send = |words: &[&str]| connection.ask(words).expect("an answer");
    send(&["MULTI"]);
    send(&["HGETALL", &format!("{tag}:pool")]);
    send(&["HGETALL", &format!("{tag}:attempts")]);
    send(&["HGETALL", &format!("{tag}:bodies")]);
    send(&["HKEYS", &format!("{tag}:history")]);
    for set in sets.iter().chain(&finished) {
        send(&["ZRANGE", set, "0", "-1"]);
    }
    let answers = send(&["EXEC"]);
    let [pool, attempts, long, histories, members @ ..] = answers.list() else {
        panic!("{tag}: {answers:?}")
    };
    assert!(!answers.list().iter().any(|a| matches!(a, Reply::Error(_))), "{tag}: {answers:?}");
    for pair in pool.texts().chunks(2) {
        // The header of a record ends with its line.
        let body = pair[1].split_once('\n').map_or("", |(_, body)| body);
        // A body that is too long for the record is elsewhere, under the same id.
        let long =
            long.texts().chunks(2).find(|long| long[0] == pair[0]).map(|long| long[1].clone());
        let body = long.unwrap_or_else(|| body.to_owned());
        scan.entry(pair[0].clone()).or_default().bodies.push(body);
    }
    for id in histories.texts() {
        if !scan.contains_key(&id) {
            scan.entry(format!("history of {id}, which is not there")).or_default().attempts += 1;
        }
    }
    // A job that was kicked keeps the mark of its history.
    for pair in attempts.texts().chunks(2).filter(|pair| pair[1] != "h") {
        scan.entry(pair[0].clone()).or_default().attempts += 1;
    }
    let (members, ended) = members.split_at(sets.len());
    for (set, members) in sets.iter().zip(members) {
        for id in members.texts() {
            scan.entry(id).or_default().sets.push(set.clone());
        }
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
