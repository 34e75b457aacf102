//! A Redis Cluster of real processes: three masters with a third of the slots each, and three
//! replicas. Nodes have numbers from 0; nodes 0 to 2 start as masters.

use std::{collections::BTreeSet, thread::sleep, time::Duration};

use crate::support::{
    Redis, free_port,
    resp::{Reply, ask},
};

const MASTERS: usize = 3;
const NODES: usize = 2 * MASTERS;
const SLOTS: usize = 16_384;

pub struct Cluster {
    nodes: Vec<Redis>,
    /// The frozen node, if any. This type sends it no commands, since they would wait.
    frozen: Option<usize>,
}

struct NodeLine {
    port: u16,
    flags: String,
    slots: Vec<(u16, u16)>,
}

impl Cluster {
    /// Starts a cluster that replaces no master: however long a busy machine does not run a node,
    /// the others do not give it up.
    pub fn steady() -> Self {
        let cluster = Self::start();
        for node in 0..NODES {
            cluster.ok(node, &["CONFIG", "SET", "cluster-node-timeout", "60000"]);
        }
        // A node may have been given up before.
        cluster.wait_until_whole();
        cluster
    }

    /// Starts the nodes, and waits until the cluster accepts commands and its replicas have all
    /// data.
    pub fn start() -> Self {
        let node = |_| {
            let bus = free_port().to_string();
            let cluster = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"];
            // A replica gets its data at once. By default, the master waits 5 s for other replicas.
            let others = ["--cluster-port", &bus, "--repl-diskless-sync-delay", "0"];
            Redis::with(&[&["--appendonly", "yes"], &cluster[..], &others].concat())
        };
        let cluster = Self { nodes: (0..NODES).map(node).collect(), frozen: None };
        cluster.form();
        cluster
    }

    /// Forms the cluster without redis-cli, since the package of redis-server may not contain it.
    fn form(&self) {
        let port = |node: usize| self.nodes[node].port().to_string();
        for node in 0..NODES {
            // With different epochs from the start, the nodes have no conflict to resolve.
            self.ok(node, &["CLUSTER", "SET-CONFIG-EPOCH", &(node + 1).to_string()]);
        }
        for node in 0..MASTERS {
            let (from, to) = (SLOTS * node / MASTERS, SLOTS * (node + 1) / MASTERS - 1);
            self.ok(node, &["CLUSTER", "ADDSLOTSRANGE", &from.to_string(), &to.to_string()]);
        }
        for node in 1..NODES {
            let bus = self.command(node, &["CONFIG", "GET", "cluster-port"]).texts();
            self.ok(0, &["CLUSTER", "MEET", "127.0.0.1", &port(node), &bus[1]]);
        }
        let met = |cluster: &Self, node| {
            let lines = cluster.lines(node);
            lines.len() == NODES && lines.iter().all(|line| !line.flags.contains("handshake"))
        };
        self.wait("the nodes have not joined one cluster", |cluster| {
            (0..NODES).all(|node| met(cluster, node))
        });
        for node in MASTERS..NODES {
            self.ok(node, &["CLUSTER", "REPLICATE", &self.id(node - MASTERS)]);
        }
        self.wait_until_whole();
    }

    /// Returns the URL of all nodes, for `store.url`.
    pub fn url(&self) -> String {
        let nodes: Vec<_> = self.nodes.iter().map(|n| format!("127.0.0.1:{}", n.port())).collect();
        format!("redis+cluster://{}", nodes.join(","))
    }

    pub fn port(&self, node: usize) -> u16 {
        self.nodes[node].port()
    }

    /// Sets the frozen node, to which this type then sends no commands.
    pub fn set_frozen(&mut self, node: Option<usize>) {
        self.frozen = node;
    }

    pub fn command(&self, node: usize, words: &[&str]) -> Reply {
        let port = self.nodes[node].port();
        ask(port, words).unwrap_or_else(|| panic!("node {node} does not answer {words:?}"))
    }

