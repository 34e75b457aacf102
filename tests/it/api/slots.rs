//! Slots of a cluster that have keys of the store but no bucket. The test moves each slot to a
//! master without other keys of the store.

use crate::api::prelude::*;

const PREFIX: &str = "dq";

fn slot(cluster: &Cluster, key: &str) -> u16 {
    match cluster.command(0, &["CLUSTER", "KEYSLOT", key]) {
        Reply::Number(slot) => u16::try_from(slot).expect("a slot"),
        other => panic!("{other:?}"),
    }
}

async fn call(server: &Server, token: &str, method: Method, path: &str, body: &Value) -> Answer {
    let request = server.request(method, path).bearer_auth(token);
    Server::send(request.body(body.to_string())).await
}

/// Repeats a call until it succeeds, since the server refuses calls to a slot that is being moved.
async fn until_done(
    server: &Server,
    token: &str,
    method: Method,
    path: &str,
    body: &Value,
) -> Answer {
    let began = Instant::now();
    loop {
        let answer = call(server, token, method.clone(), path, body).await;
        if answer.status.is_success() {
            return answer;
        }
        assert!(began.elapsed() < patience(), "{path}: {answer:?}");
        pass(Duration::from_millis(50)).await; // no event reports that the server has read the new map of slots
    }
}

/// Uses every slot of the store: jobs, topic settings, tokens.
async fn use_every_slot(server: &Server, admin: &str, round: &str) {
    until_done(server, admin, Method::POST, "/topics/t/pause", &json!({})).await;
    until_done(server, admin, Method::POST, "/topics/t/resume", &json!({})).await;
    let scopes = json!({"put": ["*"]});
    let token = json!({"name": round, "scopes": scopes});
    let made = until_done(server, admin, Method::POST, "/tokens", &token).await.json();
    let token = made["token"].as_str().expect("a token");
    until_done(server, token, Method::POST, "/jobs", &json!({"topic": "t"})).await;
    let popped = until_done(server, admin, Method::GET, "/topics/t/pop?wait=5s", &json!({})).await;
    assert_eq!(popped.jobs().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_without_a_bucket_may_be_on_a_master_of_its_own() {
    let cluster = tokio::task::block_in_place(Cluster::steady);
    let homes = ["layout", "topics", "tokens"]
        .map(|home| (home, slot(&cluster, &format!("{{{PREFIX}:{home}}}"))));
    // One master has the only bucket and all other keys. The others have no keys.
    let bucket = slot(&cluster, "{dq:0}");
    let home = cluster.master_of(bucket).expect("a master");
    let empty_master = (0..3).find(|&node| node != home).expect("another master");
    let mut slots: Vec<u16> = homes.iter().map(|&(_, slot)| slot).collect();
    slots.retain(|&slot| cluster.master_of(slot) != Some(home));
    tokio::task::block_in_place(|| cluster.move_slots(&slots, home, Duration::ZERO));
    let settings = |settings: &mut Settings| {
        settings.store.url = Secret(cluster.url());
        settings.store.buckets = Some(1);
    };
    let server = Server::with(settings).await;
    let scopes = ["put", "pop", "read", "manage", "admin"].map(|scope| (scope, json!(["*"])));
    let scopes = Value::from_iter(scopes);
    let made = server.post("/tokens", json!({"name": "all", "scopes": scopes}).to_string()).await;
    let admin = made.ok(201)["token"].as_str().expect("a token").to_owned();
    use_every_slot(&server, &admin, "together").await;
    for (name, slot) in homes {
        tokio::task::block_in_place(|| cluster.move_slots(&[slot], empty_master, Duration::ZERO));
        use_every_slot(&server, &admin, name).await;
        let other = Server::with(settings).await;
        use_every_slot(&other, &admin, &format!("{name}.started")).await;
        other.stop().await;
        tokio::task::block_in_place(|| cluster.move_slots(&[slot], home, Duration::ZERO));
    }
}
