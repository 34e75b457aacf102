//! Schedules whose entries another program has changed in Redis.

use crate::api::prelude::*;
use crate::support::shifted_clock::millis;

const HOUR: i64 = 3_600_000;

fn daily(topic: &str) -> Value {
    json!({ "topic": topic, "every": "1d" })
}

/// Texts that no version can read: JSON without fields, and a byte that is not UTF-8.
const UNREADABLE: [&str; 2] = ["{}", r#""\xff""#];

/// Replaces the text of a schedule.
fn set_text(redis: &Redis, name: &str, text: &str) {
    let set = redis.command(&format!("HSET {{dq:schedules}}:all {name} {text}"));
    assert_eq!(set.as_deref(), Some(":0\r\n"));
}

/// Replaces the text of a schedule by one that no version can read.
fn damage(redis: &Redis, name: &str) {
    set_text(redis, name, UNREADABLE[0]);
}

/// Sets the next instant of a schedule.
fn set_next(redis: &Redis, name: &str, instant: i64) {
    let time = Timestamp::from_millisecond(instant).expect("a time");
    let script = format!(
        "local all, times = '{{dq:schedules}}:all', '{{dq:schedules}}:times' \
         local text, count = string.gsub(redis.call('HGET', all, '{name}'), '(next.:.)[0-9TZ:.-]+', '%1{time}') \
         redis.call('HSET', all, '{name}', text) redis.call('ZADD', times, '{instant}', '{name}') \
         return count"
    );
    assert_eq!(redis.command(&format!("EVAL \"{script}\" 0")).as_deref(), Some(":1\r\n"));
}

/// Returns when a server looks at a schedule.
fn look_at(redis: &Redis, name: &str) -> i64 {
    let reply = redis.command(&format!("ZSCORE {{dq:schedules}}:times {name}"));
    let reply = reply.expect("an answer");
    reply.lines().nth(1).expect("a time").parse().expect("a number")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_schedule_can_be_set_again_and_deleted() {
    let redis = Redis::start();
    let server = Server::at(&redis).await;
    for text in UNREADABLE {
        for name in ["again", "deleted"] {
            let path = format!("/schedules/{name}");
            server.delete(&path).await;
            server.set_schedule(name, daily("t")).await.ok(201);
            set_text(&redis, name, text);
            server.get(&path).await.problem(500, "internal");
            for action in ["pause", "resume", "run"] {
                server.post(&format!("{path}/{action}"), "").await.problem(500, "internal");
            }
        }
        let set = server.set_schedule("again", daily("t")).await.ok(200);
        assert_eq!(server.get("/schedules/again").await.ok(200), set);
        server.delete("/schedules/deleted").await.is_done();
        server.get("/schedules/deleted").await.problem(404, "schedule_not_found");
        assert_eq!(server.set_schedule("deleted", daily("t")).await.status, 201);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_token_of_all_topics_changes_an_unreadable_schedule() {
    let redis = Redis::start();
    let server = Server::at(&redis).await;
    server.set_schedule("s", daily("t")).await.ok(201);
    damage(&redis, "s");
    let all = json!({ "admin": ["*"], "manage": ["*"], "put": ["*"] });
    let root = server.token("", "root", all).await;
    for (name, scopes) in [
        ("one-topic", json!({ "manage": ["t"], "put": ["t"] })),
        ("one-manage", json!({ "manage": ["t"], "put": ["*"] })),
        ("one-put", json!({ "manage": ["*"], "put": ["t"] })),
    ] {
        let token = &server.token(&root, name, scopes).await;
        for (method, body) in [(Method::PUT, daily("t").to_string()), (Method::DELETE, "".into())] {
            let refused = server.call_as(token, method, "/schedules/s", body).await;
            refused.problem(403, "forbidden");
        }
    }
    server.call_as(&root, Method::PUT, "/schedules/s", daily("t")).await.ok(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn schedules_are_listed_past_names_without_a_text() {
    let redis = Redis::start();
    let server = Server::at(&redis).await;
    for name in ["a", "b", "c", "d", "e", "f", "g"] {
        server.set_schedule(name, daily("t")).await.ok(201);
    }
    assert_eq!(redis.command("HDEL {dq:schedules}:all a b d g").as_deref(), Some(":4\r\n"));
    for limit in 1..8 {
        let all = server.all_pages(&format!("/schedules?limit={limit}")).await;
        let names: Vec<_> = all.iter().map(|schedule| &schedule["name"]).collect();
        assert_eq!(names, ["c", "e", "f"], "in pages of {limit}");
    }
}

/// The topic is full, so that the put of a missed instant is refused again and again.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_put_is_retried_less_often_and_counted_once() {
    let redis = Redis::start();
    let server = Server::at_with(&redis, |all| all.limits.topic_jobs = Some(1)).await;
    let missed = async || server.metric("delay_queue_schedule_missed_total").await;
    let first = server.put(r#"{ "topic": "full", "id": "first", "delay": "1h" }"#).await;
    let due_at = server.job("first").await["due_at"].take();
    let anchor = Timestamp::from_millisecond(millis(&due_at) - HOUR / 2);
    let anchor = anchor.expect("a time").to_string();
    let body = json!({ "topic": "full", "every": "1h", "anchor": anchor });
    let set = server.set_schedule("s", body).await.ok(201);
    let next = millis(&set["next"][0]);
    let overdue = next - 5 * HOUR;
    set_next(&redis, "s", overdue);
    // Wakes the task, which knows nothing of that change.
    server.set_schedule("other", daily("t")).await.ok(201);
    eventually!(missed().await == Some(4.0), "the earlier instants are not counted: {first}");
    // The last missed instant is half an hour before now, and a retry is after it.
    eventually!(look_at(&redis, "s") > next - HOUR, "it was not tried: {first}");
    let second = look_at(&redis, "s");
    eventually!(look_at(&redis, "s") != second, "it was not looked at again");
    let pause = look_at(&redis, "s") - second;
    assert!(pause >= 2_000, "the second retry came after {pause} ms");
    assert_eq!(missed().await, Some(4.0), "the earlier instants are not counted once");
    assert_eq!(server.delete("/jobs/first").await.status, 200);
    let job = server.pop_one("full").await;
    assert_eq!(millis(&job["scheduled_at"]), next - HOUR);
    let shown = server.get("/schedules/s").await.ok(200);
    assert_eq!(millis(&shown["next"][0]), next);
    assert_eq!(missed().await, Some(4.0), "counted again after the put");
}

/// As on a cluster, where a server may put the job and be killed before the schedule advances.
#[tokio::test(flavor = "multi_thread")]
async fn an_instant_whose_job_exists_is_not_put_again() {
    let redis = Redis::start();
    let server = Server::at(&redis).await;
    server.set_schedule("s", json!({ "topic": "t", "every": "1s", "ttr": "1h" })).await.ok(201);
    let first = server.pop_one("t").await;
    let instant = millis(&first["scheduled_at"]);
    server.post("/schedules/s/pause", "").await.ok(200);
    server.post("/schedules/s/resume", "").await.ok(200);
    set_next(&redis, "s", instant);
    let seconds_after = |job: &Value| (millis(&job["scheduled_at"]) - instant) / 1_000;
    while seconds_after(&server.pop_one("t").await) < 3 {}
    assert_eq!(server.metric("delay_queue_schedule_conflicts_total").await, Some(0.0));
    let kept = server.job(&format!("s:{instant}")).await;
    assert_shows(&kept, json!({"state": "reserved", "attempt": 1}));
}
