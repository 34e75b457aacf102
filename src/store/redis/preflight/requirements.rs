//! Requirements of a Redis that keeps jobs, checked with `INFO`, which is allowed even where
//! `CONFIG` is forbidden.

use std::collections::HashMap;

/// Oldest version with which the scripts are tested.
const OLDEST: (u32, u32) = (7, 0);

/// Results of the check.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Reasons why the server cannot work.
    pub unfit: Vec<String>,
    /// Reasons why jobs may be lost; an operator may accept them.
    pub risks: Vec<String>,
}

/// Kind of server that `store.url` requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// Single server, perhaps with replicas.
    Standalone,
    /// Node of a cluster.
    ClusterNode,
}

/// Splits an `INFO` answer into fields.
pub fn fields(info: &str) -> HashMap<&str, &str> {
    info.lines().filter_map(|line| line.trim_end().split_once(':')).collect()
}

/// Returns the version in an `INFO` answer.
pub fn version(info: &str) -> Option<(u32, u32)> {
    fields(info).get("redis_version").and_then(|version| major_minor(version))
}

/// Returns the mode in an `INFO` answer: standalone or cluster. Valkey and Redict use other names
/// for this field.
pub fn mode<'a>(fields: &HashMap<&str, &'a str>) -> Option<&'a str> {
    ["redis_mode", "server_mode", "redict_mode"].iter().find_map(|name| fields.get(name)).copied()
}

/// Returns whether an `INFO` answer shows an AOF.
pub fn has_aof(info: &str) -> bool {
    fields(info).get("aof_enabled") == Some(&"1")
}

/// Returns whether an `INFO` answer shows that the AOF is being rewritten, or soon will be.
pub fn is_rewriting(info: &str) -> bool {
    let fields = fields(info);
    let holds = |name| fields.get(name) == Some(&"1");
    holds("aof_rewrite_in_progress") || holds("aof_rewrite_scheduled")
}

/// Returns whether an `INFO` answer shows that the server is still loading its data. Until it has
/// loaded them, other fields are not final.
pub fn is_loading(info: &str) -> bool {
    fields(info).get("loading").is_some_and(|loading| *loading != "0")
}

/// Returns whether an `INFO` answer is that of a master.
pub fn is_master(info: &str) -> bool {
    fields(info).get("role") == Some(&"master")
}

/// Returns whether an `INFO` answer shows that no memory is left: Redis refuses writes that need
/// some.
pub fn is_full(info: &str) -> bool {
    let fields = fields(info);
    let number = |name: &str| fields.get(name).and_then(|text| text.parse::<u64>().ok());
    let (used, most) = (number("used_memory"), number("maxmemory").filter(|&most| most > 0));
    // Buffers for replicas and the AOF do not count.
    let buffers = number("mem_not_counted_for_evict").unwrap_or(0);
    used.zip(most).is_some_and(|(used, most)| used.saturating_sub(buffers) >= most)
}

/// Returns whether an `INFO` answer shows a connected replica.
pub fn has_replica(info: &str) -> bool {
    let is_online = |(name, value): (&str, &str)| {
        name.strip_prefix("slave").is_some_and(|n| n.parse::<u32>().is_ok())
            && value.contains("state=online")
    };
    fields(info).into_iter().any(is_online)
}

/// Returns the reason why writes are not synced at once, or `None` if they are. `info` is an `INFO`
/// answer, `policy` the value of `appendfsync`.
pub fn unsynced(info: &str, policy: Option<&String>) -> Option<String> {
    if !has_aof(info) {
        return Some(NO_AOF.to_owned());
    }
    match policy.map(String::as_str) {
        Some("always") => None,
        other => {
            let found = other.unwrap_or("unknown");
            Some(format!(
                "store.ack = \"fsync\" needs appendfsync always (it is {found}), or Redis 7.2"
            ))
        }
    }
}

/// Message for a server without an AOF, which syncs nothing.
pub const NO_AOF: &str = "store.ack = \"fsync\" needs an AOF: set appendonly to yes";

/// Returns the used memory in an `INFO` answer, in bytes.
pub fn used_memory(info: &str) -> Option<u64> {
    fields(info).get("used_memory")?.parse().ok()
}

/// Returns the reasons why a server with these fields of `INFO` may lose jobs, each with the name
/// of the setting.
pub fn risks(fields: &HashMap<&str, &str>) -> Vec<String> {
    let field = |name: &str| fields.get(name).copied().unwrap_or("");
    let mut risks = Vec::new();
    if field("maxmemory_policy") != "noeviction" {
        let policy = field("maxmemory_policy");
        risks.push(format!(
            "maxmemory-policy is {policy:?}, so it may evict jobs: set it to noeviction"
        ));
    }
    if field("aof_enabled") != "1" {
        risks.push("appendonly is off, so a crash loses jobs: set appendonly to yes".to_owned());
    }
    risks
}

/// Checks all requirements by an `INFO` answer.
pub fn judge(info: &str, expected: Expected) -> Findings {
    let fields = fields(info);
    let field = |name: &str| fields.get(name).copied().unwrap_or("");
    let mut findings = Findings { risks: risks(&fields), ..Findings::default() };

    let version = field("redis_version");
    if major_minor(version) < Some(OLDEST) {
        let (major, minor) = OLDEST;
        findings.unfit.push(format!("its version is {version:?}: use {major}.{minor} or newer"));
    }
    if fields.contains_key("garnet_version") {
        let why = "it is Garnet, whose scripts are not atomic: use Redis or Valkey";
        findings.unfit.push(why.to_owned());
    }
    match (expected, mode(&fields) == Some("cluster")) {
        (Expected::Standalone, true) => findings.unfit.push(
            "it is a node of a cluster: begin store.url with redis+cluster://, or give a \
             standalone server"
                .to_owned(),
        ),
        (Expected::ClusterNode, false) => findings.unfit.push(
            "it is not a node of a cluster: begin store.url with redis:// (or redis+sentinel://)"
                .to_owned(),
        ),
        _ => {}
    }
    if field("role") != "master" {
        let role = field("role");
        findings.unfit.push(format!("its role is {role:?}: give the address of the master"));
    }
    if field("loading") != "0" {
        findings.unfit.push("it is loading its data: try again when it is done".to_owned());
    }
    findings
}

fn major_minor(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests;
