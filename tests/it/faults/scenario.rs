//! A scenario: two servers under load, faults one after another, and then the drain and the judge.

use crate::faults::load;
use crate::faults::prelude::*;
use crate::faults::{
    epoch::{Epoch, Judgement},
    history::BUCKETS,
};
use crate::support::process::{resident_of, sockets};

/// Maximum time until delivery resumes after a fault.
const DELIVERY_RESUMES_WITHIN: Duration = Duration::from_secs(60);

/// Everything of one test except the store.
pub struct Scenario {
    dir: TempDir,
    servers: Vec<(u16, Process)>,
    epoch: Epoch,
    /// Memory in MiB and sockets of each server at the end of each round.
    vitals: Vec<Vec<(u64, usize)>>,
    began: Duration,
}

impl Scenario {
    /// Starts two servers and the load. `settings` are the settings of `[store]`, as TOML.
    pub async fn start(settings: &str) -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let file = format!("[store]\nbuckets = {BUCKETS}\n{settings}\n[log]\nfilter = \"error\"\n");
        fs::write(dir.path().join("faults.toml"), file).expect("a file");
        let mut servers = Vec::new();
        for _ in 0..2 {
            let port = free_port();
            servers.push((port, server(&dir, port).await));
        }
        let epoch = Epoch::start(&bases(&servers), Again::Never);
        let scenario = Self { dir, servers, epoch, vitals: Vec::new(), began: Duration::ZERO };
        scenario.wait_for_delivery("before any fault").await;
        // Waits until the first TTRs have ended, so that TTRs also end during faults.
        tokio::time::sleep(load::TTR).await;
        scenario
    }

    /// Injects a fault, and waits until all buckets deliver again. Returns the number of calls that
    /// failed meanwhile.
    pub async fn round(&mut self, name: &str, fault: impl FnOnce()) -> usize {
        let began = self.epoch.history.now();
        self.began = began;
        // The fault blocks its thread, and the load must continue meanwhile.
        tokio::task::block_in_place(fault);
        self.end_round(name, began).await
    }

    /// Like `round`. Asserts that the fault made calls fail.
    pub async fn failing_round(&mut self, name: &str, fault: impl FnOnce()) {
        assert_ne!(self.round(name, fault).await, 0, "no call failed because of the fault");
    }

    /// Kills each server in turn as `kill -9` does, and restarts it. Asserts that calls fail.
    pub async fn kill_each_server(&mut self) {
        let began = self.epoch.history.now();
        for n in 0..self.servers.len() {
            let (port, server) = &mut self.servers[n];
            let (port, old) = (*port, server.id());
            tokio::task::block_in_place(|| server.kill());
            // For a while, only the other server runs.
            tokio::time::sleep(Duration::from_millis(500)).await;
            let new = self::server(&self.dir, port).await;
            assert_ne!(old, new.id(), "the server was not restarted");
            self.servers[n].1 = new;
        }
        let failures = self.end_round("each server killed in turn", began).await;
        assert_ne!(failures, 0, "no call failed because of the fault");
    }

    /// Returns the longest duration of a call, except pops, since the last round began.
    pub fn longest(&self) -> Duration {
        self.epoch.history.longest_since(self.began)
    }

    /// Counts the calls so far that were answered with 503 and this word in `applied`.
    pub fn unavailable(&self, applied: &str) -> usize {
        self.epoch.history.failures_with(&format!("503 store_unavailable, applied {applied:?}"))
    }

    async fn end_round(&mut self, name: &str, began: Duration) -> usize {
        let ended = self.epoch.history.now();
        let after = self.wait_for_delivery(name).await;
        let failures = self.epoch.history.failures_between(began, ended);
        let pids = self.servers.iter().map(|(_, server)| server.id());
        let vitals: Vec<_> = pids.map(|pid| (resident_of(pid), sockets(pid))).collect();
        println!(
            "{name}: took {:?}, {failures} calls failed, delivery resumed after {after:?}; {vitals:?}",
            ended - began
        );
        self.vitals.push(vitals);
        failures
    }

    /// Waits until every bucket has delivered a job that was put after this call. Returns the time
    /// that this took.
    async fn wait_for_delivery(&self, when: &str) -> Duration {
        self.epoch.delivers_within(DELIVERY_RESUMES_WITHIN, when).await
    }

    /// Ends the scenario once the store has jobs of each kind. Panics if the judge has an
    /// objection. `masters` are the ports of the Redis processes that have the store now.
    pub async fn promises_hold(self, masters: &[u16]) {
        assert_no_growth(&self.vitals);
        eventually!(
            missing_kind(&tokio::task::block_in_place(|| scan(masters, &TOPICS))).is_none(),
            "the load makes no job of each kind"
        );
        let Judgement { objections: found, left, .. } = self.end(masters).await;
        let shown: Vec<_> =
            found.iter().take(20).map(|o| format!("{:?}: {}", o.rule, o.what)).collect();
        assert!(found.is_empty(), "{} objections:\n{}", found.len(), shown.join("\n"));
        assert_eq!(missing_kind(&left), None, "the judge has seen no job of this kind");
    }

    /// Stops the load, and judges before and after a drain.
    pub async fn end(self, masters: &[u16]) -> Judgement {
        let bases = bases(&self.servers);
        self.epoch.end(&bases, || scan(masters, &TOPICS)).await
    }
}

/// Returns settings of a store that acknowledges what a replica has.
pub fn confirmed(url: &str) -> String {
    format!("url = {url:?}\nack = \"replica\"")
}

async fn server(dir: &TempDir, port: u16) -> Process {
    Process::start_on_port(port, dir.path(), &["--config", "faults.toml"]).await
}

fn bases(servers: &[(u16, Process)]) -> Vec<String> {
    servers.iter().map(|(_, server)| server.base.clone()).collect()
}

/// Returns a kind of set that has no job. Jobs of these kinds outlive the drain.
fn missing_kind(scan: &Scan) -> Option<&'static str> {
    let kinds =
        [":delayed:kept", ":reserved:held", ":dead:doomed", ":dead:expiring", ":dead:fallen"];
    kinds
        .into_iter()
        .find(|kind| !scan.values().any(|stored| stored.sets.iter().any(|set| set.ends_with(kind))))
}

/// Asserts that memory and sockets of processes do not grow from the end of the first round to the
/// end of the last one, apart from variations of the load. Only compares processes that ran in both
/// rounds.
fn assert_no_growth(rounds: &[Vec<(u64, usize)>]) {
    let [first, .., last] = rounds else { return };
    for (first, last) in first.iter().zip(last) {
        assert!(last.0 <= first.0 + first.0 / 4 + 16, "memory: {first:?} MiB, then {last:?}");
        assert!(last.1 <= first.1 + 8, "sockets: {first:?}, then {last:?}");
    }
}
