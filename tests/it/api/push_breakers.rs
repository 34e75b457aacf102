//! Pushes to one host, of which some fail, and endpoints that close connections.

use tokio::net::TcpListener;

use crate::{
    api::{
        deliveries::{push, until_state},
        prelude::*,
    },
    support::endpoint::{Endpoint, status},
};

pub async fn a_push_that_is_refused_does_not_slow_its_neighbours(server: Server) {
    let endpoint = Endpoint::start(|request| {
        status(if request.header("delay-queue-topic") == Some("refused") { 429 } else { 204 })
    })
    .await;
    push(&server, "refused", &endpoint, json!({})).await;
    push(&server, "accepted", &endpoint, json!({})).await;
    for number in 0..20 {
        server.put(format!(r#"{{"topic":"refused","id":"r{number}"}}"#)).await;
    }
    let state = async |topic: &str| {
        server.get(&format!("/topics/{topic}/push")).await.ok(200)["state"].clone()
    };
    eventually!(state("refused").await == "open", "the push is not open");
    for number in 0..50 {
        server.put(format!(r#"{{"topic":"accepted","id":"a{number}"}}"#)).await;
    }
    let mut accepted = 0;
    while accepted < 50 {
        let request = endpoint.next().await;
        accepted += usize::from(request.header("delay-queue-topic") == Some("accepted"));
    }
    assert_eq!(state("accepted").await, "running");
    // The target shows that a push to it fails.
    assert_eq!(server.get("/overview").await.ok(200)["pushes"][0]["state"], "open");
    server.stop().await;
}

/// Reads a request, whose body is `null`. Returns whether there is one.
async fn read_request(tcp: &mut TcpStream) -> bool {
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\nnull") {
        if !tcp.read_buf(&mut read).await.is_ok_and(|bytes| bytes > 0) {
            return false;
        }
    }
    true
}

/// Accepts a connection and answers its request.
async fn answer(listener: &TcpListener) -> TcpStream {
    let (mut tcp, _) = listener.accept().await.expect("a connection");
    assert!(read_request(&mut tcp).await, "the server closed it");
    tcp.write_all(b"HTTP/1.1 200 Ok\r\nContent-Length: 0\r\n\r\n").await.expect("written");
    tcp
}

pub async fn a_request_on_a_closed_connection_costs_no_attempt(server: Server) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let body = json!({ "url": format!("http://{address}/") }).to_string();
    server.call(Method::PUT, "/topics/kept/push", body).await.ok(201);
    let put = async |id: &str| {
        let retention = r#""finished_retention":"1h","max_attempts":1"#;
        server.put(format!(r#"{{"topic":"kept","id":"{id}",{retention}}}"#)).await;
    };
    put("first").await;
    let mut tcp = answer(&listener).await;
    until_state(&server, "first", "finished").await;
    put("second").await;
    // On a machine that stalls, the server has closed the connection, since it was idle.
    if read_request(&mut tcp).await {
        drop(tcp);
    }
    answer(&listener).await;
    assert_eq!(until_state(&server, "second", "finished").await["attempt"], 1);
    server.stop().await;
}

pub async fn a_deleted_push_leaves_no_target(server: Server) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let body = json!({ "url": format!("http://{address}/") }).to_string();
    server.call(Method::PUT, "/topics/ended/push", body).await.ok(201);
    server.put(r#"{"topic":"ended","id":"last"}"#).await;
    let (mut tcp, _) = listener.accept().await.expect("a connection");
    assert!(read_request(&mut tcp).await, "the server closed it");
    let shows_target = async || server.get("/metrics").await.text.contains("push_target_open{");
    assert!(shows_target().await, "a push has a target");
    server.delete("/topics/ended/push").await.is_done();
    let answer = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
    tcp.write_all(answer).await.expect("written");
    eventually!(!shows_target().await, "a target has no push");
    assert_eq!(server.get("/overview").await.ok(200)["pushes"], json!([]));
    server.stop().await;
}
