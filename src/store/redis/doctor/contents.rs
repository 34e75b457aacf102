//! Examination of buckets: whether each job is in exactly one set, and whether the timer knows the
//! job. Mends jobs for which this is not true.
//!
//! A scan in pages finds suspects while servers continue to move jobs. A script then examines the
//! suspects again, atomically. Only problems that the script confirms are reported and mended.

use std::collections::{BTreeMap, BTreeSet};

use redis::{Cmd, FromRedisValue, RedisError, aio::MultiplexedConnection};

use super::super::{
    codec::{has_long_body, may_expire},
    keys::Keys,
    scripts::{Scripts, Transition},
};
use crate::job::{State, Topic};

/// Number of ids per page of a scan.
const PAGE: usize = 500;
/// Maximum number of suspects per call of a script.
const MAX_SUSPECTS: usize = 50;

/// Problems of a job, in the order of the codes that `mend.lua` returns.
const OF_JOBS: [&str; 6] = [
    "jobs are in no set of a topic",
    "jobs are in several sets",
    "jobs are in a wrong set",
    "ids have no record",
    "long bodies are missing",
    "jobs expire, and the timer does not know when",
];
/// Problems of a set, in the order of the codes that `mend_sets.lua` returns.
const OF_SETS: [&str; 3] = [
    "topics are missing from the list of their bucket",
    "sets are unknown to the timer, or have too late a deadline there",
    "sets have a score that is not a time",
];
/// Code of `mend_sets.lua` for a set whose key is of another type.
const OF_ANOTHER_TYPE: usize = 4;

/// Problems of buckets.
#[derive(Debug, Default)]
pub struct Findings {
    /// Number of problems of each kind.
    counts: BTreeMap<&'static str, usize>,
    /// Keys of a wrong type that were deleted and created again.
    remade: Vec<String>,
    /// Keys of a wrong type and unreadable schedules, which only the operator can mend, each with
    /// instructions.
    left: Vec<String>,
    /// Number of schedules, if they were examined.
    pub schedules: Option<u64>,
}

impl Findings {
    /// Counts the problems with these codes, of which 0 is none.
    pub fn add(&mut self, kinds: &[&'static str], codes: &[usize]) {
        for code in codes.iter().filter(|&&code| code > 0) {
            let kind = kinds.get(code - 1).copied().unwrap_or("problems are of an unknown kind");
            *self.counts.entry(kind).or_default() += 1;
        }
    }

    /// Adds a problem that only the operator can mend.
    pub fn leave(&mut self, problem: String) {
        self.left.push(problem);
    }

    pub fn join(&mut self, other: Self) {
        let add = |(kind, count)| *self.counts.entry(kind).or_default() += count;
        other.counts.into_iter().for_each(add);
        self.remade.extend(other.remade);
        self.left.extend(other.left);
        self.schedules = self.schedules.or(other.schedules);
    }

    /// Returns the mended problems, and the remaining ones with instructions.
    pub fn into_report(self, is_mended: bool) -> (Vec<String>, Vec<String>) {
        let counts = self.counts.into_iter().map(|(kind, count)| format!("{count} {kind}"));
        let (mended, left): (Vec<String>, Vec<String>) = match is_mended {
            true => (self.remade.into_iter().chain(counts).collect(), Vec::new()),
            false => {
                (Vec::new(), counts.map(|what| format!("{what}: run doctor --repair")).collect())
            }
        };
        (mended, left.into_iter().chain(self.left).collect())
    }
}

/// Returns the sets of all topics on this server, by the bucket's tag.
pub async fn sets(
    connection: &mut MultiplexedConnection,
    prefix: &str,
) -> Result<BTreeMap<String, BTreeSet<(State, Topic)>>, RedisError> {
    let mut all: BTreeMap<String, BTreeSet<(State, Topic)>> = BTreeMap::new();
    let mut cursor = 0_u64;
    loop {
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(format!("{{{prefix}:*}}:*:*")).arg("COUNT").arg(PAGE);
        let (next, keys): (u64, Vec<String>) = scan.query_async(connection).await?;
        for key in keys {
            let Some((tag, rest)) = key.split_once("}:") else { continue };
            let Some((state, topic)) = rest.split_once(':') else { continue };
            let state = State::ALL.into_iter().find(|one| one.name() == state);
            if let (Some(state), Ok(topic)) = (state, topic.parse()) {
                all.entry(format!("{tag}}}")).or_default().insert((state, topic));
            }
        }
        if next == 0 {
            return Ok(all);
        }
        cursor = next;
    }
}

/// Keys in which the scans have found an id.
#[derive(Default)]
struct Seen<'a> {
    topics: Vec<&'a Topic>,
    in_pool: bool,
    /// Whether the pool record has a long body that no scan has found.
    lacks_body: bool,
    /// Whether the job expires; a script then checks whether the timer knows when.
    may_expire: bool,
}

