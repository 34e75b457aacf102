//! Is this Redis fit to keep jobs? Judged from `INFO`, which answers also where `CONFIG` is
//! forbidden.

use std::collections::HashMap;

/// The oldest version the scripts are tested with.
const OLDEST: (u32, u32) = (7, 0);

/// What was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Findings {
    /// It cannot work.
    pub(super) unfit: Vec<String>,
    /// It works, but may lose jobs; an operator may accept that.
    pub(super) risks: Vec<String>,
}

/// Judges the text of an `INFO` answer.
pub(super) fn judge(info: &str) -> Findings {
    let fields: HashMap<&str, &str> =
        info.lines().filter_map(|line| line.trim_end().split_once(':')).collect();
    let field = |name: &str| fields.get(name).copied().unwrap_or("");
    let mut findings = Findings::default();

    let version = field("redis_version");
    if major_minor(version) < Some(OLDEST) {
        let (major, minor) = OLDEST;
        findings.unfit.push(format!("its version is {version:?}: use {major}.{minor} or newer"));
    }
    if field("redis_mode") == "cluster" {
        findings.unfit.push("it is a node of a cluster: give a standalone server".to_owned());
    }
    if field("role") != "master" {
        let role = field("role");
        findings.unfit.push(format!("its role is {role:?}: give the address of the master"));
    }
    if field("loading") != "0" {
        findings.unfit.push("it is loading its data: try again when it is done".to_owned());
    }
    if field("maxmemory_policy") != "noeviction" {
        let policy = field("maxmemory_policy");
        findings.risks.push(format!(
            "maxmemory-policy is {policy:?}, so it may throw jobs away: set it to noeviction"
        ));
    }
    if field("aof_enabled") != "1" {
        let risk = "appendonly is off, so a crash loses jobs: set appendonly to yes";
        findings.risks.push(risk.to_owned());
    }
    findings
}

fn major_minor(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIT: &str = "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\nrole:master\r\n\
                       loading:0\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\n";

    #[test]
    fn a_fit_redis_has_no_findings() {
        assert_eq!(judge(FIT), Findings::default());
    }

    #[test]
    fn each_shortcoming_is_found_and_says_what_to_do() {
        let cases = [
            ("7.0.15", "6.2.7", "use 7.0 or newer"),
            ("7.0.15", "", "use 7.0 or newer"),
            ("role:master", "role:slave", "address of the master"),
            ("loading:0", "loading:1", "try again"),
            ("standalone", "cluster", "standalone server"),
            ("noeviction", "allkeys-lru", "set it to noeviction"),
            ("aof_enabled:1", "aof_enabled:0", "set appendonly to yes"),
        ];
        for (good, bad, advice) in cases {
            let Findings { unfit, risks } = judge(&FIT.replace(good, bad));
            let all: Vec<String> = unfit.into_iter().chain(risks).collect();
            assert_eq!(all.len(), 1, "{bad}: {all:?}");
            assert!(all[0].contains(advice), "{all:?}");
        }
    }
}
