//! Slots of a cluster that have keys of the store but no bucket. The test moves each slot to a
//! master without other keys of the store.

use crate::api::prelude::*;

const PREFIX: &str = "dq";

/// Repeats a call until it succeeds, since the server refuses calls to a slot that is being moved.
async fn until_done(
    server: &Server,
    token: &str,
    method: Method,
    path: &str,
    body: Value,
) -> Answer {
    let call = async || server.call_as(token, method.clone(), path, &body).await;
    until(call, |answer| answer.status.is_success()).await
}

/// Uses every slot of the store: jobs, topic settings, tokens.
async fn use_every_slot(server: &Server, admin: &str, round: &str) {
    let post = async |token: &str, path: &str, body: Value| {
        until_done(server, token, Method::POST, path, body).await
    };
    post(admin, "/topics/t/pause", json!({})).await;
    post(admin, "/topics/t/resume", json!({})).await;
    let token = json!({"name": round, "scopes": {"put": ["*"]}});
    let made = post(admin, "/tokens", token).await.json();
    post(made["token"].as_str().expect("a token"), "/jobs", json!({"topic": "t"})).await;
    assert_eq!(post(admin, "/topics/t/pop?wait=5s", json!({})).await.jobs().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_without_a_bucket_may_be_on_a_master_of_its_own() {
    let cluster = tokio::task::block_in_place(Cluster::steady);
    let homes = ["layout", "topics", "tokens"]
        .map(|home| (home, cluster.slot_of(&format!("{{{PREFIX}:{home}}}"))));
    // One master has the only bucket and all other keys. The others have no keys.
    let bucket = cluster.slot_of("{dq:0}");
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
    let admin = server.token("", "all", Value::from_iter(scopes)).await;
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
