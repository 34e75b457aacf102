//! Two servers under load, faults one after another, then the drain and the judge.

use std::{fs, time::Duration};

use tempfile::TempDir;

use crate::{
    faults::{
        epoch::{Epoch, Judgement},
        history::BUCKETS,
        load::{self, TOPICS},
        vitals::{Vitals, vitals},
    },
    support::{free_port, process::Process, scan::scan, signal::Frozen},
};

/// How long after a fault's end delivery may take to go on.
const DELIVERY_GOES_ON: Duration = Duration::from_secs(60);

/// Everything of one test but the store.
pub struct Scenario {
    dir: TempDir,
    servers: Vec<(u16, Process)>,
    epoch: Epoch,
    /// Of each server at the end of each round.
    vitals: Vec<Vec<Vitals>>,
    /// When the last round began.
    began: Duration,
}

impl Scenario {
    /// Two servers and the load. `settings` are those of `[store]`, as TOML.
    pub async fn start(settings: &str) -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let file = format!("[store]\nbuckets = {BUCKETS}\n{settings}\n[log]\nfilter = \"error\"\n");
        fs::write(dir.path().join("faults.toml"), file).expect("a file");
        let mut servers = Vec::new();
        for _ in 0..2 {
            let port = free_port();
            servers.push((port, server(&dir, port).await));
        }
        let epoch = Epoch::start(&bases(&servers));
        let scenario = Self { dir, servers, epoch, vitals: Vec::new(), began: Duration::ZERO };
        scenario.delivered_since_now("before any fault").await;
        // From then on TTRs run out and jobs come back, also while a fault lasts.
        tokio::time::sleep(load::TTR).await;
        scenario
    }

    /// Brings a fault about and waits until all buckets deliver again. Returns how many calls
    /// failed from its begin to its end.
    pub async fn round(&mut self, name: &str, fault: impl FnOnce()) -> usize {
        let began = self.epoch.history.now();
        self.began = began;
        // Fixtures block, and the load must go on meanwhile.
        tokio::task::block_in_place(fault);
        self.end_round(name, began).await
    }

    /// Kills each server in turn as `kill -9` does, and starts it again.
    pub async fn round_of_killed_servers(&mut self) -> usize {
        let began = self.epoch.history.now();
        for n in 0..self.servers.len() {
            let (port, server) = &mut self.servers[n];
            let (port, old) = (*port, server.id());
            tokio::task::block_in_place(|| server.kill());
            // The other one serves alone for a while.
            tokio::time::sleep(Duration::from_millis(500)).await;
            let new = self::server(&self.dir, port).await;
            assert_ne!(old, new.id(), "it is another process");
            self.servers[n].1 = new;
        }
        self.end_round("each server killed in turn", began).await
    }

    /// Freezes each server in turn and lets it go on. Calls must have met that.
    pub async fn round_of_frozen_servers(&mut self, span: Duration) {
        for n in 0..self.servers.len() {
            let began = self.epoch.history.now();
            let frozen = Frozen::freeze(self.servers[n].1.id());
            tokio::time::sleep(span).await;
            frozen.thaw();
            // What lay in its buffers meets what the other one did meanwhile.
            self.end_round(&format!("server {n} frozen"), began).await;
            for (_, server) in &self.servers {
                // Its timers go on too, or it is not ready.
                assert_eq!(server.get("/readyz").await.0, 200);
            }
            assert!(
                self.epoch.history.longest_since(began) > span * 3 / 4,
                "no call waited for it"
            );
        }
    }

    /// The longest that a call took, but for pops, since the last round began.
    pub fn longest(&self) -> Duration {
        self.epoch.history.longest_since(self.began)
    }

    /// Calls that were answered 503 so far, with this word for what was applied.
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

    /// How long it takes until every bucket has delivered a job put from now on.
    async fn delivered_since_now(&self, when: &str) -> Duration {
        self.epoch.delivers_within(DELIVERY_GOES_ON, when).await
    }

    /// Ends it; the judge must have nothing to object to. `masters` hold the store by now.
    pub async fn promises_hold(self, masters: &[u16]) {
        does_not_grow(&self.vitals);
        let Judgement { objections: found, left, .. } = self.end(masters).await;
        let shown: Vec<_> =
            found.iter().take(20).map(|o| format!("{:?}: {}", o.rule, o.what)).collect();
        assert!(found.is_empty(), "{} objections:\n{}", found.len(), shown.join("\n"));
        // Sets of each kind were looked at, not only empty ones.
        for kind in [":delayed:kept", ":reserved:held", ":dead:doomed"] {
            let is = |set: &String| set.ends_with(kind);
            assert!(left.values().any(|stored| stored.sets.iter().any(is)), "none in {kind}");
        }
    }

    /// Stops the load, drains, and judges before and after; what came of it.
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

/// From the first round's end to the last one's, where the processes are the same, memory and
/// sockets stay what they are, give or take what a moment of load makes.
fn does_not_grow(rounds: &[Vec<Vitals>]) {
    let [first, .., last] = rounds else { return };
    for (first, last) in first.iter().zip(last) {
        let memory = first.memory_kib + first.memory_kib / 4 + 16 * 1024;
        assert!(last.memory_kib <= memory, "{first:?} became {last:?}");
        assert!(last.sockets <= first.sockets + 8, "{first:?} became {last:?}");
    }
}
