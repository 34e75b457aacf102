//! Filters of the jobs of a topic: lists, kicks and purges.

use crate::api::prelude::*;

/// Puts jobs with these ids and errors, and buries them.
async fn bury(server: &Server, jobs: impl IntoIterator<Item = (String, &str)>) {
    for (id, error) in jobs {
        server.put(json!({"topic": "t", "id": id})).await;
        let request = with(&server.hold("t").await, json!({ "error": error }));
        server.act(&id, "bury", request).await.ok(200);
    }
}

async fn put_delayed(server: &Server, delays: impl Iterator<Item = u64>) {
    let job = |n| json!({"topic": "t", "id": format!("d:{n}"), "delay": n});
    server.put_all(delays.map(job)).await;
}

async fn listed(server: &Server, query: &str) -> Vec<String> {
    let jobs = server.all_pages(&format!("/topics/t/jobs?{query}")).await;
    let mut ids: Vec<String> = jobs.iter().map(|job| id_of(job).to_owned()).collect();
    ids.sort();
    ids
}

async fn kick(server: &Server, query: &str) -> Value {
    server.post(&format!("/topics/t/kick?{query}"), "").await.ok(200)
}

async fn purge(server: &Server, query: &str) -> Value {
    server.delete(&format!("/topics/t/jobs?{query}")).await.ok(200)
}

fn dead() -> impl Iterator<Item = (String, &'static str)> {
    let errors = ["no such shop", "timeout", "No such shop", "no such shop, 100 % sure", ""];
    ["a:1", "a:2", "b:1", "b:2", "b:3"].map(str::to_owned).into_iter().zip(errors)
}

pub async fn a_list_shows_only_jobs_that_match(server: Server) {
    bury(&server, dead()).await;
    let dead = async |query: &str| listed(&server, &format!("state=dead&{query}")).await;
    assert_eq!(dead("error_contains=no%20such").await, ["a:1", "b:2"]);
    assert_eq!(dead("error_contains=no+such&id_contains=b").await, ["b:2"]);
    assert_eq!(dead("error_contains=100%20%25").await, ["b:2"]);
    assert_eq!(dead("id_contains=:1&limit=1").await, ["a:1", "b:1"]);
    assert_eq!(dead("id_contains=A").await, Vec::<String>::new());
    let died_at = server.job("b:1").await["died_at"].clone();
    let at = died_at.as_str().expect("a time").replace('+', "%2B");
    let before = dead(&format!("died_before={at}")).await;
    let after = dead(&format!("died_after={at}")).await;
    assert!(before.contains(&"a:1".to_owned()) && after.contains(&"b:1".to_owned()));
    assert_eq!(before.len() + after.len(), 5);

    put_delayed(&server, 100..110).await;
    let due = server.job("d:105").await["due_at"].as_str().expect("one").to_owned();
    let found = listed(&server, &format!("state=delayed&id_contains=1&due_after={due}")).await;
    assert_eq!(found.len(), 5, "{found:?}");
}

pub async fn dead_jobs_are_counted_by_error(server: Server) {
    let none = json!({"errors": [], "examined": 0, "more": false});
    assert_eq!(server.get("/topics/t/errors").await.ok(200), none);
    let shops = (0..250).map(|n| (format!("shop:{n}"), "no shop 'a' at 10.0.0.7:80"));
    let shops = shops.chain([("shop:last".to_owned(), "no shop 'b' at 10.0.0.8:81")]);
    bury(&server, shops.chain([("till".to_owned(), "no till")])).await;
    server.put(json!({"topic": "t", "id": "silent", "max_attempts": 1})).await;
    let by = server.hold("t").await;
    server.act("silent", "bury", by).await.ok(200);
    bury(&server, [("other".to_owned(), "in another state")]).await;
    server.act("other", "kick", "{}").await.ok(200);

    let shop = json!({"error": "no shop 'b' at 10.0.0.8:81", "count": 251, "example": "shop:last"});
    let silent = json!({"error": null, "count": 1, "example": "silent"});
    let till = json!({"error": "no till", "count": 1, "example": "till"});
    let all = json!({"errors": [shop, silent, till], "examined": 253, "more": false});
    assert_eq!(server.get("/topics/t/errors").await.ok(200), all);
    let one = json!({"errors": [shop], "examined": 253, "more": true});
    assert_eq!(server.get("/topics/t/errors?limit=1").await.ok(200), one);
}

