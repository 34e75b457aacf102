//! A Redis that has lost its jobs. Every server notices the loss, refuses calls, and continues once
//! the loss is accepted.

use crate::api::prelude::*;

const INCARNATION: &str = "{dq:0fb}:incarnation";

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
    putter.put(format!(r#"{{"topic":"t","id":"{id}"}}"#)).await;
    let job = popper.pop_one("t").await;
    assert_eq!(job["id"], id);
    putter.act(id, "finish", held(&job)).await.is_done();
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
        server.until_status("/readyz", 503).await;
    }
    // A server that starts now finds the layout that the other servers have restored, and must
    // refuse calls like them.
    servers.push(Server::unready(|settings| settings.store.url = Secret(redis.url())).await);
    for server in &servers {
        assert_all_refused(server).await;
        // The server counts each bucket when its check notices the loss.
        let counted = async || server.metric("delay_queue_data_losses_total").await;
        eventually!(
            counted().await.is_some_and(|count| count >= 16.0),
            "not every bucket was counted"
        );
        assert_eq!(counted().await, Some(16.0));
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
            server.until_status("/readyz", 200).await.json()["status"] == "ok",
            "some buckets are still unavailable"
        );
        server.get("/jobs/old").await.problem(404, "job_not_found");
    }
    for (number, putter) in servers.iter().enumerate() {
        deliver(putter, &servers[(number + 1) % servers.len()], &format!("after:{number}")).await;
    }
    redis.command("FLUSHALL").expect("an answer");
    for server in &servers {
        server.until_status("/readyz", 503).await;
    }
    assert_eq!(servers[0].post("/store/accept-loss", "").await.ok(200)["buckets"], 16);
    for server in &servers {
        server.until_status("/readyz", 200).await;
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
    one.until_status("/readyz", 503).await;
    one.post("/store/accept-loss", "").await.ok(200);
    one.until_status("/readyz", 200).await;
    one.put(r#"{"topic":"t","id":"new"}"#).await;
    proxy.set(Mode::Pass);
    cut_off.until_status("/readyz", 200).await;
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
    one.until_status("/readyz", 503).await;
    other.until_status("/readyz", 503).await;
    let third = Server::at(&redis).await;
    third.put(r#"{"topic":"t","id":"new"}"#).await;
    assert_all_refused(&one).await;
    // The operator's request reaches the ready server, as through a load balancer.
    third.post("/store/accept-loss", "").await.ok(200);
    for server in [&one, &other, &third] {
        server.until_status("/readyz", 200).await;
    }
    assert_eq!(one.pop_one("t").await["id"], "new", "an acknowledged job is missing");
    third.post("/jobs/new/finish", "").await.is_done();
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_with_accept_data_loss_continue_by_themselves() {
    let redis = Redis::start();
    let accepts = |settings: &mut Settings| settings.store.accept_data_loss = true;
    let servers = [Server::at_with(&redis, accepts).await, Server::at_with(&redis, accepts).await];
    let strict = Server::at(&redis).await;
    for round in 0..3 {
        servers[0].put(format!(r#"{{"topic":"t","id":"lost:{round}","delay":"1h"}}"#)).await;
        redis.command("FLUSHALL").expect("an answer");
        eventually!(
            redis.command(&format!("EXISTS {INCARNATION}")).expect("an answer").contains(":1"),
            "no server has accepted the loss"
        );
        for server in servers.iter().chain([&strict]) {
            server.until_status("/readyz", 200).await;
        }
        deliver(&servers[0], &strict, &format!("after:{round}")).await;
        deliver(&strict, &servers[1], &format!("after-too:{round}")).await;
    }
    let mut counted = false;
    for server in &servers {
        counted |= server.metric("delay_queue_data_losses_total").await > Some(0.0);
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
    eventually!(
        server.until_status("/readyz", 503).await.json()["code"] == "store_replaced",
        "the server does not notice the loss"
    );
    redis.kill();
    fs::remove_dir_all(&files).expect("removed");
    fs::rename(&aside, &files).expect("put back");
    redis.resume();
    server.until_status("/readyz", 200).await;
    assert_eq!(server.pop_one("t").await["id"], "kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_emptied_cluster_node_affects_only_its_own_buckets() {
    let cluster = Arc::new(tokio::task::block_in_place(Cluster::steady));
    let servers = [Server::on_nodes_of(&cluster).await, Server::on_nodes_of(&cluster).await];
    let ids: Vec<String> = (0..60).map(|number| format!("job:{number}")).collect();
    // Empties each node in turn, since one of them has the layout and the record of accepted
    // losses.
    for node in 0..3 {
        for id in &ids {
            servers[0].put(format!(r#"{{"topic":"t","id":"{id}","delay":"1h"}}"#)).await;
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
            let ready = async || server.get("/readyz").await.ok(200);
            let said = until(ready, |said| {
                said["buckets_replaced"].as_array().is_some_and(|all| all.len() == buckets)
            })
            .await;
            assert_shows(&said, json!({"status": "degraded", "reasons": ["buckets_replaced"]}));
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
            eventually!(
                server.until_status("/readyz", 200).await.json()["status"] == "ok",
                "some buckets are still unavailable"
            );
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
    assert_eq!(server.until_status("/readyz", 200).await.json()["status"], "ok");
    assert_eq!(server.pop_one("t").await["id"], "a");
}
