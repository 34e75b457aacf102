//! A Redis master and its replica, watched by three real Sentinels.

use std::{collections::BTreeSet, fs, process::Child};

use tempfile::TempDir;

use crate::support::{Redis, free_port, redis_server, resp::ask};

const NAME: &str = "main";

/// Two Redis processes and three Sentinels.
pub struct Sentinel {
    redis: Vec<Redis>,
    watchers: Vec<Watcher>,
    killed: Option<usize>,
}

struct Watcher {
    child: Child,
    port: u16,
    _dir: TempDir,
}

impl Sentinel {
    /// Starts all and waits until the Sentinels know each other and the replica.
    pub fn start() -> Self {
        // The replica should get its data at once, not after the 5 s in which others may join.
        let arguments = ["--appendonly", "yes", "--repl-diskless-sync-delay", "0"];
        let master = Redis::with(&arguments);
        let follow = ["--replicaof", "127.0.0.1", &master.port().to_string()];
        let replica = Redis::with(&[&arguments[..], &follow].concat());
        let mut all = Self { redis: vec![master, replica], watchers: Vec::new(), killed: None };
        // A Sentinel asks for replicas at once, then only every 10 s.
        all.wait("the replica does not follow", |all| all.follows(1));
        all.watchers = (0..3).map(|_| Watcher::start(all.redis[0].port())).collect();
        all.wait("the sentinels do not find each other", |all| {
            all.watchers.iter().all(|watcher| {
                watcher.tells("num-slaves", "1") && watcher.tells("num-other-sentinels", "2")
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
        let port = self.master().expect("a settled master");
        let node = self.node(port);
        self.redis[node].kill();
        self.killed = Some(node);
        port
    }

    /// Waits until all Sentinels name another master than `old`, which has that role; returns its
    /// port.
    pub fn wait_for_failover(&self, old: u16) -> u16 {
        let new = |all: &Self| all.master().filter(|&port| port != old);
        self.wait("no failover", |all| {
            new(all).is_some_and(|port| {
                let role = ask(port, &["ROLE"]).map(|role| role.texts());
                role.is_some_and(|role| role.first().is_some_and(|role| role == "master"))
            })
        });
        new(self).expect("it was there a moment ago")
    }

    /// Restarts the killed process, and waits until there are a master and a replica. The old
    /// master believes to be the master for about ten seconds, until the Sentinels demote it.
    pub fn resume_killed(&mut self) {
        let node = self.killed.take().expect("one was killed");
        self.redis[node].resume();
        self.wait_until_settled();
    }

    /// Waits until the master that all Sentinels name has a replica in step. On a busy machine they
    /// may have gone back to the old master, which has not told them that it is no replica.
    pub fn wait_until_settled(&self) {
        self.wait("the old master does not follow", |all| {
            let master = all.master().map(|port| all.node(port));
            master.is_some_and(|master| !all.follows(master) && all.follows(1 - master))
        });
    }

    /// Makes the Sentinels promote the replica while the old master is alive, and waits until that
    /// follows. It goes on as a master for about ten seconds, until the Sentinels demote it.
    pub fn force_failover(&self) {
        let old = self.master().expect("a settled master");
        self.wait("a failover cannot begin", |all| {
            // Refused while the last failover is not over, or its end is not known yet.
            let begun = ask(all.watchers[0].port, &["SENTINEL", "FAILOVER", NAME]);
            begun.is_some_and(|reply| reply.text() == "OK")
        });
        self.wait_for_failover(old);
        self.wait_until_settled();
    }

    /// Counts the connections to the master, without the one that asks and those of Sentinels and
    /// the replica.
    pub fn connections(&self) -> usize {
        let master = self.master().expect("a settled master");
        let list = ask(master, &["CLIENT", "LIST", "TYPE", "normal"]).expect("an answer");
        let ours = |line: &&str| !line.contains("name=sentinel-");
        list.text().lines().filter(ours).count() - 1
    }

    fn node(&self, port: u16) -> usize {
        self.redis.iter().position(|redis| redis.port() == port).expect("one of ours")
    }

    /// Reports whether this node is a replica and in step.
    fn follows(&self, node: usize) -> bool {
        let info = ask(self.redis[node].port(), &["INFO", "replication"]);
        info.is_some_and(|info| {
            info.text().contains("role:slave") && info.text().contains("master_link_status:up")
        })
    }

    fn wait(&self, what: &str, mut done: impl FnMut(&Self) -> bool) {
        // A Sentinel demotes an old master after about ten seconds; on a busy machine it may take a
        // late turn of its own for a jump of the clock, and then does nothing for thirty.
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
        // Every package of Redis has this program; redis-sentinel may be in another one.
        let child = redis_server().arg(file).arg("--sentinel").spawn();
        let child = child.expect("redis-server is installed: ./tests/setup does that");
        Self { child, port, _dir: dir }
    }

    fn master(&self) -> Option<u16> {
        let address = ask(self.port, &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME])?.texts();
        address.get(1)?.parse().ok()
    }

    /// Reports whether this Sentinel has this value in a field of the master.
    fn tells(&self, field: &str, value: &str) -> bool {
        let known = ask(self.port, &["SENTINEL", "MASTER", NAME]).map(|reply| reply.texts());
        known.is_some_and(|known| known.chunks(2).any(|pair| pair == [field, value]))
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.child.kill().expect("the process is ours");
        self.child.wait().expect("it was killed");
    }
}