/// Bucket under examination.
pub struct Contents<'a> {
    pub connection: &'a mut MultiplexedConnection,
    pub keys: &'a Keys,
    pub scripts: &'a Scripts,
    pub mend: bool,
}

impl Contents<'_> {
    /// Examines the bucket; `sets` are the sets of its topics.
    pub async fn examine(
        &mut self,
        sets: &BTreeSet<(State, Topic)>,
    ) -> Result<Findings, RedisError> {
        let mut findings = Findings::default();
        if !self.own_keys(&mut findings).await? {
            return Ok(findings);
        }
        let mut exists = redis::cmd("EXISTS");
        let has_pool: bool = self.ask(exists.arg(&self.keys.pool)).await?;
        if !has_pool && !sets.is_empty() {
            // The pool may be on another node, so everything is kept.
            let tag = self.keys.tag();
            findings.left.push(format!(
                "{tag} has ids but no pool, so nothing is repaired there: if its slot is moving, finish \
                 the move, otherwise restore a backup"
            ));
            return Ok(findings);
        }
        let mut sound = Vec::new();
        let all: Vec<&(State, Topic)> = sets.iter().collect();
        for part in all.chunks(MAX_SUSPECTS) {
            let fill = |cmd: &mut Cmd| {
                for (state, topic) in part {
                    cmd.arg(state.name()).arg(topic.as_str());
                }
            };
            let codes = self.run(&self.scripts.mend_sets, fill).await?;
            for (&set, &code) in part.iter().zip(&codes) {
                if code == OF_ANOTHER_TYPE {
                    let key = self.keys.topic(set.0, &set.1);
                    let wrong = self.wrong_type(&key, "sorted set").await;
                    let how = "rename it, then run doctor --repair to restore the jobs";
                    findings.left.push(format!("{wrong}: {how}"));
                } else {
                    sound.push(set);
                    findings.add(&OF_SETS, &[code]);
                }
            }
        }
        let suspects = self.suspects(&sound).await?;
        for part in suspects.chunks(MAX_SUSPECTS) {
            let fill = |cmd: &mut Cmd| {
                for (id, topics) in part {
                    cmd.arg(id).arg(topics.len());
                    for topic in topics {
                        cmd.arg(topic.as_str());
                    }
                }
            };
            let codes = self.run(&self.scripts.mend, fill).await?;
            findings.add(&OF_JOBS, &codes);
        }
        Ok(findings)
    }

    /// Checks the types of the bucket's own keys. In a repair, deletes keys of a wrong type whose
    /// contents follow from other keys. Returns whether the examination can continue.
    async fn own_keys(&mut self, findings: &mut Findings) -> Result<bool, RedisError> {
        let keys = self.keys;
        let of_jobs =
            "no other key has its contents: restore a backup, unless you know what wrote it";
        let all = [
            ("HLEN", &keys.pool, "hash", Some(of_jobs)),
            (
                "HLEN",
                &keys.attempts,
                "hash",
                Some("rename it: attempts then count from zero again"),
            ),
            ("HLEN", &keys.bodies, "hash", Some(of_jobs)),
            ("HLEN", &keys.history, "hash", Some("rename it: jobs then show no earlier attempts")),
            (
                "GET",
                &keys.incarnation,
                "string",
                Some("rename it: the bucket then counts as emptied"),
            ),
            ("ZCARD", &keys.bucket, "sorted set", None),
            ("ZCARD", &keys.ends, "sorted set", None),
            ("ZCARD", &keys.topics, "sorted set", None),
        ];
        let mut can_go_on = true;
        for (ask, key, kind, how) in all {
            let asked: Result<redis::Value, RedisError> = self.ask(redis::cmd(ask).arg(key)).await;
            match asked {
                Err(cause) if cause.code() == Some("WRONGTYPE") => {}
                Err(cause) => return Err(cause),
                Ok(_) => continue,
            }
            let wrong = self.wrong_type(key, kind).await;
            if let Some(how) = how {
                findings.left.push(format!("{wrong}: {how}"));
            } else if self.mend {
                // The contents of this key follow from the sets of the topics.
                let deleted: Result<u64, RedisError> = self.ask(redis::cmd("DEL").arg(key)).await;
                match deleted {
                    Ok(_) => {
                        let done = "deleted, and rebuilt from its topics";
                        findings.remade.push(format!("{wrong}: {done}"));
                        continue;
                    }
                    Err(cause) => {
                        findings.left.push(format!("{wrong}: failed to delete it: {cause}"))
                    }
                }
            } else {
                let how = "doctor --repair deletes it and rebuilds it from its topics";
                findings.left.push(format!("{wrong}: {how}"));
            }
            can_go_on &= *key == keys.incarnation;
        }
        Ok(can_go_on)
    }

    /// Returns a message with the key, its present type if this user may read it, and the required
    /// type.
    async fn wrong_type(&mut self, key: &str, kind: &str) -> String {
        let found: Result<String, RedisError> = self.ask(redis::cmd("TYPE").arg(key)).await;
        let found = found.map_or_else(|_| String::new(), |found| format!("is a {found} and "));
        format!("{key} {found}must be a {kind}")
    }

    /// Returns suspects: ids that scans did not find in the pool and in exactly one set, jobs whose
    /// long body the scans did not find, and jobs that expire. Each has the topics of the sets that
    /// contain it.
    async fn suspects<'b>(
        &mut self,
        sets: &[&'b (State, Topic)],
    ) -> Result<Vec<(String, Vec<&'b Topic>)>, RedisError> {
        let mut seen: BTreeMap<String, Seen> = BTreeMap::new();
        for (state, topic) in sets {
            let key = self.keys.topic(*state, topic);
            let mut rank = 0;
            loop {
                let mut range = redis::cmd("ZRANGE");
                range.arg(&key).arg(rank).arg(rank + PAGE - 1);
                let ids: Vec<String> = self.ask(&range).await?;
                rank += ids.len();
                let is_last = ids.len() < PAGE;
                ids.into_iter().for_each(|id| seen.entry(id).or_default().topics.push(topic));
                if is_last {
                    break;
                }
            }
        }
        let mut suspects = Vec::new();
        // Bodies are scanned after the pool, so that the scan finds the body of a job that is put
        // meanwhile.
        let Keys { pool, attempts, bodies, history, .. } = self.keys;
        for key in [pool, attempts, bodies, history] {
            let mut cursor = 0_u64;
            loop {
                let mut scan = redis::cmd("HSCAN");
                scan.arg(key).arg(cursor).arg("COUNT").arg(MAX_SUSPECTS);
                let (next, pairs): (u64, Vec<Vec<u8>>) = scan.query_async(self.connection).await?;
                for pair in pairs.chunks_exact(2) {
                    let (id, value) = (&pair[0], &pair[1]);
                    let id = String::from_utf8_lossy(id).into_owned();
                    match seen.get_mut(&id) {
                        Some(seen) if *key == self.keys.pool => {
                            seen.in_pool = true;
                            seen.lacks_body = has_long_body(value);
                            seen.may_expire = may_expire(value);
                        }
                        Some(seen) if *key == self.keys.bodies => seen.lacks_body = false,
                        Some(_) => {}
                        None => suspects.push((id, Vec::new())),
                    }
                }
                if next == 0 {
                    break;
                }
                cursor = next;
            }
        }
        let wrong = |seen: &Seen| {
            seen.topics.len() != 1 || !seen.in_pool || seen.lacks_body || seen.may_expire
        };
        let found = seen.into_iter().filter(|(_, seen)| wrong(seen));
        suspects.extend(found.map(|(id, seen)| (id, seen.topics)));
        suspects.sort();
        suspects.dedup_by(|a, b| a.0 == b.0);
        Ok(suspects)
    }

    async fn run(
        &mut self,
        script: &Transition,
        fill: impl Fn(&mut Cmd),
    ) -> Result<Vec<usize>, RedisError> {
        let call = script.call(std::iter::once(self.keys), "", true, |call, _| {
            call.arg(if self.mend { "1" } else { "" });
            fill(call);
        });
        let mut replies: Vec<Vec<usize>> = self.ask(&call).await?;
        Ok(replies.pop().unwrap_or_default())
    }

    async fn ask<T: FromRedisValue>(&mut self, cmd: &Cmd) -> Result<T, RedisError> {
        cmd.query_async(self.connection).await
    }
}