    /// Returns the master of a slot, if all running nodes name the same one.
    pub fn master_of(&self, slot: u16) -> Option<usize> {
        let masters: BTreeSet<Option<usize>> =
            self.running().map(|node| self.master_as_seen_by(node, slot)).collect();
        masters.first().copied().flatten().filter(|_| masters.len() == 1)
    }

    pub fn masters(&self) -> Vec<u16> {
        let node = self.running().next().expect("a node runs");
        let lines = self.lines(node).into_iter();
        lines.filter(|line| !line.slots.is_empty()).map(|line| line.port).collect()
    }

    pub fn master_nodes(&self) -> Vec<usize> {
        let number = |port| self.nodes.iter().position(|node| node.port() == port);
        self.masters().into_iter().filter_map(number).collect()
    }

    /// Returns the slots of a master that have keys of buckets.
    pub fn slots_in_use(&self, node: usize) -> Vec<u16> {
        let keys = self.command(node, &["KEYS", "{*}:pool"]).texts();
        keys.iter().map(|key| self.slot_of(key)).collect()
    }

    /// Returns the slots of a master that have keys.
    pub fn slots_with_keys(&self, node: usize) -> Vec<u16> {
        let keys = self.command(node, &["KEYS", "*"]).texts();
        let slots: BTreeSet<u16> = keys.iter().map(|key| self.slot_of(key)).collect();
        slots.into_iter().collect()
    }

    pub fn slot_of(&self, key: &str) -> u16 {
        match self.command(0, &["CLUSTER", "KEYSLOT", key]) {
            Reply::Number(slot) => u16::try_from(slot).expect("a slot"),
            other => panic!("{other:?}"),
        }
    }

    /// Counts the connections to a node, without the connection that sends this command.
    pub fn connections(&self, node: usize) -> usize {
        let list = self.command(node, &["CLIENT", "LIST", "TYPE", "normal"]);
        list.text().lines().count() - 1
    }

    pub fn kill(&mut self, node: usize) {
        self.nodes[node].kill();
    }

    /// Restarts killed nodes and waits until the cluster is whole.
    pub fn resume(&mut self, nodes: &[usize]) {
        for &node in nodes {
            self.nodes[node].resume();
        }
        self.wait_until_whole();
    }

    /// Waits until a node other than `old` is the master of the slot and the cluster accepts
    /// commands again. Returns the new master.
    pub fn wait_for_failover(&self, slot: u16, old: usize) -> usize {
        let new = |cluster: &Self| cluster.master_of(slot).filter(|&node| node != old);
        self.wait("no replica was promoted", |cluster| {
            new(cluster).is_some() && cluster.running().all(|node| cluster.serves(node))
        });
        new(self).expect("the last check found a new master")
    }

    /// Moves slots with all their keys to a master, as a reshard does. Pauses for `pause` after
    /// half of each slot's keys.
    pub fn move_slots(&self, slots: &[u16], to: usize, pause: Duration) {
        let from = |slot| self.master_of(slot).expect("all nodes name the same master");
        let moves: Vec<(u16, usize)> = slots.iter().map(|&slot| (slot, from(slot))).collect();
        for &(slot, from) in &moves {
            let number = slot.to_string();
            self.ok(to, &["CLUSTER", "SETSLOT", &number, "IMPORTING", &self.id(from)]);
            self.ok(from, &["CLUSTER", "SETSLOT", &number, "MIGRATING", &self.id(to)]);
        }
        for &(slot, from) in &moves {
            let mut keys = self.keys_in(slot, from);
            keys.sort();
            // The pool of a bucket is among the first half of the keys in some slots, and among the
            // second half in others.
            if slot % 2 == 1 {
                keys.reverse();
            }
            self.migrate(&keys[..keys.len() / 2], from, to);
        }
        sleep(pause); // a reshard of many large keys takes this long
        for &(slot, from) in &moves {
            // The source creates no new keys in a migrating slot, so this loop ends.
            loop {
                let keys = self.keys_in(slot, from);
                if keys.is_empty() {
                    break;
                }
                self.migrate(&keys, from, to);
            }
            // The new owner is set first, so that an interruption leaves no slot without an owner.
            let others = (0..NODES).filter(|&node| node != to && self.is_master(node));
            for node in std::iter::once(to).chain(others) {
                self.ok(node, &["CLUSTER", "SETSLOT", &slot.to_string(), "NODE", &self.id(to)]);
            }
        }
        self.wait("the nodes do not agree on a moved slot", |cluster| {
            slots.iter().all(|&slot| cluster.master_of(slot) == Some(to))
        });
    }

