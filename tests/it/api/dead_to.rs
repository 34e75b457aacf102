//! Dead jobs that move to the topic that their topic names with `dead_to`.

use crate::api::prelude::*;

async fn moves_to(server: &Server, topic: &str, target: &str) {
    let shown = server.set_topic(topic, json!({"dead_to": target})).await.ok(200);
    assert_eq!(shown["defaults"]["dead_to"], target);
}

async fn die(server: &Server, way: &str, id: &str) -> Option<Value> {
    let expiry = if way == "expiry" { json!(0.3) } else { json!("1h") };
    let ttr = if way == "ttr" { 1 } else { 60 };
    let put = json!({
        "topic": "t", "id": id, "body": {"id": id}, "headers": {"X-Kind": "a"}, "priority": 7,
        "ttr": ttr, "max_attempts": 1, "expires_after": expiry, "finished_retention": "1h",
    });
    // With a limit of jobs, moved ones count until all are counted anew.
    eventually!(server.post("/jobs", &put).await.status == 201, "it is not put");
    if way == "expiry" {
        return None;
    }
    let hold = server.hold("t").await;
    let request = with(&hold, json!({"error": "it broke"}));
    let answer = match way {
        "ttr" => return None,
        "batch" => {
            let batch = json!({"jobs": [with(&request, json!({"id": id}))]});
            server.post("/batch/release", batch).await.results().remove(0)
        }
        way => server.act(id, way, request).await.ok(200),
    };
    for action in ["finish", "touch", "bury"] {
        server.act(id, action, &hold).await.problem(409, "reservation_lost");
    }
    Some(answer)
}

pub async fn a_job_that_dies_moves_to_the_topic_that_its_topic_names(server: Server) {
    moves_to(&server, "t", "failed").await;
    for way in ["ttr", "release", "batch", "bury", "expiry"] {
        let waiting = async { server.pop("failed/pop?wait=30s").await };
        let (popped, answer) = tokio::join!(waiting, die(&server, way, way));
        if let Some(answer) = answer {
            assert_shows(&answer, json!({"state": "ready", "topic": "failed"}));
        }
        assert_eq!(popped.len(), 1, "{way}: nothing wakes the consumer");
        let moved = json!({
            "id": way, "topic": "failed", "dead_from": "t", "attempt": 1, "body": {"id": way},
            "headers": {"X-Kind": "a"}, "expires_at": null,
        });
        assert_shows(&popped[0], moved);
        let job = server.job(way).await;
        let error = match way {
            "ttr" => "ttr ended",
            "expiry" => "expired",
            _ => "it broke",
        };
        let shown = json!({"error": error, "priority": 7, "dead_from": "t", "died_at": null});
        assert_shows(&job, shown);
        let attempts = job["history"].as_array().expect("a history").len();
        assert_eq!(attempts, if way == "expiry" { 1 } else { 2 }, "{job}");
        // The rules of its put hold here too, and it does not move again.
        let release = with(&held(&popped[0]), json!({"error": "still"}));
        let released = server.act(way, "release", release).await.ok(200);
        assert_shows(&released, json!({"state": "dead", "topic": null}));
        let listed = async |state: &str| {
            let path = format!("/topics/failed/jobs?state={state}");
            server.get(&path).await.ok(200)["jobs"][0].clone()
        };
        assert_shows(&listed("dead").await, json!({"id": way, "dead_from": "t"}));
        server.act(way, "kick", "").await.ok(200);
        assert_shows(&listed("ready").await, json!({"id": way, "dead_from": "t"}));
        server.act(way, "finish", server.hold("failed").await).await.is_done();
        assert_shows(&server.job(way).await, json!({"state": "finished", "dead_from": "t"}));
    }
    let left = server.topic("t").await;
    assert_shows(&left, json!({"dead": 0, "ready": 0}));
    assert_shows(&left["since_start"], json!({"dead": 0, "moved": 5}));
    assert_eq!(server.topic("failed").await["since_start"]["dead"], 5);
    let moved = server.metric("delay_queue_jobs_moved_total{topic=\"t\"}").await;
    assert_eq!(moved, Some(5.0));
}

