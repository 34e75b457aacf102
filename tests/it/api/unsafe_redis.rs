//! A Redis whose settings are changed while it runs, so that it may lose jobs.

use crate::api::prelude::*;

pub fn run(redis: &Redis, line: &str) {
    assert_eq!(redis.command(line).as_deref(), Some("+OK\r\n"), "{line}");
}

/// Waits until `/readyz` has these reasons.
async fn until_reasons(server: &Server, reasons: Value) {
    until(async || server.get("/readyz").await.ok(200), |ready| ready["reasons"] == reasons).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_may_lose_jobs_takes_no_new_ones() {
    let redis = Redis::start();
    let server = Server::at(&redis).await;
    for (wrong, right) in [
        ("maxmemory-policy allkeys-lru", "maxmemory-policy noeviction"),
        ("appendonly no", "appendonly yes"),
    ] {
        for id in ["a", "b"] {
            server.put(json!({"topic": "t", "id": id})).await;
        }
        run(&redis, &format!("CONFIG SET {wrong}"));
        // The server notices by itself, and not only when it is asked.
        let put = async || server.post("/jobs", r#"{"topic":"u"}"#).await;
        eventually!(put().await.status == 503, "puts are accepted");
        assert_eq!(put().await.problem(503, "store_unsafe")["applied"], "no");
        let batch = r#"{"jobs":[{"topic":"u"}]}"#;
        server.post("/batch/jobs", batch).await.problem(503, "store_unsafe");
        until_reasons(&server, json!(["store_unsafe"])).await;

        let job = server.pop_one("t").await;
        server.act(id_of(&job), "finish", held(&job)).await.is_done();
        let other = if job["id"] == "a" { "b" } else { "a" };
        server.patch(other, r#"{"body":1}"#).await.ok(200);
        server.delete(&format!("/jobs/{other}")).await.ok(200);

        // A new connection does not refuse the other calls either.
        redis.command("CLIENT KILL TYPE normal SKIPME yes").expect("an answer");
        eventually!(server.get("/topics/t").await.status == 200, "no connection");
        put().await.problem(503, "store_unsafe");

        run(&redis, &format!("CONFIG SET {right}"));
        eventually!(put().await.status == 201, "{:?}", put().await);
        until_reasons(&server, json!(null)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_accepted_risk_refuses_no_put() {
    let redis = Redis::start();
    let server = Server::at_with(&redis, |all| all.store.accept_data_loss = true).await;
    run(&redis, "CONFIG SET maxmemory-policy allkeys-lru");
    until_reasons(&server, json!(null)).await;
    server.put(r#"{"topic":"t"}"#).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_safe_nodes_of_a_cluster_take_new_jobs() {
    let cluster = tokio::task::block_in_place(Cluster::steady);
    let server = Server::on_nodes_of(&cluster).await;
    cluster.command(1, &["CONFIG", "SET", "appendonly", "no"]);
    until_reasons(&server, json!(["store_unsafe"])).await;
    for _ in 0..30 {
        server.put(r#"{"topic":"t"}"#).await;
    }
    let mut refused = 0;
    for number in 0..60 {
        let put = json!({"topic": "t", "id": format!("job:{number}")});
        let answer = server.post("/jobs", put).await;
        if answer.status != 201 {
            answer.problem(503, "store_unsafe");
            refused += 1;
        }
    }
    assert!((1..60).contains(&refused), "{refused} of 60 jobs were refused");
}