    fn keys_in(&self, slot: u16, node: usize) -> Vec<String> {
        self.command(node, &["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), "1000"]).texts()
    }

    fn migrate(&self, keys: &[String], from: usize, to: usize) {
        let port = self.nodes[to].port().to_string();
        let mut words = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
        words.extend(keys.iter().map(String::as_str));
        if !keys.is_empty() {
            // MIGRATE answers NOKEY if all keys are gone because their last jobs were finished
            // meanwhile.
            let moved = self.command(from, &words);
            assert!(["OK", "NOKEY"].contains(&moved.text()), "{words:?}: {moved:?}");
        }
    }

    /// Waits until all nodes run and accept commands, and all replicas are connected to their
    /// masters.
    pub fn wait_until_whole(&self) {
        self.wait(
            "the cluster does not become complete: a node is down or a replica is not connected",
            |cluster| {
                let nodes = || cluster.running();
                let in_step = |&node: &usize| {
                    let info = cluster.command(node, &["INFO", "replication"]);
                    info.text().contains("role:slave")
                        && info.text().contains("master_link_status:up")
                };
                nodes().count() == NODES
                    && nodes().all(|node| cluster.serves(node))
                    && nodes().filter(in_step).count() == NODES - MASTERS
            },
        );
    }

    fn wait(&self, what: &str, mut done: impl FnMut(&Self) -> bool) {
        // An election takes two node timeouts, and longer on a busy machine.
        eventually_blocking!(done(self), "{what}");
    }

    fn ok(&self, node: usize, words: &[&str]) {
        assert_eq!(self.command(node, words).text(), "OK", "{words:?} to node {node}");
    }

    fn running(&self) -> impl Iterator<Item = usize> {
        let asked = (0..NODES).filter(|&node| self.frozen != Some(node));
        asked.filter(|&node| ask(self.nodes[node].port(), &["PING"]).is_some())
    }

    fn serves(&self, node: usize) -> bool {
        self.command(node, &["CLUSTER", "INFO"]).text().contains("cluster_state:ok")
    }

    fn is_master(&self, node: usize) -> bool {
        self.command(node, &["INFO", "replication"]).text().contains("role:master")
    }

    fn id(&self, node: usize) -> String {
        self.command(node, &["CLUSTER", "MYID"]).text().to_owned()
    }

    fn master_as_seen_by(&self, node: usize, slot: u16) -> Option<usize> {
        let has =
            |line: &&NodeLine| line.slots.iter().any(|(from, to)| (*from..=*to).contains(&slot));
        let port = self.lines(node).iter().find(has)?.port;
        self.nodes.iter().position(|node| node.port() == port)
    }

    fn lines(&self, node: usize) -> Vec<NodeLine> {
        let nodes = self.command(node, &["CLUSTER", "NODES"]);
        nodes.text().lines().filter_map(parse_node_line).collect()
    }
}

/// Parses a line of CLUSTER NODES: `<id> <ip>:<port>@<bus> <flags> <master> <ping> <pong> <epoch>
/// <link> <slots>…`.
fn parse_node_line(text: &str) -> Option<NodeLine> {
    let fields: Vec<&str> = text.split(' ').collect();
    let [_, address, flags, _, _, _, _, _, slots @ ..] = &fields[..] else { return None };
    let (_, port) = address.split_once('@')?.0.rsplit_once(':')?;
    let range = |text: &&str| {
        let (from, to) = text.split_once('-').unwrap_or((text, text));
        // Skips the entry of a migrating slot in brackets: its source also lists it as an ordinary
        // slot.
        Some((from.parse().ok()?, to.parse().ok()?))
    };
    Some(NodeLine {
        port: port.parse().ok()?,
        flags: (*flags).to_owned(),
        slots: slots.iter().filter_map(range).collect(),
    })
}
