//! Two servers under load, faults one after another, then the drain and the judge.

use std::{fs, time::Duration};

use tempfile::TempDir;

use crate::{
    faults::{
        epoch::{Epoch, Judgement},
        history::BUCKETS,
        load::{self, Again, TOPICS},
        vitals::{Vitals, vitals},
    },
    support::{free_port, process::Process, scan::scan, signal::Frozen},
};

/// Time that delivery may take to resume after a fault.
const DELIVERY_GOES_ON: Duration = Duration::from_secs(60);

/// Everything of one test but the store.
pub struct Scenario {
    dir: TempDir,
    servers: Vec<(u16, Process)>,
    epoch: Epoch,
    /// Memory and sockets of each server at the end of each round.
    vitals: Vec<Vec<Vitals>>,
    began: Duration,
}

impl Scenario {
    /// Starts two servers and the load. `settings` are those of `[store]`, as TOML.
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
        scenario.delivered_since_now("before any fault").await;
        // From now on TTRs end and jobs come back, also during a fault.
        tokio::time::sleep(load::TTR).await;
        scenario
    }

    /// Injects a fault and waits until all buckets deliver again. Returns how many calls failed in
    /// between.
    pub async fn round(&mut self, name: &str, fault: impl FnOnce()) -> usize {
        let began = self.epoch.history.now();
        self.began = began;
        // Fixtures block, and the load must go on meanwhile.
        tokio::task::block_in_place(fault);
        self.end_round(name, began).await
    }

    /// Kills each server in turn as `kill -9` does, and restarts it.
    pub async fn round_of_killed_servers(&mut self) -> usize {
        let began = self.epoch.history.now();
        for n in 0..self.servers.len() {
            let (port, server) = &mut self.servers[n];
            let (port, old) = (*port, server.id());
            tokio::task::block_in_place(|| server.kill());
            // The other server serves alone for a while.
            tokio::time::sleep(Duration::from_millis(500)).await;
            let new = self::server(&self.dir, port).await;
            assert_ne!(old, new.id(), "it is another process");
            self.servers[n].1 = new;
        }
        self.end_round("each server killed in turn", began).await
    }

    /// Freezes each server in turn and lets it go on; asserts that calls met the freeze.
    pub async fn round_of_frozen_servers(&mut self, span: Duration) {
        for n in 0..self.servers.len() {
            let began = self.epoch.history.now();
            let frozen = Frozen::freeze(self.servers[n].1.id());
            tokio::time::sleep(span).await;
            frozen.thaw();
            // The buffered calls of the thawed server meet the other server's transitions.
            self.end_round(&format!("server {n} frozen"), began).await;
            for (_, server) in &self.servers {
                // A server whose timers do not go on is not ready.
                assert_eq!(server.get("/readyz").await.0, 200);
            }
            assert!(
                self.epoch.history.longest_since(began) > span * 3 / 4,
                "no call waited for it"
            );
        }
    }

    /// Returns the longest duration of a call since the last round began; pops do not count.
    pub fn longest(&self) -> Duration {
        self.epoch.history.longest_since(self.began)
    }

    /// Counts the calls so far that were answered 503 with this word in `applied`.
    pub fn unavailable(&self, applied: &str) -> usize {
        self.epoch.history.failures_with(&format!("503 store_unavailable, applied {applied:?}"))
    }

    async fn end_round(&mut self, name: &str, began: Duration) -> usize {
        let ended = self.epoch.history.now();
        let after = self.delivered_since_now(name).await;
        let failures = self.epoch.history.failures_between(began, ended);
        let vitals: Vec<Vitals> = self.servers.iter().map(|(_, s)| vitals(s.id())).collect();
        println!(
            "{name}: took {:?}, {failures} calls failed, delivery went on {after:?} after; {vitals:?}",
            ended - began
        );
        self.vitals.push(vitals);
        failures
    }

    /// Waits until every bucket has delivered a job put from now on, and returns the time that
    /// took.
    async fn delivered_since_now(&self, when: &str) -> Duration {
        self.epoch.delivers_within(DELIVERY_GOES_ON, when).await
    }

    /// Ends the scenario; the judge must have no objection. `masters` hold the store by now.
    pub async fn promises_hold(self, masters: &[u16]) {
        does_not_grow(&self.vitals);
        let Judgement { objections: found, left, .. } = self.end(masters).await;
        let shown: Vec<_> =
            found.iter().take(20).map(|o| format!("{:?}: {}", o.rule, o.what)).collect();
        assert!(found.is_empty(), "{} objections:\n{}", found.len(), shown.join("\n"));
        // The judge saw sets of each kind, not only empty ones.
        for kind in [":delayed:kept", ":reserved:held", ":dead:doomed"] {
            let is = |set: &String| set.ends_with(kind);
            assert!(left.values().any(|stored| stored.sets.iter().any(is)), "none in {kind}");
        }
    }

    /// Stops the load, drains, and judges before and after.
    pub async fn end(self, masters: &[u16]) -> Judgement {
        let bases = bases(&self.servers);
        self.epoch.end(&bases, || scan(masters, &TOPICS)).await
    }
}

async fn server(dir: &TempDir, port: u16) -> Process {
    Process::on_port(port, dir.path(), &["--config", "faults.toml"]).await
}

fn bases(servers: &[(u16, Process)]) -> Vec<String> {
    servers.iter().map(|(_, server)| server.base.clone()).collect()
}

/// Asserts that memory and sockets of processes that ran in both rounds do not grow from the first
/// round's end to the last one's, except for variations of the load.
fn does_not_grow(rounds: &[Vec<Vitals>]) {
    let [first, .., last] = rounds else { return };
    for (first, last) in first.iter().zip(last) {
        let memory = first.memory_kib + first.memory_kib / 4 + 16 * 1024;
        assert!(last.memory_kib <= memory, "{first:?} became {last:?}");
        assert!(last.sockets <= first.sockets + 8, "{first:?} became {last:?}");
    }
}
