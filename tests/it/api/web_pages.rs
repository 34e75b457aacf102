//! Requests of web pages to a server that requires no token.

use crate::api::prelude::*;

async fn put(server: &Server, headers: &[(&str, &str)]) -> Answer {
    let mut request = server.request(Method::POST, "/jobs").body(r#"{"topic":"t"}"#);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    Server::send(request).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_another_origin_can_neither_put_nor_pop() {
    let server = Server::on_file().await;
    put(&server, &[]).await.ok(201);
    let json = ("content-type", "application/json");
    for headers in [
        &[("origin", "https://evil.test"), json][..],
        &[("origin", "http://localhost:3000"), json],
        &[("origin", "null"), json],
        &[("host", "evil.test")],
        &[("sec-fetch-site", "cross-site")],
        &[("sec-fetch-site", "none"), ("sec-purpose", "prefetch")],
        &[("sec-fetch-site", "none"), ("sec-fetch-mode", "navigate")],
    ] {
        put(&server, headers).await.problem(403, "forbidden_origin");
        let mut pop = server.request(Method::GET, "/topics/t/pop");
        for (name, value) in headers {
            pop = pop.header(*name, *value);
        }
        Server::send(pop).await.problem(403, "forbidden_origin");
    }
    assert_eq!(
        server.topic("t").await["ready"],
        1,
        "a page of another origin has put or popped a job"
    );
    let form = ("content-type", "application/x-www-form-urlencoded");
    let own = server.url("");
    put(&server, &[("origin", &own), form]).await.problem(415, "unsupported_media_type");
    put(&server, &[("origin", &own), json]).await.ok(201);
    put(&server, &[("content-type", "text/plain")]).await.problem(415, "unsupported_media_type");
    put(&server, &[form]).await.ok(201);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_configured_origins_and_hosts_may_call() {
    let change = |settings: &mut delay_queue::config::Settings| {
        settings.server.cors_origins.0.push("https://app.test".to_owned());
        settings.server.hosts.0.push("queue.test".to_owned());
    };
    let server = Server::on_file_with(change).await;
    let json = ("content-type", "application/json");
    put(&server, &[("host", "queue.test:9277")]).await.ok(201);
    let answer = put(&server, &[("origin", "https://app.test"), json]).await;
    answer.ok(201);
    assert_eq!(answer.headers["access-control-allow-origin"], "https://app.test");
    put(&server, &[("origin", "https://evil.test"), json]).await.problem(403, "forbidden_origin");

    let ask = |origin: &'static str| {
        let request = server.request(Method::OPTIONS, "/jobs").header("origin", origin);
        let request = request.header("access-control-request-method", "POST");
        Server::send(request.header("access-control-request-headers", "authorization"))
    };
    let allowed = ask("https://app.test").await;
    assert_eq!(allowed.status, 200, "{allowed:?}");
    assert_eq!(allowed.headers["access-control-allow-origin"], "https://app.test");
    let refused = ask("https://evil.test").await;
    assert!(!refused.headers.contains_key("access-control-allow-origin"), "{refused:?}");
}