pub async fn a_page_examines_at_most_ten_thousand_jobs(server: Server) {
    for start in (0..10_500).step_by(500) {
        put_delayed(&server, start + 10_000..start + 10_500).await;
    }
    // The last job of all buckets together.
    let query = "state=delayed&id_contains=d:20499";
    let page = server.get(&format!("/topics/t/jobs?{query}")).await.ok(200);
    let first = page["jobs"].as_array().expect("jobs").len();
    let cursor = page["cursor"].as_str().expect("a cursor");
    let page = server.get(&format!("/topics/t/jobs?{query}&cursor={cursor}")).await.ok(200);
    let second = page["jobs"].as_array().expect("jobs").len();
    assert_eq!((first + second, page["cursor"].is_null()), (1, true), "{page}");
}

pub async fn a_cursor_belongs_to_its_filters(server: Server) {
    bury(&server, dead()).await;
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
        server.get(&format!("/topics/t/jobs?{other}&cursor={cursor}")).await.invalid("cursor");
    }
}

pub async fn a_kick_takes_the_dead_that_match(server: Server) {
    bury(&server, dead()).await;
    let kicks = async |query: &str, kicked: u64, more: bool| {
        let answer = kick(&server, query).await;
        assert_eq!(answer, json!({"kicked": kicked, "more": more}), "{query}");
    };
    kicks("error_contains=such", 3, false).await;
    assert_eq!(listed(&server, "state=dead").await, ["a:2", "b:3"]);
    assert_eq!(server.pop_one("t").await["attempt"], 1);
    kicks("error_contains=such", 0, false).await;

    server.delete("/topics/t/jobs?state=ready").await.ok(200);
    server.delete("/topics/t/jobs?state=reserved").await.ok(200);
    bury(&server, (0..12).map(|n| (format!("m:{n}"), "many"))).await;
    kicks("error_contains=many&limit=5", 5, true).await;
    kicks("id_contains=m:&limit=7", 7, false).await;
    // Without a filter, too.
    kicks("limit=1&state=dead", 1, true).await;
    kicks("limit=1", 1, false).await;

    put_delayed(&server, 1000..1030).await;
    let due = server.job("d:1025").await["due_at"].as_str().expect("one").to_owned();
    kicks("state=delayed&id_contains=d:101&limit=3", 3, true).await;
    let ready = listed(&server, "state=ready&id_contains=d:101").await;
    assert_eq!(ready.len(), 3, "{ready:?}");
    kicks(&format!("state=delayed&due_after={due}"), 5, false).await;
    kicks("state=delayed&limit=10", 10, true).await;
    kicks("state=delayed", 12, false).await;
}

pub async fn a_purge_takes_only_jobs_that_match(server: Server) {
    bury(&server, dead()).await;
    put_delayed(&server, 100..110).await;
    let purges = async |query: &str, purged: u64| {
        let answer = purge(&server, query).await;
        assert_eq!(answer, json!({"purged": purged, "more": false}), "{query}");
    };
    purges("state=ready&id_contains=d", 0).await;
    purges("state=dead&error_contains=no+such&id_contains=b", 1).await;
    assert_eq!(listed(&server, "state=dead").await, ["a:1", "a:2", "b:1", "b:3"]);
    // Over all states: one dead and two delayed jobs.
    purges("id_contains=:1&error_contains=No", 1).await;
    purges("id_contains=9", 1).await;
    purges("id_contains=:1", 10).await;
    assert_eq!(listed(&server, "state=dead").await, ["a:2", "b:3"]);
    purges("state=dead&died_after=1000000000000", 2).await;
    purges("", 0).await;
}

pub async fn a_dry_run_changes_nothing(server: Server) {
    bury(&server, dead()).await;
    put_delayed(&server, 100..110).await;
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
        let answer = kick(&server, &format!("{query}dry_run=true")).await;
        assert_eq!(answer, would("kicked", jobs, more), "{query}");
    }
    for (query, jobs) in
        [("", 15), ("state=dead&", 5), ("id_contains=:1&", 12), ("state=ready&id_contains=1&", 0)]
    {
        let answer = purge(&server, &format!("{query}dry_run=true")).await;
        assert_eq!(answer, would("purged", jobs, false), "{query}");
    }
    assert_shows(&server.topic("t").await, json!({"dead": 5, "delayed": 10}));
    assert_eq!(kick(&server, "dry_run=false&limit=1").await, json!({"kicked": 1, "more": true}));
}
