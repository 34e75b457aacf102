//! Dead jobs that move to the topic that their topic names with `dead_to`.

use crate::api::prelude::*;

async fn set(server: &Server, topic: &str, defaults: &Value) -> Answer {
    server.call(Method::PUT, &format!("/topics/{topic}"), defaults.to_string()).await
}

async fn moves_to(server: &Server, topic: &str, target: &str) {
    let shown = set(server, topic, &json!({"dead_to": target})).await.ok(200);
    assert_eq!(shown["defaults"]["dead_to"], target);
}

/// Puts a job of topic `t`, and lets it die in this way; returns the answer of the call that did.
async fn die(server: &Server, way: &str, id: &str) -> Option<Value> {
    let expiry = if way == "expiry" { json!(0.3) } else { json!("1h") };
    let ttr = if way == "ttr" { 1 } else { 60 };
    let put = json!({
        "topic": "t", "id": id, "body": {"id": id}, "headers": {"X-Kind": "a"}, "priority": 7,
        "ttr": ttr, "max_attempts": 1, "expires_after": expiry, "finished_retention": "1h",
    });
    // With a limit of jobs, moved ones count until all are counted anew.
    eventually!(server.post("/jobs", put.to_string()).await.status == 201, "it is not put");
    if way == "expiry" {
        return None;
    }
    let hold = json!({"reservation": reservation_of(&server.pop_one("t").await)});
    let answer = match way {
        "ttr" => None,
        "batch" => {
            let jobs = json!({"jobs": [{"id": id, "reservation": hold["reservation"], "error": "it broke"}]});
            let batch = server.post("/batch/release", jobs.to_string()).await.ok(200);
            Some(batch["results"][0].clone())
        }
        way => {
            let request = json!({"reservation": hold["reservation"], "error": "it broke"});
            Some(act(server, id, way, &request).await.ok(200))
        }
    };
    if answer.is_some() {
        for action in ["finish", "touch", "bury"] {
            act(server, id, action, &hold).await.problem(409, "reservation_lost");
        }
    }
    answer
}

pub async fn a_job_that_dies_moves_to_the_topic_that_its_topic_names(server: Server) {
    moves_to(&server, "t", "failed").await;
    for way in ["ttr", "release", "batch", "bury", "expiry"] {
        let waiting = async { server.pop("failed/pop?wait=30s").await };
        let (popped, answer) = tokio::join!(waiting, die(&server, way, way));
        if let Some(answer) = answer {
            let said = (&answer["state"], &answer["topic"]);
            assert_eq!(said, (&json!("ready"), &json!("failed")), "{way}");
        }
        assert_eq!(popped.len(), 1, "{way}: nothing wakes the consumer");
        let job = &popped[0];
        let shown = (&job["id"], &job["topic"], &job["dead_from"], &job["attempt"]);
        assert_eq!(shown, (&json!(way), &json!("failed"), &json!("t"), &json!(1)), "{way}");
        assert_eq!((&job["body"]["id"], &job["headers"]["X-Kind"]), (&json!(way), &json!("a")));
        assert!(job.get("expires_at").is_none(), "{job}");
        let job = get(&server, way).await;
        let error = match way {
            "ttr" => "ttr expired",
            "expiry" => "expired",
            _ => "it broke",
        };
        assert_eq!((&job["error"], &job["priority"]), (&json!(error), &json!(7)), "{job}");
        assert_eq!((&job["dead_from"], &job["died_at"]), (&json!("t"), &Value::Null), "{job}");
        let attempts = job["history"].as_array().expect("a history").len();
        assert_eq!(attempts, if way == "expiry" { 1 } else { 2 }, "{job}");
        // The rules of its put hold here too, and it does not move again.
        let hold = json!({"reservation": reservation_of(&popped[0]), "error": "still"});
        let released = act(&server, way, "release", &hold).await.ok(200);
        assert_eq!((&released["state"], released.get("topic")), (&json!("dead"), None), "{way}");
        let dead = &server.get("/topics/failed/jobs?state=dead").await.ok(200)["jobs"][0];
        assert_eq!((&dead["id"], &dead["dead_from"]), (&json!(way), &json!("t")));
        act(&server, way, "kick", &json!({})).await.ok(200);
        let ready = &server.get("/topics/failed/jobs?state=ready").await.ok(200)["jobs"][0];
        assert_eq!((&ready["id"], &ready["dead_from"]), (&json!(way), &json!("t")));
        let again = server.pop_one("failed").await;
        let finish = format!("/jobs/{way}/finish?reservation={}", reservation_of(&again));
        assert_eq!(server.post(&finish, "").await.status, 204);
        let job = get(&server, way).await;
        assert_eq!((&job["state"], &job["dead_from"]), (&json!("finished"), &json!("t")));
    }
    let left = server.get("/topics/t").await.ok(200);
    assert_eq!((&left["dead"], &left["ready"]), (&json!(0), &json!(0)));
    let counted = &left["since_start"];
    assert_eq!((&counted["dead"], &counted["moved"]), (&json!(0), &json!(5)));
    assert_eq!(server.get("/topics/failed").await.ok(200)["since_start"]["dead"], 5);
    let metrics = server.get("/metrics").await.text;
    assert!(metrics.contains("delay_queue_jobs_moved_total{topic=\"t\"} 5"), "{metrics}");
}