pub async fn a_retried_put_keeps_a_job_that_has_moved(server: Server) {
    moves_to(&server, "t", "failed").await;
    let put = |topic: &str, on_conflict: &str| json!({"topic": topic, "id": "a", "max_attempts": 1, "on_conflict": on_conflict});
    server.put(put("t", "keep")).await;
    server.act("a", "bury", server.hold("t").await).await.ok(200);
    let before = server.job("a").await;
    let expected = json!({"topic": "failed", "state": "ready", "due_at": before["due_at"]});
    for topic in ["t", "failed"] {
        assert_shows(&server.post("/jobs", put(topic, "keep")).await.ok(200), expected.clone());
        let batch = json!({"jobs": [put(topic, "keep")]});
        let kept = server.post("/batch/jobs", batch).await.results();
        assert_shows(&kept[0], json!({"status": 200, "topic": "failed"}));
    }
    for (topic, on_conflict) in [("other", "keep"), ("t", "replace"), ("t", "reject")] {
        server.post("/jobs", put(topic, on_conflict)).await.problem(409, "job_exists");
    }
    assert_eq!(server.job("a").await, before);
    server.pop_one("failed").await;
    assert_eq!(server.post("/jobs", put("t", "keep")).await.ok(200)["state"], "reserved");
}

pub async fn a_job_follows_one_step_of_a_chain_of_topics(server: Server) {
    moves_to(&server, "b", "c").await;
    moves_to(&server, "a", "b").await;
    let put = |id: &str| json!({"topic": "a", "id": id, "max_attempts": 1});
    server.put(put("first")).await;
    // It has the rules of its put, whatever is set afterwards.
    server.set_topic("a", "{}").await.ok(200);
    server.put(put("second")).await;
    for topic in ["a", "b"] {
        for job in server.pop(&format!("{topic}/pop?count=2")).await {
            server.act(id_of(&job), "bury", held(&job)).await.ok(200);
        }
    }
    for (id, topic, dead_from) in [("first", "b", json!("a")), ("second", "a", Value::Null)] {
        let shown = json!({"topic": topic, "state": "dead", "dead_from": dead_from});
        assert_shows(&server.job(id).await, shown);
    }
}

pub async fn a_moved_job_can_be_sent_back_as_a_get_showed_it(server: Server) {
    moves_to(&server, "t", "failed").await;
    die(&server, "bury", "a").await;
    let shown = with(&server.job("a").await, json!({"ttr": 9}));
    assert_eq!(server.patch("a", &shown).await.ok(200), shown);
    server.patch("a", json!({"ttr": 9, "dead_from": "u"})).await.invalid("dead_from");
    // A new job in its place has not moved.
    let put = json!({"topic": "failed", "id": "a", "on_conflict": "replace"});
    server.post("/jobs", put).await.ok(200);
    assert!(server.job("a").await.get("dead_from").is_none());
}

pub async fn dead_to_is_shown_and_removed_by_null(server: Server) {
    moves_to(&server, "t", "failed").await;
    let mut shown = server.topic("t").await;
    assert_eq!(server.set_topic("t", &shown).await.ok(200)["defaults"], shown["defaults"]);
    shown["defaults"]["dead_to"] = Value::Null;
    assert_eq!(server.set_topic("t", &shown).await.ok(200)["defaults"]["dead_to"], Value::Null);
    let topics = server.get("/topics?prefix=t").await.ok(200);
    assert_eq!(topics["topics"], json!([]), "nothing is set for it");
    for (value, words) in [
        (json!("t"), "must be another topic"),
        (json!("a b"), "character"),
        (json!(""), ""),
        (json!(7), "string"),
    ] {
        let defaults = json!({"dead_to": value});
        let problem = server.set_topic("t", &defaults).await.invalid("dead_to");
        assert!(problem["detail"].as_str().expect("a detail").contains(words), "{problem}");
        server.set_topic("t", json!({ "defaults": defaults })).await.invalid("defaults.dead_to");
    }
}

