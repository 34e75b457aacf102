//! Whether each job of a bucket is in exactly one place, and the timer knows of it; mends what is not.
//!
//! A scan in pages finds what may be wrong while servers go on moving jobs. A script then looks at
//! each of these again, all of it at one moment, and only what is wrong then counts and is mended.

use std::collections::{BTreeMap, BTreeSet};

use redis::{Cmd, FromRedisValue, RedisError, aio::MultiplexedConnection};

use super::super::{
    codec::has_long_body,
    keys::Keys,
    scripts::{Scripts, Transition},
};
use crate::job::{State, Topic};

/// Ids of one page, and about so many of one script.
const PAGE: usize = 500;
const SUSPECTS: usize = 50;

/// What may be wrong with a job, in the order of the script's replies.
const OF_JOBS: [&str; 5] = [
    "jobs are in no set of a topic",
    "jobs are in several sets",
    "jobs are in the set of another topic",
    "ids have no record",
    "long bodies are missing",
];
/// The same of a set.
const OF_SETS: [&str; 3] = [
    "topics are not among the names of their bucket",
    "sets are unknown to the timer, or known too late",
    "keys of topics are no sorted sets",
];

/// How many of each kind were found.
#[derive(Debug, Default)]
pub struct Findings(BTreeMap<&'static str, usize>);

impl Findings {
    fn add(&mut self, kinds: &[&'static str], codes: &[usize]) {
        for code in codes.iter().filter(|&&code| code > 0) {
            let kind = kinds.get(code - 1).copied().unwrap_or("things are wrong in another way");
            *self.0.entry(kind).or_default() += 1;
        }
    }

    pub fn join(&mut self, other: Self) {
        other.0.into_iter().for_each(|(kind, count)| *self.0.entry(kind).or_default() += count);
    }

    /// What was mended, if that was asked for; and what is left to mend.
    pub fn told(self, is_mended: bool) -> (Vec<String>, Vec<String>) {
        let told = |(kind, count): (&'static str, usize)| (kind, format!("{count} {kind}"));
        let (mended, left): (Vec<_>, Vec<_>) =
            self.0.into_iter().map(told).partition(|(kind, _)| is_mended && *kind != OF_SETS[2]);
        let texts =
            |all: Vec<(&'static str, String)>| all.into_iter().map(|(_, text)| text).collect();
        (texts(mended), texts(left))
    }
}

/// Every key of a topic's set on this server, by the bucket's tag.
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

/// Where a scan has seen an id.
#[derive(Default)]
struct Seen<'a> {
    topics: Vec<&'a Topic>,
    in_pool: bool,
    /// Its record tells of a long body that was not seen.
    lacks_body: bool,
}

/// One bucket under examination.
pub struct Contents<'a> {
    pub connection: &'a mut MultiplexedConnection,
    pub keys: &'a Keys,
    pub scripts: &'a Scripts,
    pub mend: bool,
}

impl Contents<'_> {
    /// What is wrong in it. `sets` are those of its topics.
    pub async fn examine(
        &mut self,
        sets: &BTreeSet<(State, Topic)>,
    ) -> Result<Findings, RedisError> {
        let mut findings = Findings::default();
        let mut exists = redis::cmd("EXISTS");
        let has_pool: bool = self.ask(exists.arg(&self.keys.pool)).await?;
        if !has_pool && !sets.is_empty() {
            // Perhaps the pool is on another node: nothing is thrown away.
            findings.add(&["buckets have ids and no pool, so nothing is mended there"], &[1]);
            return Ok(findings);
        }
        let mut sound = Vec::new();
        let all: Vec<&(State, Topic)> = sets.iter().collect();
        for part in all.chunks(SUSPECTS) {
            let fill = |cmd: &mut Cmd| {
                for (state, topic) in part {
                    cmd.arg(state.name()).arg(topic.as_str());
                }
            };
            let codes = self.run(&self.scripts.mend_sets, fill).await?;
            sound.extend(
                part.iter().zip(&codes).filter(|(_, code)| **code < 3).map(|(set, _)| *set),
            );
            findings.add(&OF_SETS, &codes);
        }
        let suspects = self.suspects(&sound).await?;
        for part in suspects.chunks(SUSPECTS) {
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

    /// Ids that a scan did not find in exactly one set and the pool, or without a body, with the topics it saw
    /// them in.
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
        // The bodies after the pool: a job that comes between has both.
        for key in [&self.keys.pool, &self.keys.attempts, &self.keys.bodies] {
            let mut cursor = 0_u64;
            loop {
                let mut scan = redis::cmd("HSCAN");
                scan.arg(key).arg(cursor).arg("COUNT").arg(SUSPECTS);
                let (next, pairs): (u64, Vec<Vec<u8>>) = scan.query_async(self.connection).await?;
                for pair in pairs.chunks_exact(2) {
                    let (id, value) = (&pair[0], &pair[1]);
                    let id = String::from_utf8_lossy(id).into_owned();
                    match seen.get_mut(&id) {
                        Some(seen) if *key == self.keys.pool => {
                            seen.in_pool = true;
                            seen.lacks_body = has_long_body(value);
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
        let wrong = |seen: &Seen| seen.topics.len() != 1 || !seen.in_pool || seen.lacks_body;
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
