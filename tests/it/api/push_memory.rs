//! Bodies of pushed jobs within the memory of the server.

use tokio::net::TcpListener;

use crate::api::prelude::*;

#[tokio::test]
async fn a_push_waits_for_memory_before_it_sends_more() {
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = silent.local_addr().expect("an address");
    let redis = Redis::start();
    let server = Server::at_with(&redis, |settings| {
        settings.limits.request_bytes = 1 << 20;
        settings.limits.memory_bytes = 4 << 20;
        settings.server.shutdown_grace = Millis::new(100);
    })
    .await;
    let body = "x".repeat(200 << 10);
    for number in 0..8 {
        server.put(json!({ "topic": "t", "id": number.to_string(), "body": body })).await;
    }
    let push = json!({ "url": format!("http://{address}/"), "timeout": "5m" }).to_string();
    server.call(Method::PUT, "/topics/t/push", push).await.ok(201);
    let shown = until(
        async || server.get("/topics/t/push").await.ok(200),
        |shown| {
            shown["in_flight"].as_u64().is_some_and(|count| count > 0)
                && shown["reason"].as_str().is_some_and(|reason| reason.contains("memory"))
        },
    )
    .await;
    // An eighth of the memory is enough for two bodies.
    assert_shows(&shown, json!({"in_flight": 2, "state": "running"}));
    eventually!(server.topic("t").await["ready"] == 6, "the other jobs are not ready");
    let used = server.metric("delay_queue_memory_bytes").await.expect("a number") as usize;
    // Each body counts once.
    assert!((400 << 10..500 << 10).contains(&used), "{used}");
    server.stop().await;
}
