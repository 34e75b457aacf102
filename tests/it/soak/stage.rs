//! The servers of a run, their store, and the proxies and disks between them.

use std::fs;
use std::fs::File;

use crate::soak::prelude::*;
use crate::{
    disk::shim::{Disk, Keep},
    soak::options::Kind,
    support::{
        scan::{Scan, scan},
        scan_file::scan_file,
        shifted_clock::ShiftedClock,
    },
};

pub struct Stage {
    pub servers: Vec<Server>,
    pub store: Store,
    pub clock: ShiftedClock,
    dir: TempDir,
}

/// A server, and the proxy through which clients reach it.
pub struct Server {
    pub port: u16,
    pub process: Process,
    pub proxy: Proxy,
}

pub enum Store {
    File(Disk),
    Redis(Box<Single>),
    Sentinel(Box<Sentinel>),
    Cluster(Box<Cluster>),
}

/// One Redis, the disk below it and the proxy in front of it.
pub struct Single {
    pub redis: Redis,
    pub disk: Disk,
    pub proxy: Proxy,
}

impl Stage {
    pub async fn start(kind: Kind, ack: Option<Ack>) -> Self {
        let (dir, clock) = (tempfile::tempdir().expect("a temporary folder"), ShiftedClock::new());
        let store = match kind {
            Kind::File => Store::File(Disk::new()),
            Kind::Redis => Store::Redis(Box::new(Single::start(&clock, ack).await)),
            Kind::Sentinel => Store::Sentinel(Box::new(block_in_place(Sentinel::start))),
            Kind::Cluster => Store::Cluster(Box::new(block_in_place(Cluster::start))),
        };
        let settings = match &store {
            Store::File(_) => "url = \"file:./state/data\"".to_owned(),
            Store::Redis(single) => format!("url = \"redis://127.0.0.1:{}/\"", single.proxy.port),
            Store::Sentinel(sentinel) => format!("url = {:?}\nack = \"replica\"", sentinel.url()),
            Store::Cluster(cluster) => format!("url = {:?}\nack = \"replica\"", cluster.url()),
        };
        let settings = format!("[store]\n{settings}\n[log]\nfilter = \"error\"\n");
        fs::write(dir.path().join("soak.toml"), settings).expect("a file");
        let mut stage = Self { servers: Vec::new(), store, clock, dir };
        for _ in 0..if kind == Kind::File { 1 } else { 2 } {
            let port = free_port();
            let process = stage.process(port).await;
            stage.servers.push(Server { port, process, proxy: Proxy::start(port).await });
        }
        stage
    }

    /// Returns the addresses at which clients reach the servers.
    pub fn bases(&self) -> Vec<String> {
        self.servers.iter().map(|s| format!("http://127.0.0.1:{}", s.proxy.port)).collect()
    }

    /// Restarts a server that has ended, and waits until it is ready.
    pub async fn restart(&mut self, server: usize) {
        block_in_place(|| self.servers[server].process.end());
        self.servers[server].process = self.process(self.servers[server].port).await;
    }

    /// Kills a server as `kill -9` does, and restarts it.
    pub async fn kill(&mut self, server: usize) {
        let old = self.servers[server].process.id();
        block_in_place(|| self.servers[server].process.kill());
        // For a while, only the other server runs, if there is one.
        tokio::time::sleep(Duration::from_millis(300)).await;
        self.restart(server).await;
        assert_ne!(
            self.servers[server].process.id(),
            old,
            "the restarted server must be another process"
        );
    }

    async fn process(&self, port: u16) -> Process {
        let config = self.dir.path().join("soak.toml");
        let arguments = ["--config", config.to_str().expect("UTF-8")];
        let mut command = match &self.store {
            Store::File(disk) => {
                let mut command = program(&disk.root(), &arguments);
                command.envs(self.clock.variables());
                command.envs(disk.variables(&[self.clock.library()], Keep::Bytes));
                command
            }
            _ => program(self.dir.path(), &arguments),
        };
        let log = File::options().create(true).append(true).open(self.dir.path().join("log"));
        command.stderr(log.expect("a log"));
        Process::spawn_with_log(port, command).await
    }

    /// Returns the disk below the store. Panics if tests cannot break it.
    pub fn disk(&self) -> &Disk {
        match &self.store {
            Store::File(disk) => disk,
            Store::Redis(single) => &single.disk,
            _ => panic!("tests cannot break the disk of this store"),
        }
    }

    pub fn single(&mut self) -> &mut Single {
        match &mut self.store {
            Store::Redis(single) => single,
            _ => panic!("the store is not one Redis"),
        }
    }

    /// Returns the ports of the Redis processes that accept writes.
    pub fn masters(&self) -> Vec<u16> {
        match &self.store {
            Store::File(_) => Vec::new(),
            Store::Redis(single) => vec![single.redis.port()],
            Store::Sentinel(sentinel) => {
                vec![sentinel.master().expect("all Sentinels name the same master")]
            }
            Store::Cluster(cluster) => cluster.masters(),
        }
    }

    /// Sends a command to each of the masters, which must answer OK.
    pub fn command_masters(&self, words: &[&str]) {
        for port in block_in_place(|| self.masters()) {
            let done = block_in_place(|| ask(port, words)).expect("an answer");
            assert_eq!(done.text(), "OK", "{words:?}");
        }
    }

    pub fn scan(&self) -> Scan {
        match &self.store {
            Store::File(disk) => scan_file(&disk.root().join("state/data"), &TOPICS),
            _ => scan(&self.masters(), &TOPICS),
        }
    }
}

impl Single {
    /// Starts a Redis on the given clock. It acknowledges after the sync, unless `ack` is given.
    async fn start(clock: &ShiftedClock, ack: Option<Ack>) -> Self {
        // Redis must not rewrite its log: after a power cut, the test restores only the synced
        // length of each file.
        let sync = if ack.is_some() { "everysec" } else { "always" };
        let durable = ["--appendonly", "yes", "--appendfsync", sync];
        let mut redis =
            Redis::later(&[&durable[..], &["--auto-aof-rewrite-percentage", "0"]].concat());
        let disk = Disk::at(redis.dir.path().to_owned());
        let preloaded = disk.variables(&[clock.library()], Keep::Lengths);
        redis.variables = [clock.variables(), preloaded].concat();
        block_in_place(|| redis.resume());
        let proxy = Proxy::start(redis.port()).await;
        Self { redis, disk, proxy }
    }

    /// Returns whether the process has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        let child = self.redis.child.as_mut();
        child.is_none_or(|child| {
            child.try_wait().expect("the process is a child of this test").is_some()
        })
    }

    /// Makes Redis rewrite its log with the current contents.
    pub fn rewrite(&self) {
        let port = self.redis.port();
        let began = ask(port, &["BGREWRITEAOF"]).expect("an answer");
        assert!(began.text().contains("started"), "{began:?}");
        let info = || ask(port, &["INFO", "persistence"]).expect("an answer");
        eventually_blocking!(
            info().text().contains("aof_rewrite_in_progress:0"),
            "Redis does not rewrite its log"
        );
    }
}
