//! A Redis master and its replica, watched by three real Sentinels.

use std::{collections::BTreeSet, fs, thread::sleep, time::Instant};

use tempfile::TempDir;

use crate::support::{
    Redis, free_port,
    patience::{PAUSE, patience},
    redis_server,
    resp::ask,
    signal::Killed,
};

const NAME: &str = "main";

/// Two Redis processes and three Sentinels.
pub struct Sentinel {
    redis: Vec<Redis>,
    watchers: Vec<Watcher>,
    killed: Option<usize>,
}

struct Watcher {
    _process: Killed,
    port: u16,
    _dir: TempDir,
}

impl Sentinel {
    /// Starts all processes, and waits until the Sentinels know each other and the replica.
    pub fn start() -> Self {
        // The replica gets its data at once. By default, the master waits 5 s for other replicas.
        let arguments = ["--appendonly", "yes", "--repl-diskless-sync-delay", "0"];
        let master = Redis::with(&arguments);
        let follow = ["--replicaof", "127.0.0.1", &master.port().to_string()];
        let replica = Redis::with(&[&arguments[..], &follow].concat());
        let mut all = Self { redis: vec![master, replica], watchers: Vec::new(), killed: None };
        // A Sentinel asks its master for replicas at the start, and then only every 10 s.
        all.wait("the replica is not connected to its master", |all| all.is_connected_replica(1));
        all.watchers = (0..3).map(|_| Watcher::start(all.redis[0].port())).collect();
        all.wait("the Sentinels have not found each other", |all| {
            all.watchers.iter().all(|watcher| {
                watcher.has_field("num-slaves", "1")
                    && watcher.has_field("num-other-sentinels", "2")
            })
        });
        all
    }

    /// Returns the URL of all Sentinels, for `store.url`.
    pub fn url(&self) -> String {
        let all: Vec<_> = self.watchers.iter().map(|w| format!("127.0.0.1:{}", w.port)).collect();
        format!("redis+sentinel://{}/{NAME}/0", all.join(","))
    }

    /// Returns the master's port, if all Sentinels agree.
    pub fn master(&self) -> Option<u16> {
        let told: BTreeSet<Option<u16>> = self.watchers.iter().map(Watcher::master).collect();
        told.first().copied().flatten().filter(|_| told.len() == 1)
    }

    /// Kills the master as `kill -9` does, and returns its port.
    pub fn kill_master(&mut self) -> u16 {
        let port = self.master().expect("all Sentinels name the same master");
        let node = self.node(port);
        self.redis[node].kill();
        self.killed = Some(node);
        port
    }

    /// Waits until all Sentinels name the same master other than `old`, and this process is a
    /// master. Returns its port.
    pub fn wait_for_failover(&self, old: u16) -> u16 {
        self.failover(old).expect("the Sentinels have not promoted the replica")
    }

    /// Like `wait_for_failover`. `None` if the Sentinels of a busy machine do not promote the
    /// replica.
    pub fn failover(&self, old: u16) -> Option<u16> {
        let is_master = |port: &u16| {
            let role = ask(*port, &["ROLE"]).map(|role| role.texts());
            role.is_some_and(|role| role.first().is_some_and(|role| role == "master"))
        };
        let end = Instant::now() + patience();
        loop {
            let new = self.master().filter(|&port| port != old).filter(is_master);
            if new.is_some() || Instant::now() > end {
                return new;
            }
            sleep(PAUSE); // no event reports the new master
        }
    }

    /// Restarts the killed process, and waits until there are a master and a replica. The old
    /// master acts as a master for about ten seconds, until the Sentinels demote it.
    pub fn resume_killed(&mut self) {
        let node = self.killed.take().expect("a master was killed before");
        self.redis[node].resume();
        self.wait_until_settled();
    }

    /// Waits until the master that all Sentinels name has a connected replica. On a busy machine,
    /// the Sentinels may have returned to the old master, since it has not reported yet that it is
    /// no replica.
    pub fn wait_until_settled(&self) {
        self.wait("the old master has not become a replica", |all| {
            let master = all.master().map(|port| all.node(port));
            master.is_some_and(|master| {
                !all.is_connected_replica(master) && all.is_connected_replica(1 - master)
            })
        });
    }

    /// Makes the Sentinels promote the replica while the old master is alive, and waits until the
    /// old master has become a replica. It acts as a master for about ten seconds, until the
    /// Sentinels demote it.
    pub fn force_failover(&self) {
        let old = self.master().expect("all Sentinels name the same master");
        self.wait("the Sentinels refuse to begin a failover", |all| {
            // Sentinels refuse this until the end of the last failover is known to them.
            let begun = ask(all.watchers[0].port, &["SENTINEL", "FAILOVER", NAME]);
            begun.is_some_and(|reply| reply.text() == "OK")
        });
        self.wait_for_failover(old);
        self.wait_until_settled();
    }

    /// Counts the connections to the master, without the connection that sends this command and the
    /// connections of Sentinels and the replica.
    pub fn connections(&self) -> usize {
        let master = self.master().expect("all Sentinels name the same master");
        let list = ask(master, &["CLIENT", "LIST", "TYPE", "normal"]).expect("an answer");
        let ours = |line: &&str| !line.contains("name=sentinel-");
        list.text().lines().filter(ours).count() - 1
    }

    fn node(&self, port: u16) -> usize {
        let node = self.redis.iter().position(|redis| redis.port() == port);
        node.expect("the port of one of the two processes")
    }

    /// Returns whether this node is a replica that is connected to its master.
    fn is_connected_replica(&self, node: usize) -> bool {
        let info = ask(self.redis[node].port(), &["INFO", "replication"]);
        info.is_some_and(|info| {
            info.text().contains("role:slave") && info.text().contains("master_link_status:up")
        })
    }

    fn wait(&self, what: &str, mut done: impl FnMut(&Self) -> bool) {
        // A Sentinel demotes an old master after about ten seconds. On a busy machine, it may
        // mistake its own delay for a jump of the clock, and then does nothing for thirty seconds.
        eventually_blocking!(done(self), "{what}");
    }
}

impl Watcher {
    fn start(master: u16) -> Self {
        let (dir, port) = (tempfile::tempdir().expect("a temporary folder"), free_port());
        let file = dir.path().join("sentinel.conf");
        let text = format!(
            "port {port}\nbind 127.0.0.1\ndir {}\n\
             sentinel monitor {NAME} 127.0.0.1 {master} 2\n\
             sentinel down-after-milliseconds {NAME} 1000\n\
             sentinel failover-timeout {NAME} 5000\n",
            dir.path().display()
        );
        fs::write(&file, text).expect("a file");
        // Every package of Redis contains redis-server; redis-sentinel may be in a separate
        // package.
        let child = redis_server().arg(file).arg("--sentinel").spawn();
        let child = child.expect("redis-server is missing: install it with ./tests/setup");
        Self { _process: Killed(child), port, _dir: dir }
    }

    fn master(&self) -> Option<u16> {
        let address = ask(self.port, &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME])?.texts();
        address.get(1)?.parse().ok()
    }

    /// Returns whether this Sentinel reports `value` in a field of its master.
    fn has_field(&self, field: &str, value: &str) -> bool {
        let known = ask(self.port, &["SENTINEL", "MASTER", NAME]).map(|reply| reply.texts());
        known.is_some_and(|known| known.chunks(2).any(|pair| pair == [field, value]))
    }
}