pub async fn a_circle_of_topics_is_refused(server: Server) {
    moves_to(&server, "a", "b").await;
    let refused = async |topic: &str, target: &str| {
        let defaults = json!({"ttr": 9, "dead_to": target});
        assert_eq!(server.set_topic(topic, defaults).await.invalid("dead_to")["applied"], "no");
        let shown = server.topic(topic).await;
        assert_ne!(shown["defaults"]["ttr"], 9, "it is set all the same");
    };
    refused("a", "a").await;
    refused("b", "a").await;
    moves_to(&server, "b", "c").await;
    refused("c", "a").await;
    refused("c", "b").await;
    // Other ways lead to the same topics, and a way that has gone is none.
    moves_to(&server, "x", "a").await;
    moves_to(&server, "x", "b").await;
    server.set_topic("b", "{}").await.ok(200);
    moves_to(&server, "c", "a").await;
    refused("b", "c").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_wakes_consumers_without_a_poll() {
    for server in Server::on_each_with(|all| all.timer.poll_interval = Millis::new(60_000)).await {
        moves_to(&server, "t", "failed").await;
        for way in ["ttr", "release", "bury", "expiry"] {
            let begun = Stopwatch::start();
            let waiting = async { server.pop("failed/pop?wait=50s").await };
            let dying = async {
                server.until_pops_wait(1).await;
                die(&server, way, way).await
            };
            let (popped, _) = tokio::join!(waiting, dying);
            assert_eq!(popped.len(), 1, "{way}");
            assert!(begun.elapsed().as_secs() < 30, "{way}: it waited for a poll");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_of_the_target_refuse_no_dead_job() {
    for server in Server::on_each_with(|settings| settings.limits.topic_jobs = Some(2)).await {
        moves_to(&server, "t", "failed").await;
        for id in ["x", "y"] {
            server.put(json!({"topic": "failed", "id": id})).await;
        }
        for (id, way) in [("a", "release"), ("b", "bury"), ("c", "ttr")] {
            die(&server, way, id).await;
            eventually!(server.job(id).await["topic"] == "failed", "{id} does not move");
        }
        assert_eq!(server.topic("failed").await["ready"], 5);
        let put = r#"{"topic":"failed"}"#;
        eventually!(
            server.post("/jobs", put).await.status == 429,
            "the jobs that moved do not count"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_jobs_move_in_a_full_redis() {
    let redis = Redis::start();
    let server = Server::at(&redis).await;
    moves_to(&server, "t", "failed").await;
    let ids = ["a", "b", "c"];
    let mut held = Vec::new();
    for id in ids {
        let body = "x".repeat(if id == "a" { 5_000 } else { 5 });
        let ttr = if id == "c" { 2 } else { 60 };
        let put = json!({"topic": "t", "id": id, "ttr": ttr, "max_attempts": 1, "body": body});
        server.put(put).await;
        held.push(server.hold("t").await);
    }
    server.put(r#"{"topic":"t","id":"d","expires_after":1,"delay":0.5}"#).await;
    redis.command("CONFIG SET maxmemory 1").expect("an answer");
    server.post("/jobs", r#"{"topic":"t"}"#).await.problem(507, "store_full");
    server.act("a", "bury", &held[0]).await.ok(200);
    server.act("b", "release", &held[1]).await.ok(200);
    for id in ["a", "b", "c", "d"] {
        eventually!(server.job(id).await["topic"] == "failed", "{id} does not move");
    }
    redis.command("CONFIG SET maxmemory 0").expect("an answer");
    assert_eq!(server.pop("failed/pop?count=9").await.len(), 4);
    assert_eq!(server.pop("t/pop").await.len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_to_needs_the_scope_put_on_its_target() {
    let server = Server::on_file().await;
    let root = server.token("", "root", json!({"admin": ["*"]})).await;
    let scopes = json!({"manage": ["t", "failed"], "put": ["other.*"]});
    let token = server.token(&root, "m", scopes).await;
    let put =
        async |defaults: Value| server.call_as(&token, Method::PUT, "/topics/t", defaults).await;
    for defaults in [json!({"dead_to": "failed"}), json!({"defaults": {"dead_to": "failed"}})] {
        let problem = put(defaults).await.problem(403, "forbidden");
        let detail = problem["detail"].as_str().expect("a detail");
        assert!(detail.contains("`put`") && detail.contains("\"failed\""), "{detail}");
        assert_eq!(problem["field"], "dead_to");
    }
    assert_eq!(put(json!({"dead_to": "other.a"})).await.ok(200)["defaults"]["dead_to"], "other.a");
    assert_eq!(put(json!({"dead_to": null})).await.ok(200)["defaults"]["dead_to"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_build_no_circle_together() {
    let one = Server::on_redis().await;
    let servers = [one.beside().await, one];
    for round in 0..30 {
        let (a, b) = (format!("a{round}"), format!("b{round}"));
        let (there, back) = (json!({"dead_to": b}), json!({"dead_to": a}));
        let answers = tokio::join!(servers[0].set_topic(&a, there), servers[1].set_topic(&b, back));
        let mut statuses = [answers.0.status, answers.1.status];
        statuses.sort();
        assert_eq!(statuses, [200, 422], "round {round}");
    }
}
