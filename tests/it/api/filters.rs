//! Filters of the jobs of a topic: lists, kicks and purges.

use crate::api::prelude::*;

/// Puts `count` jobs with these ids and errors, and buries them.
async fn bury(server: &Server, jobs: &[(&str, &str)]) {
    for (id, error) in jobs {
        server.put(&format!(r#"{{"topic":"t","id":"{id}"}}"#)).await;
        let popped = server.pop_one("t").await;
        let body = json!({ "reservation": reservation_of(&popped), "error": error });
        server.post(&format!("/jobs/{id}/bury"), body.to_string()).await.ok(200);
    }
}

async fn put_delayed(server: &Server, delays: impl Iterator<Item = u64>) {
    let jobs: Vec<Value> =
        delays.map(|n| json!({"topic": "t", "id": format!("d:{n}"), "delay": n})).collect();
    server.post("/batch/jobs", json!({ "jobs": jobs }).to_string()).await.ok(200);
}

/// Returns the ids of all pages of a list, sorted.
async fn listed(server: &Server, query: &str) -> Vec<String> {
    let (mut ids, mut cursor) = (BTreeSet::new(), String::new());
    loop {
        let page = server.get(&format!("/topics/t/jobs?{query}{cursor}")).await.ok(200);
        for job in page["jobs"].as_array().expect("jobs") {
            assert!(ids.insert(job["id"].as_str().expect("an id").to_owned()), "twice: {job}");
        }
        match page["cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return ids.into_iter().collect(),
        }
    }
}

const DEAD: [(&str, &str); 5] = [
    ("a:1", "no such shop"),
    ("a:2", "timeout"),
    ("b:1", "No such shop"),
    ("b:2", "no such shop, 100 % sure"),
    ("b:3", ""),
];

pub async fn a_list_shows_only_jobs_that_match(server: Server) {
    bury(&server, &DEAD).await;
    let dead = async |query: &str| listed(&server, &format!("state=dead&{query}")).await;
    assert_eq!(dead("error_contains=no%20such").await, ["a:1", "b:2"]);
    assert_eq!(dead("error_contains=no+such&id_contains=b").await, ["b:2"]);
    assert_eq!(dead("error_contains=100%20%25").await, ["b:2"]);
    assert_eq!(dead("id_contains=:1&limit=1").await, ["a:1", "b:1"]);
    assert_eq!(dead("id_contains=A").await, Vec::<String>::new());
    let died_at = server.get("/jobs/b:1").await.ok(200)["died_at"].clone();
    let at = died_at.as_str().expect("a time").replace('+', "%2B");
    let (before, after) =
        (dead(&format!("died_before={at}")).await, dead(&format!("died_after={at}")).await);
    assert!(before.contains(&"a:1".to_owned()) && !before.contains(&"b:1".to_owned()));
    assert!(after.contains(&"b:1".to_owned()) && after.contains(&"b:3".to_owned()));
    assert_eq!(before.len() + after.len(), 5);

    put_delayed(&server, 100..110).await;
    let due = server.get("/jobs/d:105").await.ok(200)["due_at"].as_str().expect("one").to_owned();
    let found = listed(&server, &format!("state=delayed&id_contains=1&due_after={due}")).await;
    assert_eq!(found.len(), 5, "{found:?}");

    // The error of a job that waits for its next attempt.
    server.put(r#"{"topic":"t","id":"again"}"#).await;
    server.pop_one("t").await;
    let release = r#"{"error":"no such shop","delay":"1h"}"#;
    server.post("/jobs/again/release", release).await.ok(200);
    assert_eq!(listed(&server, "state=delayed&error_contains=shop").await, ["again"]);
    assert_eq!(listed(&server, "state=finished&error_contains=shop").await, Vec::<String>::new());

    // The due time of a job that a consumer holds.
    server.put(r#"{"topic":"t","id":"held"}"#).await;
    let due = server.pop_one("t").await["due_at"].as_str().expect("a time").to_owned();
    assert_eq!(listed(&server, &format!("state=reserved&due_after={due}")).await, ["held"]);
    assert!(listed(&server, &format!("state=reserved&due_before={due}")).await.is_empty());
}

pub async fn a_page_examines_at_most_ten_thousand_jobs(server: Server) {
    for start in (0..10_500).step_by(500) {
        put_delayed(&server, start + 10_000..start + 10_500).await;
    }
    // The last job of all buckets together.
    let query = "state=delayed&id_contains=d:20499";
    let page = server.get(&format!("/topics/t/jobs?{query}")).await.ok(200);
    let first = page["jobs"].as_array().expect("jobs").len();
    assert!(page["cursor"].is_string(), "500 jobs were not examined: {page}");
    let cursor = page["cursor"].as_str().expect("a cursor");
    let page = server.get(&format!("/topics/t/jobs?{query}&cursor={cursor}")).await.ok(200);
    let second = page["jobs"].as_array().expect("jobs").len();
    assert_eq!((first + second, page["cursor"].is_null()), (1, true), "{page}");
}

pub async fn a_cursor_belongs_to_its_filters(server: Server) {
    bury(&server, &DEAD).await;
    let query = "state=dead&id_contains=:&limit=1";
    let page = server.get(&format!("/topics/t/jobs?{query}")).await.ok(200);
    let cursor = page["cursor"].as_str().expect("a cursor");
    server.get(&format!("/topics/t/jobs?{query}&cursor={cursor}")).await.ok(200);
    for other in [
        "state=dead",
        "state=dead&id_contains=b",
        "state=dead&error_contains=:",
        "state=dead&id_contains=:&died_after=1000000000000",
    ] {
        let refused = server.get(&format!("/topics/t/jobs?{other}&cursor={cursor}")).await;
        assert_eq!(refused.problem(422, "invalid_field")["field"], "cursor", "{other}");
    }
}

pub async fn a_kick_takes_the_dead_that_match(server: Server) {
    bury(&server, &DEAD).await;
    let kick =
        async |query: &str| server.post(&format!("/topics/t/kick?{query}"), "").await.ok(200);
    assert_eq!(kick("error_contains=such").await, json!({"kicked": 3, "more": false}));
    assert_eq!(listed(&server, "state=dead").await, ["a:2", "b:3"]);
    assert_eq!(server.pop_one("t").await["attempt"], 1);
    assert_eq!(kick("error_contains=such").await, json!({"kicked": 0, "more": false}));

    server.delete("/topics/t/jobs?state=ready").await.ok(200);
    server.delete("/topics/t/jobs?state=reserved").await.ok(200);
    let many: Vec<(String, &str)> = (0..12).map(|n| (format!("m:{n}"), "many")).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(id, error)| (id.as_str(), *error)).collect();
    bury(&server, &many).await;
    assert_eq!(kick("error_contains=many&limit=5").await, json!({"kicked": 5, "more": true}));
    assert_eq!(kick("id_contains=m:&limit=7").await, json!({"kicked": 7, "more": false}));
    // Without a filter, too.
    assert_eq!(kick("limit=1&state=dead").await, json!({"kicked": 1, "more": true}));
    assert_eq!(kick("limit=1").await, json!({"kicked": 1, "more": false}));
}

pub async fn delayed_jobs_of_a_topic_are_kicked_by_due_time(server: Server) {
    put_delayed(&server, 1000..1030).await;
    let kick = async |query: &str| {
        server.post(&format!("/topics/t/kick?state=delayed&{query}"), "").await.ok(200)
    };
    assert_eq!(kick("id_contains=d:101&limit=3").await, json!({"kicked": 3, "more": true}));
    let ready = listed(&server, "state=ready").await;
    assert!(ready.iter().all(|id| id.starts_with("d:101")) && ready.len() == 3, "{ready:?}");
    let due = server.get("/jobs/d:1025").await.ok(200)["due_at"].as_str().expect("one").to_owned();
    assert_eq!(kick(&format!("due_after={due}")).await, json!({"kicked": 5, "more": false}));
    assert_eq!(kick("limit=10").await, json!({"kicked": 10, "more": true}));
    assert_eq!(kick("").await, json!({"kicked": 12, "more": false}));
    assert_eq!(server.get("/topics/t").await.ok(200)["ready"], 30);
    assert_eq!(server.pop("t/pop?count=100").await.len(), 30);
}

pub async fn a_purge_takes_only_jobs_that_match(server: Server) {
    bury(&server, &DEAD).await;
    put_delayed(&server, 100..110).await;
    let purge = async |query: &str| server.delete(&format!("/topics/t/jobs?{query}")).await.ok(200);
    let none = json!({"purged": 0, "more": false});
    assert_eq!(purge("state=ready&id_contains=d").await, none);
    assert_eq!(
        purge("state=dead&error_contains=no+such&id_contains=b").await,
        json!({"purged": 1, "more": false})
    );
    assert_eq!(listed(&server, "state=dead").await, ["a:1", "a:2", "b:1", "b:3"]);
    // Over all states: one dead and two delayed jobs.
    assert_eq!(
        purge("id_contains=:1&error_contains=No").await,
        json!({"purged": 1, "more": false})
    );
    assert_eq!(purge("id_contains=9").await, json!({"purged": 1, "more": false}));
    assert_eq!(purge("id_contains=:1").await, json!({"purged": 10, "more": false}));
    assert_eq!(listed(&server, "state=dead").await, ["a:2", "b:3"]);
    assert_eq!(purge("state=dead&died_after=1000000000000").await["purged"], 2);
    assert_eq!(purge("").await, none);
}

pub async fn a_dry_run_changes_nothing(server: Server) {
    bury(&server, &DEAD).await;
    put_delayed(&server, 100..110).await;
    let kick =
        async |query: &str| server.post(&format!("/topics/t/kick?{query}"), "").await.ok(200);
    let purge = async |query: &str| server.delete(&format!("/topics/t/jobs?{query}")).await.ok(200);
    let would =
        |verb: &str, jobs: u64, more: bool| json!({verb: jobs, "more": more, "dry_run": true});
    for (query, jobs, more) in [
        ("", 5, false),
        ("limit=4&", 4, true),
        ("limit=5&", 5, false),
        ("error_contains=such&", 3, false),
        ("error_contains=such&limit=2&", 2, true),
        ("error_contains=such&limit=3&", 3, false),
        ("state=delayed&", 10, false),
        ("state=delayed&id_contains=9&", 1, false),
    ] {
        let answer = kick(&format!("{query}dry_run=true")).await;
        assert_eq!(answer, would("kicked", jobs, more), "{query}");
    }
    for (query, jobs) in
        [("", 15), ("state=dead&", 5), ("id_contains=:1&", 12), ("state=ready&id_contains=1&", 0)]
    {
        let answer = purge(&format!("{query}dry_run=true")).await;
        assert_eq!(answer, would("purged", jobs, false), "{query}");
    }
    let topic = server.get("/topics/t").await.ok(200);
    assert_eq!((&topic["dead"], &topic["delayed"]), (&json!(5), &json!(10)));
    assert_eq!(kick("dry_run=false&limit=1").await, json!({"kicked": 1, "more": true}));
}

pub async fn a_bad_filter_is_refused_by_its_name(server: Server) {
    let (list, kick, purge) =
        ("GET /topics/t/jobs", "POST /topics/t/kick", "DELETE /topics/t/jobs");
    let long = format!("state=dead&error_contains={}", "x".repeat(257));
    for (route, query, field) in [
        (list, "state=dead&error_contains=", "error_contains"),
        (list, long.as_str(), "error_contains"),
        (list, "state=ready&died_after=1000000000000", "died_after"),
        (list, "state=dead&due_before=1000000000000", "due_before"),
        (list, "state=dead&dry_run=true", "dry_run"),
        (kick, "state=ready", "state"),
        (kick, "state=gone", "state"),
        (kick, "due_after=1000000000000", "due_after"),
        (kick, "state=delayed&died_before=1000000000000", "died_before"),
        (kick, "died_before=never", "died_before"),
        (kick, "id_contains=a&id_contains=b", "id_contains"),
        (kick, "dry_run=1", "dry_run"),
        (kick, "limit=0&id_contains=a", "limit"),
        (purge, "died_after=1000000000000", "died_after"),
        (purge, "due_after=1000000000000", "due_after"),
        (purge, "state=finished&died_after=1000000000000", "died_after"),
        (purge, "limit=5", "limit"),
        (purge, "cursor=a", "cursor"),
    ] {
        let (method, path) = route.split_once(' ').expect("a method");
        let method = method.parse().expect("a method");
        let answer = server.call(method, &format!("{path}?{query}"), "").await;
        assert_eq!(answer.problem(422, "invalid_field")["field"], field, "{route} {query}");
    }
}
