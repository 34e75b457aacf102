//! A cluster in which one node and its replica are unavailable.

use crate::api::prelude::*;

/// Returns the ids of the jobs on a master.
fn ids_on(cluster: &Cluster, node: usize) -> BTreeSet<String> {
    let keys = cluster.command(node, &["KEYS", "{*}:pool"]).texts();
    keys.iter().flat_map(|key| cluster.command(node, &["HKEYS", key]).texts()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn only_buckets_of_an_unavailable_node_refuse_calls() {
    let mut cluster = tokio::task::block_in_place(Cluster::steady);
    // Otherwise the cluster itself would refuse all calls.
    for node in 0..6 {
        cluster.command(node, &["CONFIG", "SET", "cluster-require-full-coverage", "no"]);
        // Makes each node sync its writes, so that a killed node restarts with all of its jobs.
        cluster.command(node, &["CONFIG", "SET", "appendfsync", "always"]);
    }
    let server = Server::on_nodes_of(&cluster).await;
    let own = |number| format!(r#"{{"topic":"t","id":"job:{number}"}}"#);
    for number in 0..60 {
        server.put(&own(number)).await;
    }
    let gone = ids_on(&cluster, 0);
    assert!(
        (5..55).contains(&gone.len()),
        "the killed node does not have about a third of the jobs: {gone:?}"
    );
    let buckets = cluster.command(0, &["KEYS", "{*}:incarnation"]).texts().len();
    cluster.kill(3); // the first master's replica
    cluster.kill(0);
    let away = async || match &server.get("/readyz").await.json()["buckets_unavailable"] {
        Value::Array(away) => away.len(),
        _ => 0,
    };
    eventually!(away().await >= buckets, "{}", server.get("/readyz").await.text);
    assert_eq!(server.get("/readyz").await.ok(200)["status"], "degraded");

    let mut refused = 0;
    for number in 0..60 {
        let answer = server.get(&format!("/jobs/job:{number}")).await;
        if gone.contains(&format!("job:{number}")) {
            answer.unavailable("no");
            assert!(answer.headers.contains_key("retry-after"));
            refused += 1;
        } else {
            answer.ok(200);
        }
    }
    assert_eq!(refused, gone.len());
    // A put without an id goes to an available bucket, alone and in batches.
    for _ in 0..100 {
        server.put(r#"{"topic":"new"}"#).await;
    }
    server.put_all(vec![json!({"topic": "new"}); 200]).await;
    // Pops return the jobs of other buckets. They fail when no other bucket has a job.
    let mut popped = 0;
    while popped < 300 {
        let jobs = server.get("/topics/new/pop?count=100&wait=10s").await.jobs();
        assert!(!jobs.is_empty(), "{popped} of 300");
        popped += jobs.len();
    }
    server.get("/topics/nothing/pop").await.problem(503, "store_unavailable");
    let unavailable = server.metric("delay_queue_buckets_unavailable").await;
    assert_eq!(unavailable, Some(buckets as f64));

    // A waiting consumer gets the job of a bucket that is available again.
    let waiting = server.request(Method::GET, "/topics/later/pop?wait=30s").send();
    let waiting = tokio::spawn(waiting);
    tokio::task::block_in_place(|| {
        cluster.resume(&[0, 3]);
    });
    let id = gone.iter().next().expect("some");
    eventually!(
        server.get(&format!("/jobs/{id}")).await.status == 200,
        "the bucket does not become available again"
    );
    server.delete(&format!("/jobs/{id}")).await.ok(200);
    server.put(format!(r#"{{"topic":"later","id":"{id}"}}"#)).await;
    let answer: Value =
        waiting.await.expect("joined").expect("an answer").json().await.expect("JSON");
    assert_eq!(answer["jobs"][0]["id"], **id, "{answer}");
    eventually!(away().await == 0, "{}", server.get("/readyz").await.text);
}
