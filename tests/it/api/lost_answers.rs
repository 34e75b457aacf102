//! Pops whose answers do not reach their clients. The server gives the jobs back and does not count
//! the attempts.

use crate::api::{acknowledged, prelude::*};

/// Starts a server that is connected to Redis through a proxy, and another one without a proxy.
async fn proxied_and_direct_server(redis: &Redis) -> (Proxy, Server, Server) {
    let proxy = Proxy::start(redis.port()).await;
    let port = proxy.port;
    let with = |port: u16| {
        Server::with(move |settings| {
            settings.store.url = Secret(format!("redis://127.0.0.1:{port}/"));
            settings.store.buckets = Some(1);
        })
    };
    let (behind, beside) = (with(port).await, with(redis.port()).await);
    (proxy, behind, beside)
}

/// Puts two jobs with one attempt each and pops one, so that the server knows the bucket of the
/// other. Returns the id of the other job.
async fn put_two_and_pop_one(server: &Server) -> String {
    let job = |id| format!(r#"{{"topic":"t","id":"{id}","max_attempts":1}}"#);
    server.put(&job("first")).await;
    server.put(&job("other")).await;
    let popped = server.pop_one("t").await;
    let other = if popped["id"] == "first" { "other" } else { "first" };
    other.to_owned()
}

async fn wait_for_state(server: &Server, id: &str, state: &str, attempt: u64) {
    let is_so = |job: &Value| job["state"] == state && job["attempt"] == attempt;
    until(async || server.job(id).await, is_so).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_before_its_answer_costs_no_attempt() {
    let redis = Redis::start();
    let (proxy, server, beside) = proxied_and_direct_server(&redis).await;
    let id = put_two_and_pop_one(&server).await;
    proxy.set(Mode::Hold);
    let mut client = TcpStream::connect(server.address).await.expect("connected");
    let request = b"GET /topics/t/pop?wait=30s HTTP/1.1\r\nHost: localhost\r\n\r\n";
    client.write_all(request).await.expect("sent");
    wait_for_state(&beside, &id, "reserved", 1).await;
    drop(client);
    pass(Duration::from_millis(200)).await; // no event reports that the server has noticed
    proxy.set(Mode::Pass);
    wait_for_state(&beside, &id, "ready", 0).await;
    assert_eq!(server.pop_one("t").await["attempt"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pop_with_a_lost_answer_is_given_back() {
    let redis = Redis::start();
    let (proxy, server, beside) = proxied_and_direct_server(&redis).await;
    let id = put_two_and_pop_one(&server).await;
    proxy.set(Mode::Mute);
    server.get("/topics/t/pop").await.unavailable("unknown");
    wait_for_state(&beside, &id, "reserved", 1).await;
    proxy.set(Mode::Pass);
    wait_for_state(&beside, &id, "ready", 0).await;
    assert_eq!(beside.pop_one("t").await["attempt"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_with_a_lost_answer_changed_nothing() {
    let redis = Redis::start();
    let (proxy, server, _beside) = proxied_and_direct_server(&redis).await;
    server.put(r#"{"topic":"t","id":"a"}"#).await;
    proxy.set(Mode::Mute);
    let paths = [
        "/jobs/a",
        "/topics",
        "/topics/t",
        "/topics/t/jobs?state=ready",
        "/topics/t/errors",
        "/topics/t/due",
    ];
    let reads = paths.map(|path| (Method::GET, path, ""));
    // These calls read the job before they change it.
    let looks = [
        (Method::PATCH, "/jobs/a", r#"{"id":"a","topic":"t","max_attempts":3}"#),
        (Method::DELETE, "/topics/t/jobs", ""),
    ];
    let calls = reads.into_iter().chain(looks).map(async |(method, path, body)| {
        server.call(method, path, body).await.unavailable("no");
    });
    join_all(calls).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_pop_with_a_lost_call_ends_unknown() {
    let redis = Redis::start();
    let (proxy, server, beside) = proxied_and_direct_server(&redis).await;
    let id = put_two_and_pop_one(&server).await;
    proxy.set(Mode::Mute);
    let waiting = Server::send(server.request(Method::GET, "/topics/t/pop?wait=8s"));
    let cut = async {
        wait_for_state(&beside, &id, "reserved", 1).await;
        pass(Duration::from_secs(6)).await; // the server waits five seconds for an answer
        proxy.set(Mode::Cut); // later calls fail before they reach Redis
    };
    let (ended, ()) = futures::future::join(waiting, cut).await;
    ended.unavailable("unknown");
    wait_for_state(&beside, &id, "reserved", 1).await;
    proxy.set(Mode::Pass);
    wait_for_state(&beside, &id, "ready", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_an_unconfirmed_pop_are_delivered_later() {
    let (master, mut replica) = master_and_replica();
    let server = acknowledged::server(&master, Ack::Replica).await;
    for number in 0..20 {
        server.put(format!(r#"{{"topic":"t","id":"job:{number}","max_attempts":1}}"#)).await;
    }
    // Redis must have the script of pops, since it would refuse a first call of an unknown script.
    server.put(r#"{"topic":"u"}"#).await;
    server.pop_one("u").await;
    replica.kill();
    let pop = server.get("/topics/t/pop?count=100").await;
    pop.unavailable("unknown");
    // The jobs are given back although the replica still confirms nothing.
    for number in 0..20 {
        wait_for_state(&server, &format!("job:{number}"), "ready", 0).await;
    }
    replica.resume();
    wait_until_connected(&replica);
    let mut popped = Vec::new();
    let begin = Instant::now();
    while popped.len() < 20 {
        assert!(begin.elapsed() < patience(), "{} of 20 came", popped.len());
        let answer = server.get("/topics/t/pop?count=100&wait=1s").await;
        if answer.status == 200 {
            popped.extend(answer.jobs()); // without jobs, the replica has not confirmed yet
        }
    }
    assert!(popped.iter().all(|job| job["attempt"] == 1), "{popped:?}");
}
