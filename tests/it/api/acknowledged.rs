//! The promise of each value of `store.ack`, and the answers if the store cannot keep it.

use crate::api::prelude::*;

/// Starts a master that sends its data to a replica at once.
fn master() -> Redis {
    Redis::with(&["--appendonly", "yes", "--repl-diskless-sync-delay", "0"])
}

fn replica_of(port: u16) -> Redis {
    let replica =
        Redis::with(&["--appendonly", "yes", "--replicaof", &format!("127.0.0.1 {port}")]);
    wait_until_connected(&replica);
    replica
}

pub fn master_and_replica() -> (Redis, Redis) {
    let master = master();
    let replica = replica_of(master.port());
    (master, replica)
}

pub fn wait_until_connected(replica: &Redis) {
    let info = || replica.command("INFO replication").expect("an answer");
    eventually_blocking!(
        info().contains("master_link_status:up"),
        "the replica is not connected to its master: {}",
        info()
    );
}

/// Starts a server and waits until its writes are confirmed, which a replica may not do at once.
pub async fn server(redis: &Redis, ack: Ack) -> Server {
    let server = Server::at_with(redis, |settings| settings.store.ack = Some(ack)).await;
    let first = r#"{"topic":"first","id":"confirmed","on_conflict":"replace"}"#;
    let is_put = async || server.post("/jobs", first).await.status.is_success();
    eventually!(is_put().await, "no write is confirmed");
    let is_gone = async || !server.delete("/jobs/confirmed").await.status.is_server_error();
    eventually!(is_gone().await, "no delete is confirmed");
    server
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_replica_one_batch_is_unknown_and_others_refused() {
    let (master, mut replica) = master_and_replica();
    let server = server(&master, Ack::Replica).await;
    server.put(r#"{"topic":"t","id":"held"}"#).await;
    let popped = server.pop_one("t").await;
    server.put(r#"{"topic":"t","id":"before"}"#).await;
    replica.kill();

    // The master has written the put, but no replica has confirmed it.
    let first = server.post("/jobs", r#"{"topic":"t","id":"first"}"#).await;
    first.unavailable("unknown");
    assert!(first.headers.contains_key("retry-after"));
    server.job("first").await;
    // Later calls are refused before they write.
    for (path, body) in [
        ("/jobs", r#"{"topic":"t","id":"second"}"#),
        ("/jobs", r#"{"topic":"t"}"#),
        ("/jobs/held/finish", ""),
        ("/jobs/held/touch", ""),
        ("/jobs/before/kick", ""),
        ("/topics/t/pause", ""),
        ("/batch/delete", r#"{"jobs":[{"id":"before"}]}"#),
    ] {
        server.post(path, body).await.unavailable("no");
    }
    server.get("/topics/t/pop").await.problem(503, "store_unavailable");
    server.get("/jobs/second").await.problem(404, "job_not_found");
    // Reads need no replica.
    assert_eq!(server.job("held").await["attempt"], 1);
    assert_eq!(server.job("before").await["state"], "ready");

    replica.resume();
    wait_until_connected(&replica);
    // The master gets the replica's first confirmation a little later.
    eventually!(
        {
            let second = server.post("/jobs", r#"{"topic":"t","id":"second"}"#).await;
            if second.status != 201 {
                second.unavailable("no");
            }
            second.status == 201
        },
        "the master has received no confirmation of the replica"
    );
    server.act("held", "finish", held(&popped)).await.is_done();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_acknowledged_write_is_on_the_replica() {
    let (mut master, replica) = master_and_replica();
    let one = server(&master, Ack::Replica).await;
    for number in 0..50 {
        one.put(format!(r#"{{"topic":"t","id":"job:{number}"}}"#)).await;
    }
    let popped = one.pop("t/pop?count=10").await;
    assert_eq!(popped.len(), 10);
    for job in &popped[..5] {
        one.act(id_of(job), "finish", "").await.is_done();
    }
    // The master is killed right after the last answer. The replica must have all acknowledged
    // writes.
    master.kill();
    replica.command("REPLICAOF NO ONE").expect("an answer");
    let other = server(&replica, Ack::Memory).await;
    assert_shows(&other.topic("t").await, json!({"ready": 40, "reserved": 5}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_becomes_a_replica_acknowledges_no_writes() {
    let (master, _replica) = master_and_replica();
    let server = server(&master, Ack::Replica).await;
    server.put(r#"{"topic":"t","id":"a"}"#).await;
    master.command("REPLICAOF 127.0.0.1 1").expect("an answer");
    for number in 0..5 {
        let put = format!(r#"{{"topic":"t","id":"job:{number}"}}"#);
        server.post("/jobs", put).await.problem(503, "store_unavailable");
    }
    master.command("REPLICAOF NO ONE").expect("an answer");
    // The replica reconnects to its master after about a second.
    eventually!(
        {
            server.delete("/jobs/b").await;
            server.post("/jobs", r#"{"topic":"t","id":"b"}"#).await.status == 201
        },
        "the server does not acknowledge writes again"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unaware_old_master_acknowledges_only_with_memory() {
    let (old, new) = master_and_replica();
    let (weak, strong) = (server(&old, Ack::Memory).await, server(&old, Ack::Replica).await);
    strong.put(r#"{"topic":"t","id":"before"}"#).await;
    // The replica is promoted. The old master still answers, like one behind a network partition.
    new.command("REPLICAOF NO ONE").expect("an answer");
    weak.put(r#"{"topic":"t","id":"weak"}"#).await;
    strong.post("/jobs", r#"{"topic":"t","id":"strong"}"#).await.unavailable("unknown");
    strong.get("/topics/t/pop").await.problem(503, "store_unavailable");
    let there = server(&new, Ack::Memory).await;
    there.get("/jobs/weak").await.problem(404, "job_not_found"); // acknowledged, and lost
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unchanged_answer_needs_the_confirmation_too() {
    let mut master = master();
    let link = Proxy::start(master.port()).await;
    let replica = replica_of(link.port);
    let (one, other) = (server(&master, Ack::Replica).await, server(&master, Ack::Replica).await);
    one.put(r#"{"topic":"t","id":"ready"}"#).await;

    link.set(Mode::Swallow);
    let x = r#"{"topic":"t","id":"x"}"#;
    assert_eq!(one.post("/jobs", x).await.problem(503, "store_unavailable")["applied"], "unknown");
    // The README tells clients to retry. One retry uses the connection that wrote the job, and
    // another one a connection that has never written.
    let keep = r#"{"topic":"t","id":"x","on_conflict":"keep"}"#;
    for server in [&one, &other, &one] {
        server.post("/jobs", keep).await.problem(503, "store_unavailable");
        server.post("/jobs/ready/kick", "").await.problem(503, "store_unavailable");
    }

    master.kill();
    replica.command("REPLICAOF NO ONE").expect("an answer");
    let there = server(&replica, Ack::Memory).await;
    there.job("ready").await;
    there.get("/jobs/x").await.problem(404, "job_not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_redis_confirms_the_writes_that_it_accepts() {
    let (master, _replica) = master_and_replica();
    for ack in [Ack::Replica, Ack::Fsync] {
        master.command("CONFIG SET appendfsync always").expect("an answer");
        let server = server(&master, ack).await;
        server.put(r#"{"topic":"t","id":"a"}"#).await;
        server.put(r#"{"topic":"t","id":"b"}"#).await;
        assert_eq!(server.pop("t/pop?count=1").await.len(), 1);
        master.command("CONFIG SET maxmemory 1").expect("an answer");
        server.post("/jobs", r#"{"topic":"t"}"#).await.problem(507, "store_full");
        for _ in 0..3 {
            server.post("/jobs/b/kick", "").await.ok(200); // the job is ready, so the kick changes nothing
        }
        server.post("/jobs/a/finish", "").await.is_done();
        server.delete("/jobs/b").await.ok(200);
        master.command("CONFIG SET maxmemory 0").expect("an answer");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_closed_while_idle_fails_no_write() {
    let (master, _replica) = master_and_replica();
    master.command("CONFIG SET timeout 1").expect("an answer");
    let server = server(&master, Ack::Replica).await;
    for _ in 0..4 {
        pass(Duration::from_millis(1_500)).await; // Redis closes the idle connection meanwhile
        server.put(r#"{"topic":"t"}"#).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_killed_between_two_writes_fails_neither() {
    let (master, _replica) = master_and_replica();
    let server = server(&master, Ack::Replica).await;
    for _ in 0..10 {
        server.put(r#"{"topic":"t"}"#).await;
        pass(Duration::from_millis(50)).await; // the connection must be idle
        let killed = master.command("CLIENT KILL TYPE normal").expect("an answer");
        assert!(killed.starts_with(':') && killed != ":0\r\n", "{killed}");
    }
}