pub async fn a_retried_put_keeps_a_job_that_has_moved(server: Server) {
    moves_to(&server, "t", "failed").await;
    let put = |topic: &str, on_conflict: &str| {
        let job = json!({"topic": topic, "id": "a", "max_attempts": 1, "on_conflict": on_conflict});
        job.to_string()
    };
    server.post("/jobs", put("t", "keep")).await.ok(201);
    let hold = json!({"reservation": reservation_of(&server.pop_one("t").await)});
    act(&server, "a", "bury", &hold).await.ok(200);
    let before = get(&server, "a").await;
    for topic in ["t", "failed"] {
        let kept = server.post("/jobs", put(topic, "keep")).await.ok(200);
        let said = (&kept["topic"], &kept["state"], &kept["due_at"]);
        assert_eq!(said, (&json!("failed"), &json!("ready"), &before["due_at"]), "{kept}");
        let batch = format!(r#"{{"jobs":[{}]}}"#, put(topic, "keep"));
        let kept = &server.post("/batch/jobs", batch).await.ok(200)["results"][0];
        assert_eq!((&kept["status"], &kept["topic"]), (&json!(200), &json!("failed")), "{kept}");
    }
    for (topic, on_conflict) in [("other", "keep"), ("t", "replace"), ("t", "reject")] {
        let refused = server.post("/jobs", put(topic, on_conflict)).await;
        refused.problem(409, "job_exists");
    }
    assert_eq!(get(&server, "a").await, before);
    server.pop_one("failed").await;
    assert_eq!(server.post("/jobs", put("t", "keep")).await.ok(200)["state"], "reserved");
}

pub async fn a_job_follows_one_step_of_a_chain_of_topics(server: Server) {
    moves_to(&server, "b", "c").await;
    moves_to(&server, "a", "b").await;
    let put = |id: &str| json!({"topic": "a", "id": id, "max_attempts": 1}).to_string();
    server.put(&put("first")).await;
    // It has the rules of its put, whatever is set afterwards.
    set(&server, "a", &json!({})).await.ok(200);
    server.put(&put("second")).await;
    for topic in ["a", "b"] {
        for job in server.pop(&format!("{topic}/pop?count=2")).await {
            let id = job["id"].as_str().expect("an id");
            let hold = json!({"reservation": reservation_of(&job)});
            act(&server, id, "bury", &hold).await.ok(200);
        }
    }
    let first = get(&server, "first").await;
    let shown = (&first["topic"], &first["state"], &first["dead_from"]);
    assert_eq!(shown, (&json!("b"), &json!("dead"), &json!("a")));
    let second = get(&server, "second").await;
    assert_eq!((&second["topic"], &second["state"]), (&json!("a"), &json!("dead")));
    assert!(second.get("dead_from").is_none(), "{second}");
}

pub async fn a_moved_job_can_be_sent_back_as_a_get_showed_it(server: Server) {
    moves_to(&server, "t", "failed").await;
    die(&server, "bury", "a").await;
    let mut shown = get(&server, "a").await;
    shown["ttr"] = json!(9);
    assert_eq!(patch(&server, "a", &shown).await, shown);
    let other = json!({"ttr": 9, "dead_from": "u"}).to_string();
    let problem = server.call(Method::PATCH, "/jobs/a", other).await.problem(422, "invalid_field");
    assert_eq!(problem["field"], "dead_from");
    let put = json!({"topic": "t", "dead_to": "u"}).to_string();
    assert_eq!(server.post("/jobs", put).await.problem(422, "invalid_field")["field"], "dead_to");
    let put = json!({"topic": "t", "dead_from": "u"}).to_string();
    assert_eq!(server.post("/jobs", put).await.problem(422, "invalid_field")["field"], "dead_from");
    // A new job in its place has not moved.
    let put = json!({"topic": "failed", "id": "a", "on_conflict": "replace"}).to_string();
    server.post("/jobs", put).await.ok(200);
    assert!(get(&server, "a").await.get("dead_from").is_none());
}

pub async fn dead_to_is_shown_and_removed_by_null(server: Server) {
    moves_to(&server, "t", "failed").await;
    let mut shown = server.get("/topics/t").await.ok(200);
    assert_eq!(shown["defaults"]["dead_to"], "failed");
    assert_eq!(set(&server, "t", &shown).await.ok(200)["defaults"], shown["defaults"]);
    shown["defaults"]["dead_to"] = Value::Null;
    assert_eq!(set(&server, "t", &shown).await.ok(200)["defaults"]["dead_to"], Value::Null);
    let topics = server.get("/topics?prefix=t").await.ok(200);
    assert_eq!(topics["topics"], json!([]), "nothing is set for it");
    for (value, words) in [
        (json!("t"), "must be another topic"),
        (json!("a b"), "character"),
        (json!(""), ""),
        (json!(7), "string"),
    ] {
        let problem = set(&server, "t", &json!({"dead_to": value})).await;
        let problem = problem.problem(422, "invalid_field");
        assert_eq!(problem["field"], "dead_to", "{value}");
        let detail = problem["detail"].as_str().expect("a detail");
        assert!(detail.contains(words), "{value}: {detail}");
        let within = json!({"defaults": {"dead_to": value}});
        let problem = set(&server, "t", &within).await.problem(422, "invalid_field");
        assert_eq!(problem["field"], "defaults.dead_to", "{value}");
    }
}

pub async fn a_circle_of_topics_is_refused(server: Server) {
    moves_to(&server, "a", "b").await;
    let refused = async |topic: &str, target: &str| {
        let answer = set(&server, topic, &json!({"ttr": 9, "dead_to": target})).await;
        let problem = answer.problem(422, "invalid_field");
        assert_eq!((&problem["field"], &problem["applied"]), (&json!("dead_to"), &json!("no")));
        let shown = server.get(&format!("/topics/{topic}")).await.ok(200);
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
    set(&server, "b", &json!({})).await.ok(200);
    moves_to(&server, "c", "a").await;
    refused("b", "c").await;
}

/// Starts a server on each store, with other settings.
async fn servers(change: impl Fn(&mut Settings)) -> [Server; 2] {
    [Server::on_file_with(&change).await, Server::on_redis_with(&change).await]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_wakes_consumers_without_a_poll() {
    for server in servers(|all| all.timer.poll_interval = Millis::new(60_000)).await {
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
    for server in servers(|settings| settings.limits.topic_jobs = Some(2)).await {
        moves_to(&server, "t", "failed").await;
        for id in ["x", "y"] {
            server.put(&json!({"topic": "failed", "id": id}).to_string()).await;
        }
        for (id, way) in [("a", "release"), ("b", "bury"), ("c", "ttr")] {
            die(&server, way, id).await;
            eventually!(get(&server, id).await["topic"] == "failed", "{id} does not move");
        }
        assert_eq!(server.get("/topics/failed").await.ok(200)["ready"], 5);
        let put = r#"{"topic":"failed"}"#;
        eventually!(
            server.post("/jobs", put).await.status == 429,
            "the jobs that moved do not count"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_jobs_move_in_a_full_redis() {
    let redis = Arc::new(Redis::start());
    let server = Server::on(Arc::clone(&redis)).await;
    moves_to(&server, "t", "failed").await;
    let ids = ["a", "b", "c"];
    let mut held = Vec::new();
    for id in ids {
        let body = "x".repeat(if id == "a" { 5_000 } else { 5 });
        let ttr = if id == "c" { 2 } else { 60 };
        let put = json!({"topic": "t", "id": id, "ttr": ttr, "max_attempts": 1, "body": body});
        server.put(&put.to_string()).await;
        held.push(json!({"reservation": reservation_of(&server.pop_one("t").await)}));
    }
    server.put(r#"{"topic":"t","id":"d","expires_after":1,"delay":0.5}"#).await;
    redis.command("CONFIG SET maxmemory 1").expect("an answer");
    server.post("/jobs", r#"{"topic":"t"}"#).await.problem(507, "store_full");
    act(&server, "a", "bury", &held[0]).await.ok(200);
    act(&server, "b", "release", &held[1]).await.ok(200);
    for id in ["a", "b", "c", "d"] {
        eventually!(get(&server, id).await["topic"] == "failed", "{id} does not move");
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
    let put = async |defaults: Value| {
        let request = server.request(Method::PUT, "/topics/t").bearer_auth(&token);
        Server::send(request.body(defaults.to_string())).await
    };
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
        let answers = tokio::join!(set(&servers[0], &a, &there), set(&servers[1], &b, &back));
        let mut statuses = [answers.0.status, answers.1.status];
        statuses.sort();
        assert_eq!(statuses, [200, 422], "round {round}");
    }
}
