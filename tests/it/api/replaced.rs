//! A Redis that has lost its jobs. Every server notices the loss, refuses calls, and continues once
//! the loss is accepted.

use crate::api::prelude::*;

const INCARNATION: &str = "{dq:0fb}:incarnation";

/// Waits until a server answers `/readyz` with this status. Returns the answer.
async fn wait_for_readyz(server: &Server, status: u16) -> Value {
    let began = Instant::now();
    loop {
        let answer = server.get("/readyz").await;
        if answer.status == status {
            return answer.json();
        }
        assert!(began.elapsed() < patience(), "readyz does not answer with {status}: {answer:?}");
        pass(Duration::from_millis(20)).await; // servers check at intervals
    }
}

/// Asserts that the server refuses every transition, and every read that could answer "not found".
async fn assert_all_refused(server: &Server) {
    for (path, body) in [
        ("/jobs", r#"{"topic":"t","id":"new"}"#),
        ("/jobs", r#"{"topic":"t"}"#),
        ("/jobs/old/finish", ""),
        ("/jobs/old/release", ""),
        ("/jobs/old/touch", ""),
        ("/jobs/old/bury", ""),
        ("/jobs/old/kick", ""),
        ("/batch/delete", r#"{"jobs":[{"id":"old"}]}"#),
        ("/topics/t/kick", ""),
        ("/topics/t/pause", ""),
        ("/tokens", r#"{"name":"a","scopes":{"admin":["*"]}}"#),
    ] {
        let problem = server.post(path, body).await.problem(503, "store_replaced");
        assert_eq!(problem["applied"], "no", "{path}: {problem}");
        let detail = problem["detail"].as_str().expect("text");
        assert!(
            detail.contains("accept-loss"),
            "the detail does not name the command to run: {detail}"
        );
    }
    for path in ["/jobs/old", "/topics/t", "/topics/t/jobs?state=ready", "/topics/t/pop?wait=100ms"]
    {
        server.get(path).await.problem(503, "store_replaced");
    }
    server.delete("/jobs/old").await.problem(503, "store_replaced");
    server.get("/readyz").await.problem(503, "store_replaced");
}

/// Puts and finishes a job through one server, and pops it through the other. This proves that both
/// use the same key of reservations.
async fn deliver(putter: &Server, popper: &Server, id: &str) {
    putter.put(&format!(r#"{{"topic":"t","id":"{id}"}}"#)).await;
    let job = popper.pop_one("t").await;
    assert_eq!(job["id"], id);
    let held = json!({"reservation": job["reservation"]}).to_string();
    assert_eq!(putter.post(&format!("/jobs/{id}/finish"), held).await.status, 204);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_server_refuses_an_emptied_redis_until_accepted() {
    let redis = Redis::start();
    let mut servers = Vec::new();
    for _ in 0..3 {
        servers.push(Server::at(&redis).await);
    }
    deliver(&servers[0], &servers[1], "before").await;
    servers[0].put(r#"{"topic":"t","id":"old","delay":"1h"}"#).await;
    redis.command("FLUSHALL").expect("an answer");
    for server in &servers {
        wait_for_readyz(server, 503).await;
    }
    // A server that starts now finds the layout that the other servers have restored, and must
    // refuse calls like them.
    servers.push(Server::unready(|settings| settings.store.url = Secret(redis.url())).await);
    for server in &servers {
        assert_all_refused(server).await;
        // The server counts each bucket when its check notices the loss.
        let counted = async || {
            let metrics = server.get("/metrics").await.text;
            let line =
                metrics.lines().find(|line| line.starts_with("delay_queue_data_losses_total"));
            line.and_then(|line| line.split(' ').nth(1)?.parse::<u64>().ok()).expect("a count")
        };
        eventually!(counted().await >= 16, "not every bucket was counted");
        assert_eq!(counted().await, 16);
    }
    let incarnation = redis.command(&format!("EXISTS {INCARNATION}")).expect("an answer");
    assert_eq!(incarnation, ":0\r\n", "no server may write an incarnation by itself");
    assert!(redis.command("GET dq:layout").expect("an answer").contains("buckets=16"));

    // All operators accept at once, some of them several times.
    let all = servers.iter().cycle().take(8 * servers.len());
    let accepted = join_all(all.map(|server| server.post("/store/accept-loss", ""))).await;
    for answer in accepted {
        answer.ok(200);
    }
    for server in &servers {
        eventually!(
            wait_for_readyz(server, 200).await["status"] == "ok",
            "some buckets are still unavailable"
        );
        server.get("/jobs/old").await.problem(404, "job_not_found");
    }
    for (number, putter) in servers.iter().enumerate() {
        deliver(putter, &servers[(number + 1) % servers.len()], &format!("after:{number}")).await;
    }
    redis.command("FLUSHALL").expect("an answer");
    for server in &servers {
        wait_for_readyz(server, 503).await;
    }
    assert_eq!(servers[0].post("/store/accept-loss", "").await.ok(200)["buckets"], 16);
    for server in &servers {
        wait_for_readyz(server, 200).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disconnected_server_notices_an_accepted_loss_later() {
    let redis = Redis::start();
    let one = Server::at(&redis).await;
    let proxy = Proxy::start(redis.port()).await;
    let url = format!("redis://127.0.0.1:{}/", proxy.port);
    let cut_off = Server::with(|settings| settings.store.url = Secret(url)).await;
    cut_off.put(r#"{"topic":"t","id":"lost","delay":"1h"}"#).await;
    proxy.set(Mode::Cut);
    redis.command("FLUSHALL").expect("an answer");
    wait_for_readyz(&one, 503).await;
    one.post("/store/accept-loss", "").await.ok(200);
    wait_for_readyz(&one, 200).await;
    one.put(r#"{"topic":"t","id":"new"}"#).await;
    proxy.set(Mode::Pass);
    wait_for_readyz(&cut_off, 200).await;
    assert_eq!(cut_off.pop_one("t").await["id"], "new");
    cut_off.get("/jobs/lost").await.problem(404, "job_not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_store_in_place_of_a_lost_one_is_shared_once_accepted() {
    let redis = Redis::start();
    let (one, other) = (Server::at(&redis).await, Server::at(&redis).await);
    // Simulates a server that starts on an empty Redis before the other servers have checked it.
    let script = "for _, key in ipairs(redis.call('KEYS', '*:incarnation')) do redis.call('SET', key, 'new') end";
    drop(ask(redis.port(), &["EVAL", script, "0"]).expect("an answer"));
    wait_for_readyz(&one, 503).await;
    wait_for_readyz(&other, 503).await;
    let third = Server::at(&redis).await;
    third.put(r#"{"topic":"t","id":"new"}"#).await;
    assert_all_refused(&one).await;
    // The operator's request reaches the ready server, as through a load balancer.
    third.post("/store/accept-loss", "").await.ok(200);
    for server in [&one, &other, &third] {
        wait_for_readyz(server, 200).await;
    }
    assert_eq!(one.pop_one("t").await["id"], "new", "an acknowledged job is missing");
    assert_eq!(third.post("/jobs/new/finish", "").await.status, 204);
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_with_accept_data_loss_continue_by_themselves() {
    let redis = Redis::start();
    let accepts = |settings: &mut Settings| {
        settings.store.url = Secret(redis.url());
        settings.store.accept_data_loss = true;
    };
    let servers = [Server::with(accepts).await, Server::with(accepts).await];
    let strict = Server::at(&redis).await;
    for round in 0..3 {
        servers[0].put(&format!(r#"{{"topic":"t","id":"lost:{round}","delay":"1h"}}"#)).await;
        redis.command("FLUSHALL").expect("an answer");
        eventually!(
            redis.command(&format!("EXISTS {INCARNATION}")).expect("an answer").contains(":1"),
            "no server has accepted the loss"
        );
        for server in servers.iter().chain([&strict]) {
            wait_for_readyz(server, 200).await;
        }
        deliver(&servers[0], &strict, &format!("after:{round}")).await;
        deliver(&strict, &servers[1], &format!("after-too:{round}")).await;
    }
    let mut counted = false;
    for server in &servers {
        let metrics = server.get("/metrics").await.text;
        counted |= !metrics.contains("delay_queue_data_losses_total 0\n");
    }
    assert!(counted, "no server has counted the loss");
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_continue_by_themselves_when_the_lost_data_is_back() {
    let mut redis = Redis::with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let server = Server::at(&redis).await;
    server.put(r#"{"topic":"t","id":"kept"}"#).await;
    redis.kill();
    let (files, aside) = (redis.dir.path().join("appendonlydir"), redis.dir.path().join("aside"));
    fs::rename(&files, &aside).expect("moved aside");
    redis.resume();
    // The store is unavailable until the server has checked it.
    while wait_for_readyz(&server, 503).await["code"] != "store_replaced" {
        pass(Duration::from_millis(20)).await; // servers check at intervals
    }
    redis.kill();
    fs::remove_dir_all(&files).expect("removed");
    fs::rename(&aside, &files).expect("put back");
    redis.resume();
    wait_for_readyz(&server, 200).await;
    assert_eq!(server.pop_one("t").await["id"], "kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_emptied_cluster_node_affects_only_its_own_buckets() {
    let cluster = Arc::new(tokio::task::block_in_place(Cluster::steady));
    let settings = |settings: &mut Settings| settings.store.url = Secret(cluster.url());
    let servers = [Server::with(settings).await, Server::with(settings).await];
    let ids: Vec<String> = (0..60).map(|number| format!("job:{number}")).collect();
    // Empties each node in turn, since one of them has the layout and the record of accepted
    // losses.
    for node in 0..3 {
        for id in &ids {
            servers[0].put(&format!(r#"{{"topic":"t","id":"{id}","delay":"1h"}}"#)).await;
        }
        let keys = cluster.command(node, &["KEYS", "{*}:pool"]).texts();
        let stored_ids = keys.iter().flat_map(|key| cluster.command(node, &["HKEYS", key]).texts());
        let lost: Vec<String> = stored_ids.filter(|id| ids.contains(id)).collect();
        assert!(
            (5..55).contains(&lost.len()),
            "the node does not have about a third of the buckets: {lost:?}"
        );
        let buckets = cluster.command(node, &["KEYS", "{*}:incarnation"]).texts().len();
        cluster.command(node, &["FLUSHALL"]);
        for server in &servers {
            let began = Instant::now();
            loop {
                let said = server.get("/readyz").await.ok(200);
                if said["buckets_replaced"].as_array().is_some_and(|all| all.len() == buckets) {
                    assert_eq!(said["status"], "degraded");
                    assert_eq!(said["reasons"], json!(["buckets_replaced"]));
                    break;
                }
                assert!(began.elapsed() < patience(), "{said}");
                pass(Duration::from_millis(20)).await; // servers check at intervals
            }
            for id in &ids {
                let answer = server.get(&format!("/jobs/{id}")).await;
                if lost.contains(id) {
                    answer.problem(503, "store_replaced");
                } else {
                    answer.ok(200);
                }
            }
            // A put without an id goes to a bucket without a loss.
            for _ in 0..50 {
                server.put(r#"{"topic":"other"}"#).await;
            }
        }
        servers[1].post("/store/accept-loss", "").await.ok(200);
        for server in &servers {
            while wait_for_readyz(server, 200).await["status"] != "ok" {
                pass(Duration::from_millis(20)).await; // servers check at intervals
            }
            for id in &lost {
                server.get(&format!("/jobs/{id}")).await.problem(404, "job_not_found");
            }
        }
        for id in ids.iter().filter(|id| !lost.contains(id)) {
            servers[1].delete(&format!("/jobs/{id}")).await.ok(200);
        }
    }
}

pub async fn a_store_without_a_loss_has_nothing_to_accept(server: Server) {
    server.put(r#"{"topic":"t","id":"a"}"#).await;
    server.post("/store/accept-loss", "").await.ok(200);
    assert_eq!(server.post("/store/accept-loss", "{}").await.ok(200)["buckets"], 0);
    server.post("/store/accept-loss", r#"{"all":true}"#).await.problem(422, "invalid_field");
    assert_eq!(wait_for_readyz(&server, 200).await["status"], "ok");
    assert_eq!(server.pop_one("t").await["id"], "a");
}
